use proptest::prelude::*;
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

/// Any JSON, with comments and commas where a person may put them.
fn commented(value: &Value, noise: &mut impl Iterator<Item = u8>, text: &mut String) {
    let space = |noise: &mut dyn Iterator<Item = u8>, text: &mut String| match noise.next().unwrap_or(0) % 6 {
        0 => text.push_str(" // {\"a\": [\n"),
        1 => text.push_str("/* } */"),
        2 => text.push_str("\n\t"),
        3 => text.push_str("\r\n  "),
        _ => {}
    };
    let separated = |at: usize, count: usize, noise: &mut dyn Iterator<Item = u8>, text: &mut String| {
        space(noise, text);
        if at + 1 < count || noise.next().unwrap_or(0).is_multiple_of(2) {
            text.push(',');
        }
    };
    space(noise, text);
    match value {
        Value::Object(members) => {
            text.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                space(noise, text);
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                commented(member, noise, text);
                separated(at, members.len(), noise, text);
            }
            space(noise, text);
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                commented(item, noise, text);
                separated(at, items.len(), noise, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
    space(noise, text);
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("mcpServers"), Just("stockade"), Just("args"), Just("//"), Just("a\"b\\"), Just("é")];
    let plain = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        prop_oneof![Just("/* x"), Just("},"), Just("\\\""), Just("// y")].prop_map(Value::from),
    ];
    plain.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Every file with an object where the servers belong can be edited, and only the entry of this server changes.
    #[test]
    fn any_file_with_comments_can_be_edited(value in any_json(), noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut text = String::new();
        commented(&value, &mut noise.into_iter(), &mut text);
        prop_assert_eq!(&parse(&text).unwrap(), &value, "{}", text);
        let is_possible = value.is_object() && value.get("mcpServers").is_none_or(Value::is_object);
        match set_entry(&text) {
            Ok(edited) => {
                prop_assert!(is_possible);
                let after = parse(&edited).unwrap();
                prop_assert_eq!(&after["mcpServers"]["stockade"]["command"], "/bin/stockade");
                let (mut old, mut new) = (value, after);
                for value in [&mut old, &mut new] {
                    value["mcpServers"]["stockade"] = Value::Null;
                }
                prop_assert_eq!(old, new);
            }
            Err(refused) => prop_assert!(!is_possible, "{}: {}", refused.0, text),
        }
    }
}

#[test]
fn comments_that_never_end_cost_one_look_for_their_end() {
    let text = format!("{{{}", "/* ".repeat(1 << 20));
    assert!(set_entry(&text).is_err());
}
