use super::*;
use crate::wire::function::ArgumentMapping;

/// The most bytes that the list of all tools may take of a model's context.
const MAX_LIST_BYTES: usize = 8_000;
const MAX_TOOLS: usize = 12;

fn listed(structured: bool) -> String {
    let tools: Vec<Value> =
        ToolSelection::default().offered_tools(None).map(|offer| offer.describe(structured)).collect();
    json!({ "tools": tools }).to_string()
}

#[test]
fn the_list_stays_cheap() {
    let text = listed(false);
    println!("{} bytes, {} with output schemas", text.len(), listed(true).len());
    assert!(text.len() <= MAX_LIST_BYTES, "{} bytes", text.len());
    assert!(tool_names().count() <= MAX_TOOLS);
}

#[test]
fn names_are_one_plain_word_and_unique() {
    let mut all: Vec<&str> = tool_names().collect();
    assert!(all.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase())));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), tool_names().count());
}

/// The schema of the field that an argument becomes.
fn field<'s>(request: &'s Value, name: &str, shape: ArgumentMapping) -> Option<&'s Value> {
    let own = request["properties"].get(name);
    match shape {
        ArgumentMapping::Request => own,
        ArgumentMapping::Entry(list, beside) => match beside.contains(&name) || name == list {
            true => own,
            false => entry(request, &request["properties"][list]["items"])?["properties"].get(name),
        },
    }
}

/// The object among what an entry of a list may be.
fn entry<'s>(request: &'s Value, items: &'s Value) -> Option<&'s Value> {
    if let Some(name) = items["$ref"].as_str().and_then(|name| name.strip_prefix("#/definitions/")) {
        return entry(request, &request["definitions"][name]);
    }
    match items["anyOf"].as_array() {
        Some(branches) => branches.iter().find_map(|branch| entry(request, branch)),
        None => items.get("properties").map(|_| items),
    }
}

fn admits(request: &Value, schema: &Value, kind: &str) -> bool {
    let text = schema.to_string();
    let named = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
    let referred = named
        .filter_map(|branch| branch["$ref"].as_str()?.strip_prefix("#/definitions/"))
        .map(|name| request["definitions"][name].to_string());
    text.contains(&format!("\"{kind}\"")) || referred.into_iter().any(|text| text.contains(&format!("\"{kind}\"")))
}

#[test]
fn every_argument_is_a_field_of_the_request_and_of_its_type() {
    for offer in all_tools() {
        let input = parse_object(offer.tool.input_schema);
        let request = serde_json::to_value((offer.function.request_schema)()).unwrap();
        let own = ["old", "new", "expect_matches", "all"];
        for (name, schema) in input["properties"].as_object().unwrap() {
            if offer.tool.name == "edit" && own.contains(&name.as_str()) {
                continue;
            }
            let field = field(&request, name, offer.tool.argument_mapping)
                .unwrap_or_else(|| panic!("{}: {name} is no field", offer.tool.name));
            let kind = schema["type"].as_str().unwrap_or("string");
            assert!(admits(&request, field, kind), "{}: {name} is {kind}, the field {field}", offer.tool.name);
        }
        for name in input.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(input["properties"].get(name.as_str().unwrap()).is_some());
        }
    }
}

#[test]
fn an_example_holds_the_arguments_that_its_tool_needs() {
    for offer in all_tools() {
        let Some(example) = offer.tool.description.split("Example: ").nth(1) else { continue };
        let example: Map<String, Value> = serde_json::from_str(example).unwrap();
        let input = parse_object(offer.tool.input_schema);
        let known: Vec<String> = property_names(&input).collect();
        assert!(example.keys().all(|key| known.contains(key)), "{}", offer.tool.name);
        for name in input.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(example.contains_key(name.as_str().unwrap()), "{}", offer.tool.name);
        }
    }
}

#[test]
fn defaults_that_matter_are_in_the_descriptions() {
    let limits = crate::wire::Limits::default();
    for (tool, default) in [
        ("read", format!("{} KiB", crate::frontends::mcp::DEFAULT_REPLY_BYTES >> 10)),
        ("list", format!("page_size: default {}", limits.list_default_page_size)),
        ("tree", format!("max_depth: default {}", limits.tree_default_depth)),
        ("search", "max_matches: default 100".into()),
        ("find", "limit: default 200".into()),
    ] {
        let offer = ToolSelection::default().find_tool(tool, None).unwrap();
        assert!(offer.tool.description.contains(&default), "{tool}: {default}");
    }
}

#[test]
fn every_tool_has_a_title_and_all_hints() {
    for offer in all_tools() {
        let listed = offer.describe(false);
        let hints = &listed["annotations"];
        assert!(!listed["title"].as_str().unwrap().is_empty());
        assert_eq!(hints["readOnlyHint"], offer.is_read_only());
        assert_eq!(hints["destructiveHint"], !offer.is_read_only(), "{}: every change may replace", offer.tool.name);
        assert_eq!(hints["idempotentHint"], !["edit", "move"].contains(&offer.tool.name));
        assert_eq!(hints["openWorldHint"], false);
    }
}

#[test]
fn misspelled_arguments_are_named_with_what_was_meant() {
    let offer = ToolSelection::default().find_tool("read", None).unwrap();
    let unknown = |arguments: &str| offer.unknown_arguments(&serde_json::from_str(arguments).unwrap());
    let said = unknown(r#"{"file_path":"x"}"#).unwrap();
    assert!(said.starts_with("file_path is not an argument of read, did you mean path?; it takes "), "{said}");
    assert_eq!(unknown(r#"{"path":"x","byte_from":1}"#), None);
}

#[test]
fn limits_hold_for_listing_and_calling() {
    let selection = ToolSelection { selected: vec!["read".into()] };
    assert_eq!(selection.offered_tools(None).count(), 1);
    assert!(selection.find_tool("create", None).unwrap_err().starts_with("C210"));
    assert!(check_tool_names(&["raed".into()]).unwrap_err().contains("did you mean read?"));
}
