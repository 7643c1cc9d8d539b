use serde_json::json;

use super::*;

fn names(params: Value) -> Vec<(String, Option<String>)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let entries = sent_entries(&params, 1000).into_iter();
    entries.map(|entry| (text(entry.names.path), entry.names.to.map(text))).collect()
}

#[test]
fn names_are_found_in_every_kind_of_entry() {
    let one = |path: &str| (path.to_owned(), None);
    let params = json!({"paths": ["a", {"path": "b"}, {"path_bytes": "Yw=="}, 7, {"path": 7}]});
    assert_eq!(names(params), [one("a"), one("b"), one("c"), one(""), one("")]);
    let params = json!({"files": [{"from": "a", "to": "b"}, {"from_bytes": "YQ==", "to_bytes": "Yg=="}, {"to": "b"}]});
    let both = |from: &str| (from.to_owned(), Some("b".to_owned()));
    assert_eq!(names(params), [both("a"), both("a"), both("")]);
}

#[test]
fn a_relative_name_stands_behind_its_base_dir() {
    let params = json!({"base_dir": "/srv/in", "files": [{"from": "a", "to": "/srv/b"}, {"path": "../c"}]});
    let expected = [("/srv/in/a".to_owned(), Some("/srv/b".to_owned())), ("/srv/in/../c".to_owned(), None)];
    assert_eq!(names(params), expected);
}

#[test]
fn a_request_without_entries_stands_for_one() {
    for params in [json!({}), json!(null), json!({"files": []}), json!({"files": {"path": "a"}}), json!([1])] {
        assert_eq!(sent_entries(&params, 1000), [SentEntry::default()], "{params}");
    }
}

#[test]
fn no_more_entries_are_kept_than_a_batch_may_have() {
    assert_eq!(sent_entries(&json!({"paths": vec!["a"; 50]}), 7).len(), 7);
    assert_eq!(sent_entries(&json!({"ids": vec!["a"; 50]}), 7).len(), 7);
}

#[test]
fn an_id_of_the_trash_is_no_path() {
    let entries = sent_entries(&json!({"ids": ["1-2", {"id": "3-4"}, {}]}), 1000);
    let ids: Vec<_> = entries.iter().map(|entry| entry.trash_id.as_deref()).collect();
    assert_eq!(ids, [Some("1-2"), Some("3-4"), None]);
    let refused = refused_outcomes(entries, Code::BadInput);
    assert_eq!(refused[1].effect.trash_id.as_deref(), Some("3-4"));
    assert_eq!(refused[1].kind, OutcomeKind::Refused { code: Code::BadInput, denied: false });
}
