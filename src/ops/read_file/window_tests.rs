use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{jail::testing::TestJail, text::Etag};

fn read(test: &TestJail, request: Value) -> Value {
    test.run::<ReadFile>(request).unwrap()
}

fn etag(bytes: &[u8]) -> Value {
    let mut etag = Etag::default();
    etag.push(bytes);
    etag.finish().into()
}

#[test]
fn a_window_is_inclusive_and_keeps_its_terminators() {
    let test = TestJail::new();
    test.write("a", "1\r\n2\r\n3\r4\n5");
    let found = read(&test, json!({"path": "a", "line_from": 2, "line_to": 3}));
    assert_eq!((&found["content"], &found["lines_returned"]), (&"2\r\n3\r4\n".into(), &2.into()));
    assert_eq!((&found["more_lines"], &found["next_line"]), (&true.into(), &4.into()));
    assert!(found.get("truncated_reason").is_none() && found.get("hint").is_none());
}

#[test]
fn either_end_of_a_window_may_be_open() {
    let test = TestJail::new();
    test.write("a", "1\n2\n3");
    let from = read(&test, json!({"path": "a", "line_from": 2}));
    assert_eq!(
        (&from["content"], &from["total_lines"], &from["more_lines"]),
        (&"2\n3".into(), &3.into(), &false.into())
    );
    let to = read(&test, json!({"path": "a", "line_to": 2}));
    assert_eq!((&to["content"], &to["more_lines"]), (&"1\n2\n".into(), &true.into()));
}

#[test]
fn the_end_right_behind_a_window_is_seen() {
    let test = TestJail::new();
    test.write("a", "1\n2\n");
    let found = read(&test, json!({"path": "a", "line_from": 1, "line_to": 2}));
    assert_eq!((&found["total_lines"], &found["more_lines"]), (&2.into(), &false.into()));
    assert!(found.get("next_line").is_none());
}

#[test]
fn a_window_past_the_end_is_empty_and_no_error() {
    let test = TestJail::new();
    test.write("a", b"1\n\xff\n");
    for (from, to) in [(3, 9), (u64::MAX, u64::MAX), (1_000_000, u64::MAX)] {
        let found = read(&test, json!({"path": "a", "line_from": from, "line_to": to}));
        assert_eq!((&found["content"], &found["lines_returned"]), (&"".into(), &0.into()));
        assert_eq!((&found["total_lines"], &found["more_lines"]), (&2.into(), &false.into()));
        assert_eq!(found["is_utf8"], true, "the flag is about what was returned");
    }
    test.write("a", "");
    assert_eq!(read(&test, json!({"path": "a", "line_from": 1}))["total_lines"], 0);
}

#[test]
fn a_window_is_capped_by_raw_bytes_and_never_an_error() {
    let mut test = TestJail::new();
    test.write("a", b"\xff\xff\n22\n33\n");
    test.limits.max_read_bytes = 6;
    let found = read(&test, json!({"path": "a", "line_from": 1}));
    assert_eq!((&found["content"], &found["is_utf8"]), (&"\u{fffd}\u{fffd}\n22\n".into(), &false.into()));
    assert_eq!((&found["more_lines"], &found["next_line"]), (&true.into(), &3.into()));
    assert_eq!(found["truncated_reason"], "max_read_bytes");
    test.limits.max_read_bytes = 5;
    assert_eq!(read(&test, json!({"path": "a", "line_from": 1}))["lines_returned"], 1);
    test.limits.max_read_bytes = 2;
    let none = read(&test, json!({"path": "a", "line_from": 2, "line_to": 2}));
    assert_eq!((&none["content"], &none["more_lines"]), (&"".into(), &true.into()));
    assert_eq!((&none["next_line"], &none["next_byte"]), (&2.into(), &3.into()));
}

#[test]
fn a_window_does_not_care_how_large_the_file_is() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 10;
    test.write("a", "0123456789\n".repeat(20_000));
    test.limits.max_read_bytes = 11;
    let found = read(&test, json!({"path": "a", "line_from": 19_999, "line_to": 19_999, "numbered": false}));
    assert_eq!((&found["content"], &found["size"]), (&"0123456789\n".into(), &220_000.into()));
}

#[test]
fn numbers_of_a_window_are_those_of_the_file_and_count() {
    let mut test = TestJail::new();
    test.write("a", "x\n".repeat(12));
    let request = json!({"path": "a", "line_from": 9, "line_to": 10, "numbered": true});
    assert_eq!(read(&test, request.clone())["content"], "9→x\n10→x\n");
    test.limits.max_read_bytes = 13;
    assert_eq!(read(&test, request.clone())["lines_returned"], 2);
    test.limits.max_read_bytes = 12;
    assert_eq!(read(&test, request)["lines_returned"], 1);
}

#[test]
fn a_mark_is_in_no_line() {
    let test = TestJail::new();
    test.write("a", "\u{feff}x\ny");
    assert_eq!(read(&test, json!({"path": "a", "line_from": 1}))["content"], "x\ny");
    assert_eq!(read(&test, json!({"path": "a", "line_to": 1, "numbered": true}))["content"], "1→x\n");
    assert_eq!(read(&test, json!({"path": "a", "line_to": 1, "encoding": "base64"}))["content"], "eAo=");
    assert_eq!(read(&test, json!({"path": "a", "tail": 5}))["content"], "x\ny");
    assert_eq!(read(&test, json!({"path": "a", "byte_from": 0}))["content"], "\u{feff}x\ny");
}

#[test]
fn a_window_of_a_large_file_tells_hash_and_count_on_request() {
    let test = TestJail::new();
    let content = "line\n".repeat(250_000);
    test.write("a", &content);
    let found = read(&test, json!({"path": "a", "line_to": 1, "etag": true}));
    assert_eq!((&found["etag"], &found["content"]), (&etag(content.as_bytes()), &"line\n".into()));
    let found = read(&test, json!({"path": "a", "line_to": 1, "count_lines": true}));
    assert_eq!((&found["total_lines"], &found["more_lines"]), (&250_000.into(), &true.into()));
}

#[test]
fn a_tail_is_the_last_lines() {
    let test = TestJail::new();
    test.write("a", "1\n2\n3\n");
    for (lines, expected) in [(1, "3\n"), (2, "2\n3\n"), (3, "1\n2\n3\n"), (4, "1\n2\n3\n"), (u64::MAX, "1\n2\n3\n")] {
        let found = read(&test, json!({"path": "a", "tail": lines}));
        assert_eq!((&found["content"], &found["more_lines"]), (&expected.into(), &false.into()), "{lines}");
    }
    assert_eq!(read(&test, json!({"path": "a", "tail": 2, "numbered": true}))["content"], "2→2\n3→3\n");
    test.write("a", "1\n2");
    assert_eq!(read(&test, json!({"path": "a", "tail": 1}))["content"], "2");
    test.write("a", "");
    let empty = read(&test, json!({"path": "a", "tail": 1}));
    assert_eq!((&empty["content"], &empty["total_lines"]), (&"".into(), &0.into()));
}

#[test]
fn a_tail_of_a_large_file_spans_chunks() {
    let test = TestJail::new();
    let content: String = (1..=60_000).map(|n| format!("line {n}\n")).collect();
    test.write("a", &content);
    let expected: String = (40_001..=60_000).map(|n| format!("line {n}\n")).collect();
    let found = read(&test, json!({"path": "a", "tail": 20_000, "etag": true, "count_lines": true}));
    assert_eq!((&found["content"], &found["lines_returned"]), (&expected.as_str().into(), &20_000.into()));
    assert_eq!((&found["total_lines"], &found["etag"]), (&60_000.into(), &etag(content.as_bytes())));
}

#[test]
fn a_tail_over_the_limit_loses_its_front_and_says_so() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 5;
    test.write("a", "11\n22\n33\n");
    let found = read(&test, json!({"path": "a", "tail": 3}));
    assert_eq!((&found["content"], &found["truncated_reason"]), (&"33\n".into(), &"max_read_bytes".into()));
    assert!(found["hint"].as_str().unwrap().contains("last 1 of 3 lines"));
    test.limits.max_read_bytes = 2;
    let none = read(&test, json!({"path": "a", "tail": 1}));
    assert_eq!(none["content"], "");
    assert!(none["hint"].as_str().unwrap().contains("byte_from: 7"), "{none}");
}

#[test]
fn bytes_are_0_based_with_an_exclusive_end() {
    let test = TestJail::new();
    test.write("a", "0123456789");
    // (from, to) → content, more, next
    let cases = [
        (json!(0), json!(3), "012", true, Some(3)),
        (json!(3), json!(null), "3456789", false, None),
        (json!(null), json!(2), "01", true, Some(2)),
        (json!(8), json!(99), "89", false, None),
        (json!(8), json!(10), "89", false, None),
        (json!(5), json!(5), "", true, Some(5)),
        (json!(10), json!(11), "", false, None),
        (json!(u64::MAX), json!(u64::MAX), "", false, None),
        (json!(i64::MAX), json!(u64::MAX), "", false, None),
    ];
    for (from, to, content, more, next) in cases {
        let found = read(&test, json!({"path": "a", "byte_from": from, "byte_to": to}));
        assert_eq!((&found["content"], &found["more_lines"]), (&content.into(), &more.into()), "{from} {to}");
        assert_eq!(found.get("next_byte").and_then(Value::as_u64), next);
        assert!(found.get("truncated_reason").is_none());
    }
    let whole = read(&test, json!({"path": "a", "byte_from": 0, "etag": true}));
    assert_eq!((&whole["etag"], &whole["total_lines"]), (&etag(b"0123456789"), &1.into()));
    let part = read(&test, json!({"path": "a", "byte_to": 1, "etag": true, "count_lines": true}));
    assert_eq!((&part["etag"], &part["total_lines"]), (&etag(b"0123456789"), &1.into()));
}

#[test]
fn a_byte_window_over_the_limit_is_cut_between_characters() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 5;
    test.write("a", "aéé€x");
    let found = read(&test, json!({"path": "a", "byte_from": 0}));
    assert_eq!((&found["content"], &found["is_utf8"]), (&"aéé".into(), &true.into()));
    let next = read(&test, json!({"path": "a", "byte_from": found["next_byte"]}));
    assert_eq!((&next["content"], &next["more_lines"]), (&"€x".into(), &false.into()));
    let exact = read(&test, json!({"path": "a", "byte_from": 1, "byte_to": 2}));
    assert_eq!((&exact["content"], &exact["is_utf8"]), (&"\u{fffd}".into(), &false.into()));
    let base64 = read(&test, json!({"path": "a", "byte_from": 1, "byte_to": 2, "encoding": "base64"}));
    assert_eq!(base64["content"], "ww==");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn following_next_line_reads_every_line_once(
        lines in proptest::collection::vec("[a-zé]{0,9}", 0..30), cap in 12u64..40,
    ) {
        let mut test = TestJail::new();
        let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
        test.write("a", &content);
        test.limits.max_read_bytes = cap.max(20);
        let mut read_back = String::new();
        let mut next = json!(1);
        while !next.is_null() {
            let found = read(&test, json!({"path": "a", "line_from": next}));
            read_back.push_str(found["content"].as_str().unwrap());
            next = found["next_line"].clone();
        }
        prop_assert_eq!(read_back, content);
    }
}
