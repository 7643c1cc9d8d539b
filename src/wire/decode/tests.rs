use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::wire::Code;

/// The forms that request types take: plain, optional, flattened, tagged, untagged.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"files": [{"path": "src/main.rs", "line_from": 10}], "mode": "fast"}]))]
struct Request {
    files: Vec<File>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    options: Option<Options>,
    #[serde(default)]
    labels: BTreeMap<String, Options>,
    #[serde(default)]
    anything: Value,
    #[serde(flatten)]
    window: Window,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum File {
    Name(String),
    Entry(Entry),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Entry {
    path: String,
    #[serde(default)]
    line_from: Option<u32>,
    #[serde(default)]
    ops: Vec<Op>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    InsertLines { at_line: u32, content: String },
    Remove { from_line: u32 },
    Wrapped(Options),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Careful,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Options {
    #[serde(default)]
    depth: u8,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Window {
    #[serde(default)]
    byte_from: u64,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Nothing {}

/// Its schema is more lenient than its rule.
#[derive(Debug, Deserialize, JsonSchema)]
struct Ruled {
    #[serde(rename = "even")]
    #[schemars(with = "u32")]
    _even: Even,
}

#[derive(Debug)]
struct Even;

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let n = u32::deserialize(deserializer)?;
        if n % 2 == 0 { Ok(Self) } else { Err(serde::de::Error::custom(format!("{n} is odd; send an even number"))) }
    }
}

fn warned<T: DeserializeOwned + JsonSchema + 'static>(value: Value, at: &str) -> Vec<String> {
    let mut warnings = Warnings::default();
    decode::<T>(value, at, &mut warnings).unwrap();
    warnings.as_slice().to_vec()
}

fn refused(value: Value) -> String {
    let error = decode::<Request>(value, "", &mut Warnings::default()).unwrap_err();
    assert_eq!(error.code, Code::BadInput);
    error.message
}

#[test]
fn unknown_fields_are_named_at_every_place_with_what_was_meant() {
    let value = json!({
        "files": [
            "plain",
            {"path": "a", "filepath": "b", "lineFrom": 1, "zzz": {"zzz": 1}},
            {"path": "b", "ops": [
                {"op": "remove", "from_line": 1, "to_lin": 1},
                {"op": "insert_lines", "at_line": 1, "content": "", "from_line": 3},
                {"op": "wrapped", "dept": 1},
            ]},
        ],
        "options": {"dpeth": 1},
        "labels": {"any name": {"depht": 1}},
        "anything": {"goes": {"here": 1}},
        "byte_form": 1,
    });
    let mut got = warned::<Request>(value, "");
    got.sort_unstable();
    assert_eq!(
        got,
        [
            "byte_form: unknown field, ignored; did you mean byte_from?",
            "files[1].filepath: unknown field, ignored; did you mean path?",
            "files[1].lineFrom: unknown field, ignored; did you mean line_from?",
            "files[1].zzz: unknown field, ignored",
            "files[2].ops[0].to_lin: unknown field, ignored",
            "files[2].ops[1].from_line: unknown field, ignored",
            "files[2].ops[2].dept: unknown field, ignored; did you mean depth?",
            "labels.any name.depht: unknown field, ignored; did you mean depth?",
            "options.dpeth: unknown field, ignored; did you mean depth?",
        ]
    );
}

#[test]
fn a_value_of_no_known_form_is_not_made_of_unknown_fields() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Lazy {
        #[schemars(with = "Vec<Op>")]
        ops: Vec<Value>,
    }
    let value = json!({"ops": [{"op": "removed", "from_line": 1}, {"op": "remove", "from_line": 1, "form_line": 1}]});
    assert_eq!(warned::<Lazy>(value, ""), ["ops[1].form_line: unknown field, ignored; did you mean from_line?"]);
}

#[test]
fn a_changing_request_is_refused_for_a_field_that_is_unknown_at_any_level() {
    for (value, said) in [
        (json!({"files": [], "byte_form": 1}), "byte_form: unknown field; did you mean byte_from?"),
        (
            json!({"files": ["a", {"path": "b", "lineFrom": 1}]}),
            "files[1].lineFrom: unknown field; did you mean line_from?",
        ),
        (
            json!({"files": [{"path": "b", "ops": [{"op": "wrapped", "dept": 1}]}]}),
            "files[0].ops[0].dept: unknown field; did you mean depth?",
        ),
        (
            json!({"files": [{"path": "b", "byte_from": 1}]}),
            "files[0].byte_from: unknown field; byte_from is a field of the request",
        ),
        (
            json!({"files": [], "line_from": 1}),
            "line_from: unknown field; did you mean line_from in each entry of files?",
        ),
        (json!({"files": [], "zzz": 1}), "zzz: unknown field; nothing was changed"),
    ] {
        let error = decode_change::<Request>(value).unwrap_err();
        assert!(error.code == Code::BadInput && error.message.starts_with(said), "{error}");
    }
    decode_change::<Request>(json!({"files": ["a", {"path": "b", "line_from": 1}], "byte_from": 1})).unwrap();
}

#[test]
fn known_fields_give_no_warning() {
    let value = json!({
        "files": ["a", {"path": "a", "line_from": null, "ops": [{"op": "remove", "from_line": 1}]}],
        "mode": null, "options": null, "labels": {"x": {}}, "anything": [{"a": 1}], "byte_from": 4,
    });
    assert_eq!(warned::<Request>(value, ""), [""; 0]);
}

#[test]
fn a_request_without_fields_still_names_unknown_ones() {
    assert_eq!(warned::<Nothing>(json!({"path": "a"}), ""), ["path: unknown field, ignored"]);
}

#[test]
fn an_entry_decoded_alone_keeps_its_place_in_the_request() {
    assert_eq!(
        warned::<Entry>(json!({"path": "a", "pth": 1}), "files[7]"),
        ["files[7].pth: unknown field, ignored; did you mean path?"]
    );
    let error = decode::<Entry>(json!({"path": 1}), "files[7]", &mut Warnings::default()).unwrap_err();
    assert!(error.message.starts_with("files[7].path: expected a string, got the number 1;"), "{error}");
    let error = decode::<Entry>(json!(5), "files[7]", &mut Warnings::default()).unwrap_err();
    assert!(error.message.starts_with("files[7]: expected an object with path, got the number 5;"), "{error}");
}

#[test]
fn warnings_stop_at_twenty_however_many_fields_there_are() {
    let mut value = json!({"files": []});
    (0..100_000).for_each(|i| value[format!("f{i}")] = json!(1));
    assert_eq!(warned::<Request>(value, "").len(), 21);
}

#[test]
fn a_complaint_names_the_place_what_was_expected_and_an_example() {
    let entry = |entry: Value| json!({"files": ["ok", entry]});
    for (value, text) in [
        (
            json!({}),
            r#"files: missing; expected an array in which each entry is a string or an object with path; example: {"files":[{"line_from":10,"path":"src/main.rs"}]}"#,
        ),
        (
            json!({"files": "a"}),
            r#"files: expected an array in which each entry is a string or an object with path, got the string "a"; example: {"files":[{"line_from":10,"path":"src/main.rs"}]}"#,
        ),
        (
            entry(json!(5)),
            r#"files[1]: expected a string or an object with path, got the number 5; example: {"line_from":10,"path":"src/main.rs"}"#,
        ),
        (
            entry(json!({"path": null})),
            r#"files[1].path: expected a string, got null; example: {"path":"src/main.rs"}"#,
        ),
        (
            entry(json!({"filepath": "a"})),
            r#"files[1].path: missing; expected a string (filepath is not a field; did you mean path?); example: {"path":"src/main.rs"}"#,
        ),
        (
            entry(json!({"path": "a", "line_from": "7"})),
            r#"files[1].line_from: expected a whole number from 0 to 4294967295, got the string "7"; example: {"line_from":10}"#,
        ),
        (
            entry(json!({"path": "a", "line_from": -1})),
            r#"files[1].line_from: expected a whole number from 0 to 4294967295, got the number -1; example: {"line_from":10}"#,
        ),
        (
            entry(json!({"path": "a", "line_from": 4294967296u64})),
            r#"files[1].line_from: expected a whole number from 0 to 4294967295, got the number 4294967296; example: {"line_from":10}"#,
        ),
        (
            entry(json!({"path": "a", "line_from": 1.0})),
            r#"files[1].line_from: expected a whole number from 0 to 4294967295, got the number 1.0; example: {"line_from":10}"#,
        ),
        (
            entry(json!({"path": "a", "ops": [{"op": "insert_line"}]})),
            r#"files[1].ops[0].op: expected one of "insert_lines", "remove", "wrapped", got the string "insert_line" (did you mean "insert_lines"?); example: {"op":"insert_lines"}"#,
        ),
        (
            entry(json!({"path": "a", "ops": [{"at_line": 1}]})),
            r#"files[1].ops[0].op: expected one of "insert_lines", "remove", "wrapped", got nothing; example: {"op":"insert_lines"}"#,
        ),
        (
            entry(json!({"path": "a", "ops": [{"op": "remove", "from_line": 1}, {"op": "remove", "from_line": "1"}]})),
            r#"files[1].ops[1].from_line: expected a whole number from 0 to 4294967295, got the string "1"; example: {"from_line":1}"#,
        ),
        (
            entry(json!({"path": "a", "ops": 1})),
            r#"files[1].ops: expected an array in which each entry is an object whose op is one of "insert_lines", "remove", "wrapped", got the number 1; example: {"ops":[{"at_line":1,"content":"text","op":"insert_lines"}]}"#,
        ),
        (
            json!({"files": [], "mode": "quick"}),
            r#"mode: expected one of "fast", "careful", got the string "quick"; example: {"mode":"fast"}"#,
        ),
        (
            json!({"files": [], "mode": "Careful"}),
            r#"mode: expected one of "fast", "careful", got the string "Careful" (did you mean "careful"?); example: {"mode":"fast"}"#,
        ),
        (
            json!({"files": [], "options": {"depth": 256}}),
            r#"options.depth: expected a whole number from 0 to 255, got the number 256; example: {"depth":1}"#,
        ),
        (
            json!({"files": [], "byte_from": []}),
            r#"byte_from: expected a whole number, 0 or more, got an array; example: {"byte_from":1}"#,
        ),
    ] {
        assert_eq!(refused(value.clone()), text, "{value}");
    }
}

#[test]
fn rules_that_only_the_type_knows_keep_their_own_words() {
    let error = decode::<Ruled>(json!({"even": 3}), "", &mut Warnings::default()).unwrap_err();
    assert_eq!(error.message, "even: 3 is odd; send an even number");
}

#[test]
fn client_text_does_not_make_long_messages() {
    let long = "ä".repeat(1 << 20);
    assert!(refused(json!({"files": [], "mode": long})).len() < 600);
    assert!(refused(json!({"files": [{(long.clone()): 1}]})).len() < 600);
    assert!(warned::<Request>(json!({"files": [], (long.clone()): 1}), "")[0].len() < 600);
    let deep = json!({"files": [{"path": "a", "ops": [{"op": long}]}]});
    assert!(refused(deep).len() < 600);
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "files",
        "path",
        "line_from",
        "ops",
        "op",
        "remove",
        "insert_lines",
        "from_line",
        "mode",
        "fast",
        "options",
        "depth",
        "labels",
        "x",
        "byte_from",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_accepts_what_serde_accepts_and_explains_the_rest(files in any_json(), mut value in any_json()) {
        if let Some(members) = value.as_object_mut() {
            members.insert("files".into(), files);
        }
        let plain = serde_json::from_value::<Request>(value.clone());
        match (decode::<Request>(value, "", &mut Warnings::default()), plain) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, theirs),
            (Err(error), Err(_)) => {
                prop_assert!(!error.message.contains("did not match any variant"), "{}", error.message);
            }
            (ours, theirs) => prop_assert!(false, "{ours:?} against {theirs:?}"),
        }
    }
}

/// Answers stay cheap for a request made to be expensive to explain.
#[test]
fn a_failure_at_the_end_of_a_large_batch_is_found() {
    #[derive(Serialize)]
    struct Sent {
        path: &'static str,
    }
    let mut files: Vec<Value> = (0..50_000).map(|_| json!(Sent { path: "a" })).collect();
    files.push(json!({"path": 1}));
    assert!(refused(json!({"files": files})).starts_with("files[50000].path: expected a string, got the number 1"));
}
