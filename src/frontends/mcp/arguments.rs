//! Runs in `stockade mcp`: turns the flat arguments of a tool into the request of its function, with defaults that suit a model.
//! Pure. Does not trust the arguments, and does not check them either: it never overrides a field that the caller has set, and
//! passes on every field, known or not, because the service checks them.

use serde_json::value::{RawValue, to_raw_value};

use super::{
    coerce::FieldTypes, familiar, object::JsonObject, render::TextCursor, scope::request_paths, tools::OfferedTool,
};
use crate::wire::function::ArgumentMapping;

/// Matches of one reply, and bytes shown of each line.
const SEARCH_MATCHES: u64 = 100;
const SEARCH_LINE_BYTES: u64 = 400;

/// Arguments that hold content to be written, which no reply repeats.
const CONTENT_ARGUMENTS: [&str; 5] = ["content", "old", "new", "ops", "files"];

/// These arguments belong to the op, like `old` and `new`.
const REPLACEMENT_OPTIONS: [&str; 3] = ["expect_matches", "all", "whitespace"];

/// A call with the names and types of the request.
#[derive(Debug)]
pub(super) struct PreparedCall {
    pub(super) request: JsonObject,
    /// The arguments without contents to be written, for the calls that a reply names.
    pub(super) shown: JsonObject,
    /// The paths in the list `files`, which `shown` leaves out.
    pub(super) listed_paths: Vec<String>,
    /// Contents to be written were left out of `shown`.
    pub(super) is_abridged: bool,
    /// The offset of the reply in the text of its page.
    pub(super) cursor: TextCursor,
    /// The arguments are the fields of the only entry of a list.
    pub(super) is_flat: bool,
    /// Nothing is changed, so that the call can be made again for another part of its reply.
    pub(super) is_repeatable: bool,
}

/// Gives the arguments the names and types of the request. An error is the text of a refusal.
pub(super) fn normalise(offer: &OfferedTool, arguments: &mut JsonObject) -> Result<(), String> {
    let types = FieldTypes::of(offer.function);
    types.coerce(arguments);
    familiar::rename(offer.tool.name, arguments)?;
    types.coerce(arguments);
    if offer.tool.name == "edit" { expand_edits(arguments) } else { Ok(()) }
}

/// The request for normalised arguments.
pub(super) fn prepare_call(offer: &OfferedTool, mut arguments: JsonObject) -> PreparedCall {
    let is_true = |name: &str| arguments.decode(name) == Some(true);
    let is_repeatable = offer.is_read_only() || is_true("dry_run") || (offer.tool.name == "restore" && is_true("list"));
    let cursor = if is_repeatable { take_cursor(&mut arguments) } else { TextCursor::default() };
    let shown = arguments.clone_without(&[&CONTENT_ARGUMENTS[..], &["cursor"]].concat());
    let listed_paths = if arguments.has("files") { request_paths(&arguments) } else { Vec::new() };
    let is_abridged = CONTENT_ARGUMENTS.iter().any(|name| arguments.has(name));
    match offer.tool.name {
        "read" => set_read_defaults(&mut arguments),
        "search" => set_search_defaults(&mut arguments),
        "tree" => obey_ignore_files(&mut arguments),
        "edit" | "create" => arguments.set_default("strict", &true),
        _ => {}
    }
    let (request, is_flat) = match offer.tool.argument_mapping {
        ArgumentMapping::Request => (arguments, false),
        ArgumentMapping::Entry(list, beside) => wrap_entry(arguments, list, beside),
    };
    PreparedCall { request, shown, listed_paths, is_abridged, cursor, is_flat, is_repeatable }
}

/// Takes the offset out of the cursor; the rest belongs to the service. A cursor that no reply has named stays, and the
/// service refuses it.
fn take_cursor(arguments: &mut JsonObject) -> TextCursor {
    let Some(cursor) = arguments.text("cursor").and_then(|cursor| TextCursor::parse(&cursor)) else {
        return TextCursor::default();
    };
    if cursor.of_service.is_empty() {
        arguments.take("cursor");
    } else {
        arguments.set("cursor", &cursor.of_service);
    }
    cursor
}

/// Makes the arguments the only entry of a list. If the caller sent the list itself, nothing is changed.
fn wrap_entry(mut arguments: JsonObject, list: &str, beside: &[&str]) -> (JsonObject, bool) {
    let is_flat = !arguments.has(list);
    if is_flat {
        let entry = arguments.split(|name| !beside.contains(&name));
        arguments.set(list, &[entry]);
    }
    (arguments, is_flat)
}

fn set_read_defaults(arguments: &mut JsonObject) {
    match arguments.decode::<Vec<&RawValue>>("paths") {
        Some(paths) => {
            let paths: Vec<Box<RawValue>> = paths.into_iter().map(number_entry).collect();
            arguments.set("paths", &paths);
        }
        None => number_lines(arguments),
    }
}

/// An entry of `paths`, which may be a path alone. The service refuses anything else.
fn number_entry(entry: &RawValue) -> Box<RawValue> {
    let mut object: JsonObject = match serde_json::from_str(entry.get()) {
        Ok(object) => object,
        Err(_) if entry.get().starts_with('"') => {
            let mut object = JsonObject::default();
            object.set_raw("path", entry.to_owned());
            object
        }
        Err(_) => return entry.to_owned(),
    };
    number_lines(&mut object);
    to_raw_value(&object).unwrap_or_else(|_| entry.to_owned())
}

/// Numbers the lines unless the arguments ask for something else. The first line number of a tail needs the number of all
/// lines.
fn number_lines(arguments: &mut JsonObject) {
    if arguments.has("tail") {
        arguments.set_default("count_lines", &true);
    }
    let other = ["numbered", "format", "byte_from", "byte_to"];
    let is_set = |name: &str| arguments.get(name).is_some_and(|value| value.get() != "false");
    let is_exact = arguments.text("encoding").is_some_and(|encoding| encoding == "base64");
    if !is_exact && !is_set("stat") && !other.iter().any(|name| arguments.has(name)) {
        arguments.set("numbered", &true);
    }
}

/// `find` does so by itself, and a model expects one rule.
fn obey_ignore_files(arguments: &mut JsonObject) {
    arguments.set_default("gitignore", &true);
}

fn set_search_defaults(arguments: &mut JsonObject) {
    obey_ignore_files(arguments);
    arguments.set_default("max_matches", &SEARCH_MATCHES);
    arguments.set_default("max_line_bytes", &SEARCH_LINE_BYTES);
    // `find` is for names.
    arguments.set_default("search_paths", &false);
}

/// `old` and `new` are the one op that nearly every edit is, of a call and of each of its `files`.
fn expand_edits(arguments: &mut JsonObject) -> Result<(), String> {
    let Some(files) = arguments.decode::<Vec<Box<RawValue>>>("files") else {
        return expand_replacement(arguments, "C210 edit: ");
    };
    if ["path", "old", "new", "ops"].iter().any(|name| arguments.has(name)) {
        return Err("C210 edit: give path with old and new, or path with ops, or files, not several of them".into());
    }
    let mut expanded = Vec::with_capacity(files.len());
    for (index, file) in files.into_iter().enumerate() {
        expanded.push(match serde_json::from_str::<JsonObject>(file.get()) {
            Ok(mut object) => {
                expand_replacement(&mut object, &format!("C210 files[{index}]: "))?;
                to_raw_value(&object).unwrap_or(file)
            }
            // The service refuses it.
            Err(_) => file,
        });
    }
    arguments.set("files", &expanded);
    Ok(())
}

/// `place`: the beginning of an error text.
fn expand_replacement(arguments: &mut JsonObject, place: &str) -> Result<(), String> {
    let example = r#"for example {"path":"src/main.rs","old":"let n = 1;","new":"let n = 2;"}"#;
    match (arguments.has("old") || arguments.has("new"), arguments.has("ops")) {
        (false, false) => return Err(format!("{place}give old and new, or ops; {example}")),
        (true, true) => {
            let form = "in ops it is {\"op\":\"str_replace\",\"old\",\"new\"}";
            return Err(format!("{place}give old and new, or ops, not both; {form}"));
        }
        (false, true) => return Ok(()),
        (true, false) => {}
    }
    let mut op = JsonObject::default();
    op.set("op", &"str_replace");
    for name in ["old", "new"] {
        let Some(value) = arguments.take(name) else {
            return Err(format!("{place}{name} is missing beside its other half; {example}"));
        };
        op.set_raw(name, value);
    }
    for name in REPLACEMENT_OPTIONS {
        if let Some(value) = arguments.take(name) {
            op.set_raw(name, value);
        }
    }
    arguments.set("ops", &[op]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::tools::ToolSelection, *};

    fn built(tool: &str, arguments: Value) -> Result<Value, String> {
        let offer = ToolSelection::default().find_tool(tool, None).unwrap();
        let mut arguments = serde_json::from_str(&arguments.to_string()).unwrap();
        normalise(&offer, &mut arguments)?;
        Ok(serde_json::to_value(prepare_call(&offer, arguments).request).unwrap())
    }

    #[test]
    fn flat_arguments_become_one_entry() {
        assert_eq!(
            built("create", json!({"path": "a", "content": "x", "atomic": true})).unwrap(),
            json!({"files": [{"path": "a", "content": "x"}], "atomic": true, "strict": true})
        );
        assert_eq!(
            built("delete", json!({"path": "a", "recursive": true, "if_match": "e"})).unwrap(),
            json!({"paths": [{"path": "a", "if_match": "e"}], "recursive": true})
        );
        assert_eq!(
            built("move", json!({"from": "a", "to": "b"})).unwrap(),
            json!({"files": [{"from": "a", "to": "b"}]})
        );
    }

    #[test]
    fn a_batch_as_the_wire_knows_it_stays_one() {
        let batch = json!({"files": [{"path": "a", "content": ""}, {"path": "b", "content": ""}]});
        let mut expected = batch.clone();
        expected["strict"] = true.into();
        assert_eq!(built("create", batch).unwrap(), expected);
    }

    #[test]
    fn the_paths_of_a_batch_are_kept_without_its_contents() {
        let offer = ToolSelection::default().find_tool("edit", None).unwrap();
        let call = json!({"files": [{"path": "a", "old": "x", "new": "y"}, {"path": "b", "ops": []}]});
        let prepared = prepare_call(&offer, serde_json::from_str(&call.to_string()).unwrap());
        assert!(prepared.is_abridged && !prepared.shown.has("files"));
        assert_eq!(prepared.listed_paths, ["a", "b"]);
    }

    #[test]
    fn old_and_new_are_one_replacement() {
        assert_eq!(
            built("edit", json!({"path": "a", "old": "x", "new": "y", "expect_matches": 2, "dry_run": true})).unwrap(),
            json!({"dry_run": true, "strict": true, "files": [{"path": "a", "ops": [
                {"op": "str_replace", "old": "x", "new": "y", "expect_matches": 2}]}]})
        );
        for bad in [json!({"path": "a"}), json!({"path": "a", "old": "x"}), json!({"path": "a", "new": "x", "ops": []})]
        {
            assert!(built("edit", bad.clone()).unwrap_err().starts_with("C210 edit: "), "{bad}");
        }
    }

    #[test]
    fn searches_and_trees_obey_ignore_files_unless_told_otherwise() {
        for tool in ["search", "tree"] {
            assert_eq!(built(tool, json!({})).unwrap()["gitignore"], true);
            assert_eq!(built(tool, json!({"gitignore": false})).unwrap()["gitignore"], false);
        }
        assert_eq!(
            built("find", json!({"paths": ["a"]})).unwrap(),
            json!({"paths": ["a"]}),
            "the service's own default"
        );
    }

    #[test]
    fn reads_are_numbered_unless_told_otherwise() {
        assert_eq!(built("read", json!({"path": "a"})).unwrap(), json!({"path": "a", "numbered": true}));
        assert_eq!(
            built("read", json!({"path": "a", "tail": 3, "numbered": false})).unwrap(),
            json!({"path": "a", "tail": 3, "numbered": false, "count_lines": true})
        );
        assert_eq!(built("read", json!({"path": "a", "stat": true})).unwrap(), json!({"path": "a", "stat": true}));
        assert_eq!(
            built("read", json!({"paths": ["a", {"path": "b", "encoding": "base64"}]})).unwrap(),
            json!({"paths": [{"path": "a", "numbered": true}, {"path": "b", "encoding": "base64"}]})
        );
    }
}
