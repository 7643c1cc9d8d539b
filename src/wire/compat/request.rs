//! What a request of the older line may hold.

use serde_json::{Map, Value, json};

use super::{Echo, Older};
use crate::wire::{Warnings, json::shown};

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

pub(super) fn adapt(older: Older, params: &mut Value, warnings: &mut Warnings) -> Echo {
    keep(params, older.fields, "", warnings);
    let echo = Echo { path: path_of(params), entries: entries(params) };
    if let Some(params) = params.as_object_mut() {
        for (field, value) in older.defaults() {
            params.insert(field.to_owned(), value);
        }
    }
    echo
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

fn keep(value: &mut Value, fields: &Fields, at: &str, warnings: &mut Warnings) {
    let Some(members) = value.as_object_mut() else { return };
    members.retain(|name, _| {
        let is_known = fields.names.contains(&name.as_str());
        if !is_known {
            warnings.push(format!("{at}{}: unknown to wire 0.2, ignored", shown(name)));
        }
        is_known
    });
    let Some((list, inside)) = fields.inside else { return };
    for (index, entry) in list_of(members, list).iter_mut().enumerate() {
        keep(entry, inside, &format!("{at}{list}[{index}]."), warnings);
    }
}

fn list_of<'m>(members: &'m mut Map<String, Value>, name: &str) -> &'m mut [Value] {
    members.get_mut(name).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
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
