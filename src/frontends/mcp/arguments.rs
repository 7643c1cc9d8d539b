//! Runs in `stockade mcp`: turns the flat arguments of a tool into the request of its function, with defaults that suit a model.
//! Pure. Does not trust the arguments, and does not check them either: it never overrides a field that the caller has set, and
//! passes on every field, known or not, because the service checks them.

use serde_json::value::{RawValue, to_raw_value};

use super::{object::JsonObject, tools::OfferedTool};
use crate::wire::function::ArgumentMapping;

/// Bytes of a file that is read as a whole. A model's context is smaller than a policy's `max_output_bytes`; the rest can be read
/// in parts.
const READ_BYTES: u64 = 64 << 10;

/// Matches of one reply, and bytes shown of each line.
const SEARCH_MATCHES: u64 = 100;
const SEARCH_LINE_BYTES: u64 = 400;

/// Arguments that decide about the window themselves.
const WINDOW_ARGUMENTS: [&str; 6] = ["line_from", "line_to", "tail", "byte_from", "byte_to", "stat"];

/// The request, or what is wrong with the arguments.
pub(super) fn build_request(offer: &OfferedTool, mut arguments: JsonObject) -> Result<JsonObject, String> {
    match offer.tool.name {
        "read" => set_read_defaults(&mut arguments),
        "search" => set_search_defaults(&mut arguments),
        "tree" => obey_ignore_files(&mut arguments),
        "edit" => expand_replacement(&mut arguments)?,
        _ => {}
    }
    Ok(match offer.tool.argument_mapping {
        ArgumentMapping::Request => arguments,
        ArgumentMapping::Entry(list, beside) => wrap_entry(arguments, list, beside),
    })
}

/// Makes the arguments the only entry of a list. If the caller sent the list itself, nothing is changed.
fn wrap_entry(mut arguments: JsonObject, list: &str, beside: &[&str]) -> JsonObject {
    if !arguments.has(list) {
        let entry = arguments.split(|name| !beside.contains(&name));
        arguments.set(list, &[entry]);
    }
    arguments
}

fn set_read_defaults(arguments: &mut JsonObject) {
    if arguments.has("paths") {
        if let Some(paths) = arguments.decode::<Vec<&RawValue>>("paths") {
            let paths: Vec<Box<RawValue>> = paths.into_iter().map(number_entry).collect();
            arguments.set("paths", &paths);
        }
        return;
    }
    if !WINDOW_ARGUMENTS.iter().any(|name| arguments.has(name)) {
        arguments.set_default("truncate", &true);
        arguments.set_default("max_output_bytes", &READ_BYTES);
    }
    number_lines(arguments);
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

/// Lines carry their numbers unless something else is asked for.
fn number_lines(arguments: &mut JsonObject) {
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

/// `old` and `new` are the one op that nearly every edit is.
fn expand_replacement(arguments: &mut JsonObject) -> Result<(), String> {
    let example = r#"for example {"path":"src/main.rs","old":"let n = 1;","new":"let n = 2;"}"#;
    let is_short = arguments.has("old") || arguments.has("new");
    match (is_short, arguments.has("ops"), arguments.has("files")) {
        (false, false, false) => return Err(format!("C210 edit: give old and new, or ops; {example}")),
        (true, true, _) | (true, _, true) => {
            return Err(
                "C210 edit: give old and new, or ops, not both; in ops it is {\"op\":\"str_replace\",\"old\",\"new\"}"
                    .into(),
            );
        }
        (false, ..) => return Ok(()),
        (true, false, false) => {}
    }
    let mut op = JsonObject::default();
    op.set("op", &"str_replace");
    for name in ["old", "new", "expect_matches"] {
        match arguments.take(name) {
            Some(value) => op.set_raw(name, value),
            None if name == "expect_matches" => {}
            None => return Err(format!("C210 edit: {name} is missing beside its other half; {example}")),
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
        let arguments = serde_json::from_str(&arguments.to_string()).unwrap();
        build_request(&offer, arguments).map(|request| serde_json::to_value(request).unwrap())
    }

    #[test]
    fn flat_arguments_become_one_entry() {
        assert_eq!(
            built("create", json!({"path": "a", "content": "x", "atomic": true})).unwrap(),
            json!({"files": [{"path": "a", "content": "x"}], "atomic": true})
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
        assert_eq!(built("create", batch.clone()).unwrap(), batch);
    }

    #[test]
    fn old_and_new_are_one_replacement() {
        assert_eq!(
            built("edit", json!({"path": "a", "old": "x", "new": "y", "expect_matches": 2, "dry_run": true})).unwrap(),
            json!({"dry_run": true, "files": [{"path": "a", "ops": [
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
    fn reads_are_numbered_and_bounded_unless_told_otherwise() {
        assert_eq!(
            built("read", json!({"path": "a"})).unwrap(),
            json!({"path": "a", "numbered": true, "truncate": true, "max_output_bytes": READ_BYTES})
        );
        assert_eq!(
            built("read", json!({"path": "a", "tail": 3, "numbered": false})).unwrap(),
            json!({"path": "a", "tail": 3, "numbered": false})
        );
        assert_eq!(built("read", json!({"path": "a", "stat": true})).unwrap(), json!({"path": "a", "stat": true}));
        assert_eq!(
            built("read", json!({"paths": ["a", {"path": "b", "encoding": "base64"}]})).unwrap(),
            json!({"paths": [{"path": "a", "numbered": true}, {"path": "b", "encoding": "base64"}]})
        );
    }
}
