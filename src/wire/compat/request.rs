//! Translates requests of wire 0.2. Runs in the worker. Trusts nothing in the request. Never removes a field if the call
//! would then do more than its sender asked for.

use serde_json::{Value, json};

use super::{SentPaths, Wire02Function};
use crate::wire::{
    Error, Result, Warnings,
    decode::NOTHING_CHANGED,
    function::{self, FunctionClass},
    json::excerpt,
    nearest::nearest,
};

/// Fields that only restrict what a call does. Wire 0.2 does not have them, but a client that sends one relies on it, so they
/// keep their current meaning.
const GUARDS: [&str; 7] = ["atomic", "base_dir", "dry_run", "if_match", "if_none_match", "strict", "trash"];
/// The guard of calls that read: a bridge adds it to confine its client to one folder.
const BASE_DIR: &str = "base_dir";

/// Names of an object's fields. One of the fields may be a list of objects that have fields, too.
#[derive(Debug)]
pub(super) struct KnownFields {
    names: &'static [&'static str],
    entry_list: Option<(&'static str, &'static KnownFields)>,
}

const fn without_list(names: &'static [&'static str]) -> KnownFields {
    KnownFields { names, entry_list: None }
}

static TREE: KnownFields = without_list(&["path", "max_depth", "per_folder_limit"]);
static LIST_FOLDER: KnownFields = without_list(&["path", "page", "page_size"]);
static READ_FILE: KnownFields = without_list(&["path"]);
static DELETE_FILE: KnownFields = without_list(&["paths", "recursive"]);
static SEARCH: KnownFields = without_list(&[
    "query",
    "path",
    "regex",
    "ignore_case",
    "include_globs",
    "exclude_globs",
    "max_matches",
    "max_line_bytes",
    "search_content",
    "search_paths",
]);
static NEW_FILE: KnownFields = without_list(&["path", "content", "mode", "overwrite", "parents"]);
static CREATE_FILE: KnownFields = KnownFields { names: &["files"], entry_list: Some(("files", &NEW_FILE)) };
static OP: KnownFields =
    without_list(&["op", "at_line", "content", "from_line", "to_line", "pattern", "replacement", "ignore_case"]);
static EDITED_FILE: KnownFields = KnownFields { names: &["path", "ops"], entry_list: Some(("ops", &OP)) };
static UPDATE_FILE: KnownFields = KnownFields { names: &["files"], entry_list: Some(("files", &EDITED_FILE)) };

static WIRE_02_FUNCTIONS: [Wire02Function; 7] = [
    Wire02Function { name: "coder::tree", fields: &TREE },
    Wire02Function { name: "coder::list-folder", fields: &LIST_FOLDER },
    Wire02Function { name: "coder::read-file", fields: &READ_FILE },
    Wire02Function { name: "coder::delete-file", fields: &DELETE_FILE },
    Wire02Function { name: "coder::search", fields: &SEARCH },
    Wire02Function { name: "coder::create-file", fields: &CREATE_FILE },
    Wire02Function { name: "coder::update-file", fields: &UPDATE_FILE },
];

pub(super) fn find_wire_02(function: &str) -> Option<Wire02Function> {
    WIRE_02_FUNCTIONS.iter().find(|older| older.name == function).copied()
}

pub(super) fn adapt(function: Wire02Function, params: &mut Value, warnings: &mut Warnings) -> Result<SentPaths> {
    let changes = function::find_function(function.name).is_some_and(|entry| entry.class == FunctionClass::Write);
    if changes {
        check_known_fields(params, function.fields, "")?;
    } else {
        drop_unknown_fields(params, function.fields, warnings);
    }
    let sent_paths = SentPaths { path: path_of(params), entries: entry_paths(params), base_folder: None };
    if let Some(params) = params.as_object_mut() {
        for (field, value) in function.defaults() {
            params.insert(field.to_owned(), value);
        }
    }
    Ok(sent_paths)
}

impl Wire02Function {
    /// The defaults of wire 0.2 that differ: no excludes, and no limit on the output of a read other than `max_read_bytes`,
    /// which the function itself enforces.
    fn defaults(self) -> Vec<(&'static str, Value)> {
        match self.name {
            "coder::tree" | "coder::search" => vec![("use_default_excludes", json!(false))],
            "coder::read-file" => vec![("max_output_bytes", json!(u64::MAX))],
            _ => vec![],
        }
    }
}

/// Removes the fields that wire 0.2 does not have from a reading request. Such requests have no lists of objects.
fn drop_unknown_fields(params: &mut Value, fields: &KnownFields, warnings: &mut Warnings) {
    let Some(members) = params.as_object_mut() else { return };
    members.retain(|name, _| {
        let is_known = name == BASE_DIR || fields.names.contains(&name.as_str());
        if !is_known {
            warnings.push(format!("{}: unknown to wire 0.2, ignored", excerpt(name)));
        }
        is_known
    });
}

/// C210 for the first field of a changing request that wire 0.2 does not have and that is no guard. Guards stay;
/// `decode_change` refuses one at a place where the current wire does not have it.
fn check_known_fields(value: &Value, fields: &KnownFields, at: &str) -> Result<()> {
    let Some(members) = value.as_object() else { return Ok(()) };
    let known = || fields.names.iter().copied().chain(GUARDS);
    if let Some(name) = members.keys().find(|name| !known().any(|known| known == name.as_str())) {
        let hint = nearest(name, known()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(Error::bad_input(format!("{at}{}: unknown to wire 0.2{hint}; {NOTHING_CHANGED}", excerpt(name))));
    }
    let Some((list, inside)) = fields.entry_list else { return Ok(()) };
    let entries = members.get(list).and_then(Value::as_array).into_iter().flatten();
    entries
        .enumerate()
        .try_for_each(|(index, entry)| check_known_fields(entry, inside, &format!("{at}{list}[{index}].")))
}

fn path_of(value: &Value) -> Option<String> {
    value.get("path").and_then(Value::as_str).map(Into::into)
}

/// The paths of `files` or `paths`, whose entries are objects or strings.
fn entry_paths(params: &Value) -> Vec<Option<String>> {
    let list = params.get("files").or(params.get("paths")).and_then(Value::as_array);
    let entry = |entry: &Value| entry.as_str().map(Into::into).or_else(|| path_of(entry));
    list.into_iter().flatten().map(entry).collect()
}
