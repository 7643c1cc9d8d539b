use serde_json::json;

use super::*;

fn entry() -> Value {
    json!({"args": ["mcp", "--root", "/srv"], "command": "/bin/stockade"})
}

fn set_entry(text: &str) -> Result<String, NotEdited> {
    set(text, &["mcpServers", "stockade"], &entry())
}

#[test]
fn comments_trailing_commas_and_other_members_stay_byte_for_byte() {
    let text = "// mine\n{\n    \"theme\": \"a // b\", // why\n    /* servers */\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\",}, // last\n    },\n}\n";
    let edited = set_entry(text).unwrap();
    let added = "\n        \"stockade\": {\n            \"args\": [\n                \"mcp\",\n                \"--root\",\n                \"/srv\"\n            ],\n            \"command\": \"/bin/stockade\"\n        },";
    assert_eq!(edited, text.replace("\"mcpServers\": {", &format!("\"mcpServers\": {{{added}")));
    assert_eq!(set_entry(&edited).unwrap(), edited, "a second time changes nothing");
}

#[test]
fn what_is_not_there_is_made_and_lines_end_as_they_did() {
    for (text, wanted) in [
        ("{}", "{\n  \"mcpServers\": {"),
        ("{\"a\":1}", "{\n  \"mcpServers\": {"),
        ("{ // c\n}\n", "{\n  \"mcpServers\": {"),
        ("{\r\n\t\"a\": 1\r\n}\r\n", "{\r\n\t\"mcpServers\": {\r\n\t\t\"stockade\""),
        ("\u{feff}{\"mcpServers\":{}}", "{\"mcpServers\":{\n    \"stockade\""),
    ] {
        let edited = set_entry(text).unwrap();
        assert!(edited.contains(wanted), "{text:?} became {edited:?}");
        assert!(!text.contains("\r\n") || edited.matches('\n').count() == edited.matches("\r\n").count());
        assert_eq!(parse(&edited).unwrap()["mcpServers"]["stockade"], entry());
    }
}

#[test]
fn an_entry_that_is_there_keeps_what_is_not_ours() {
    let text = r#"{"mcpServers": {"stockade": {"command": "/old", "args": [], "disabled": true /* for now */}}}"#;
    let edited = set_entry(text).unwrap();
    let found = parse(&edited).unwrap();
    assert_eq!(found["mcpServers"]["stockade"]["disabled"], true);
    assert_eq!(found["mcpServers"]["stockade"]["command"], "/bin/stockade");
    assert!(edited.contains("/* for now */"));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for (text, why) in [
        ("{", "not JSON"),
        ("{\"a\": 1 \"b\": 2}", "not JSON"),
        ("[]", "not an object"),
        ("{\"mcpServers\": []}", "not an object"),
        ("{\"mcpServers\": 1}", "not an object"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "twice"),
        ("{/* never closed", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("mcpServers: {}", "not JSON"),
    ] {
        let refused = set_entry(text).unwrap_err().0;
        assert!(refused.contains(why), "{text}: {refused}");
    }
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(set_entry(&format!("{{\"a\": {deep}}}")).is_err());
}

#[test]
fn positions_of_errors_are_those_of_the_file() {
    let refused = set_entry("{\n  // one\n  \"a\": nope\n}").unwrap_err().0;
    assert!(refused.contains("line 3"), "{refused}");
}
