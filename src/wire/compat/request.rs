//! Runs in the worker: what a request of the older line may hold. Trusts nothing in the request. Never takes out a field
//! whose loss would make a call do more than its sender asked for.

use serde_json::{Value, json};

use super::{Echo, Older};
use crate::wire::{
    Error, Result, Warnings,
    decode::NOTHING_CHANGED,
    function::{self, Class},
    json::shown,
    nearest::nearest,
};

/// Fields that only narrow what a call does. The older line does not know them, but whoever sends one relies on it, so they
/// keep their present meaning.
const GUARDS: [&str; 6] = ["atomic", "base_dir", "dry_run", "if_match", "if_none_match", "trash"];
/// The guard of calls that read: a bridge puts it in to confine its client to one folder.
const BASE_DIR: &str = "base_dir";

/// Names of an object's fields; one of them may be a list of objects with fields of their own.
#[derive(Debug)]
pub(super) struct Fields {
    names: &'static [&'static str],
    inside: Option<(&'static str, &'static Fields)>,
}

const fn flat(names: &'static [&'static str]) -> Fields {
    Fields { names, inside: None }
}

static TREE: Fields = flat(&["path", "max_depth", "per_folder_limit"]);
static LIST_FOLDER: Fields = flat(&["path", "page", "page_size"]);
static READ_FILE: Fields = flat(&["path"]);
static DELETE_FILE: Fields = flat(&["paths", "recursive"]);
static SEARCH: Fields = flat(&[
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
static NEW_FILE: Fields = flat(&["path", "content", "mode", "overwrite", "parents"]);
static CREATE_FILE: Fields = Fields { names: &["files"], inside: Some(("files", &NEW_FILE)) };
static OP: Fields =
    flat(&["op", "at_line", "content", "from_line", "to_line", "pattern", "replacement", "ignore_case"]);
static EDITED_FILE: Fields = Fields { names: &["path", "ops"], inside: Some(("ops", &OP)) };
static UPDATE_FILE: Fields = Fields { names: &["files"], inside: Some(("files", &EDITED_FILE)) };

static FUNCTIONS: [Older; 7] = [
    Older { name: "coder::tree", fields: &TREE },
    Older { name: "coder::list-folder", fields: &LIST_FOLDER },
    Older { name: "coder::read-file", fields: &READ_FILE },
    Older { name: "coder::delete-file", fields: &DELETE_FILE },
    Older { name: "coder::search", fields: &SEARCH },
    Older { name: "coder::create-file", fields: &CREATE_FILE },
    Older { name: "coder::update-file", fields: &UPDATE_FILE },
];

pub(super) fn find(function: &str) -> Option<Older> {
    FUNCTIONS.iter().find(|older| older.name == function).copied()
}

pub(super) fn adapt(older: Older, params: &mut Value, warnings: &mut Warnings) -> Result<Echo> {
    let changes = function::find(older.name).is_some_and(|entry| entry.class == Class::Write);
    if changes {
        refuse_unknown(params, older.fields, "")?;
    } else {
        keep_known(params, older.fields, warnings);
    }
    let echo = Echo { path: path_of(params), entries: entries(params), base: None };
    if let Some(params) = params.as_object_mut() {
        for (field, value) in older.defaults() {
            params.insert(field.to_owned(), value);
        }
    }
    Ok(echo)
}

impl Older {
    /// No excludes, and full reads up to `max_read_bytes`, which is where the function itself stops.
    fn defaults(self) -> Vec<(&'static str, Value)> {
        match self.name {
            "coder::tree" | "coder::search" => vec![("use_default_excludes", json!(false))],
            "coder::read-file" => vec![("max_output_bytes", json!(u64::MAX))],
            _ => vec![],
        }
    }
}

/// Takes the fields out of a reading request that the line did not know. Such requests have no lists of objects.
fn keep_known(params: &mut Value, fields: &Fields, warnings: &mut Warnings) {
    let Some(members) = params.as_object_mut() else { return };
    members.retain(|name, _| {
        let is_known = name == BASE_DIR || fields.names.contains(&name.as_str());
        if !is_known {
            warnings.push(format!("{}: unknown to wire 0.2, ignored", shown(name)));
        }
        is_known
    });
}

/// C210 for the first field of a changing request that is neither of the line nor a guard. Guards stay; where one stands
/// that the present wire does not have there, `decode_change` refuses it.
fn refuse_unknown(value: &Value, fields: &Fields, at: &str) -> Result<()> {
    let Some(members) = value.as_object() else { return Ok(()) };
    let known = || fields.names.iter().copied().chain(GUARDS);
    if let Some(name) = members.keys().find(|name| !known().any(|known| known == name.as_str())) {
        let hint = nearest(name, known()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(Error::bad_input(format!(
            "{at}{}: unknown to wire 0.2{hint}; {NOTHING_CHANGED}",
            shown(name)
        )));
    }
    let Some((list, inside)) = fields.inside else { return Ok(()) };
    let entries = members.get(list).and_then(Value::as_array).into_iter().flatten();
    entries
        .enumerate()
        .try_for_each(|(index, entry)| refuse_unknown(entry, inside, &format!("{at}{list}[{index}].")))
}

fn path_of(value: &Value) -> Option<String> {
    value.get("path").and_then(Value::as_str).map(Into::into)
}

/// Of `files` or `paths`, which are objects and strings.
fn entries(params: &Value) -> Vec<Option<String>> {
    let list = params.get("files").or(params.get("paths")).and_then(Value::as_array);
    let entry = |entry: &Value| entry.as_str().map(Into::into).or_else(|| path_of(entry));
    list.into_iter().flatten().map(entry).collect()
}
