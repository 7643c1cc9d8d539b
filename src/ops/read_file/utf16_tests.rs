//! UTF-16 is read as the text that it is, in every shape of read. The oracle is the same text in a UTF-8 file.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::*;
use crate::{jail::testing::TestJail, text::Etag};

const TEXT: &str = "first é\r\nsecond 𝄞 →\n\nno end ਊ";

fn encode(text: &str, is_big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn read(test: &TestJail, path: &str, more: &Value) -> Value {
    let mut request = more.clone();
    request["path"] = path.into();
    test.run::<ReadFile>(request).unwrap()
}

#[test]
fn each_shape_reads_the_text() {
    let test = TestJail::new();
    test.write("utf8", TEXT);
    for (is_big, charset) in [(false, "utf-16le"), (true, "utf-16be")] {
        let bytes = encode(TEXT, is_big);
        test.write("utf16", &bytes);
        for more in [
            json!({}),
            json!({"numbered": true}),
            json!({"line_from": 2, "line_to": 3}),
            json!({"line_from": 9}),
            json!({"tail": 2}),
            json!({"tail": 2, "numbered": true}),
            json!({"max_output_bytes": 30, "truncate": true}),
        ] {
            let (theirs, ours) = (read(&test, "utf8", &more), read(&test, "utf16", &more));
            for field in ["content", "lines_returned", "total_lines", "more_lines", "next_line", "hint"] {
                assert_eq!(ours.get(field), theirs.get(field), "{field} of {more}");
            }
            assert_eq!((&ours["charset"], &ours["is_utf8"]), (&charset.into(), &false.into()), "{more}");
            assert_eq!((&ours["etag"], &ours["size"]), (&Etag::of(&bytes).into(), &bytes.len().into()), "{more}");
            assert!(ours.get("replaced").is_none() && theirs.get("charset").is_none());
        }
        let stat = read(&test, "utf16", &json!({"stat": true}));
        assert_eq!((&stat["total_lines"], &stat["charset"]), (&4.into(), &charset.into()));
        let exact = read(&test, "utf16", &json!({"encoding": "base64"}));
        assert_eq!(exact["content"], STANDARD.encode(&bytes));
    }
}

#[test]
fn byte_windows_count_bytes_of_the_file_and_tear_no_character() {
    let test = TestJail::new();
    let bytes = encode("a𝄞é\n", false);
    test.write("a", &bytes);
    // From, to, content, and where the reply says to continue.
    for (from, to, content, next) in [
        (0, 4, "a", Some(4)),
        (2, 4, "a", Some(4)),
        (3, 4, "", Some(4)),
        (4, 6, "", Some(4)),
        (4, 8, "𝄞", Some(8)),
        (4, 9, "𝄞", Some(8)),
        (8, 99, "é\n", None),
        (0, 99, "a𝄞é\n", None),
    ] {
        let found = read(&test, "a", &json!({"byte_from": from, "byte_to": to}));
        assert_eq!(found["content"], content, "{from} to {to}");
        assert_eq!(found.get("next_byte").and_then(Value::as_u64), next, "{from} to {to}");
    }
}

#[test]
fn what_is_no_character_is_replaced_and_reported() {
    let test = TestJail::new();
    let mut bytes = encode("a", false);
    bytes.extend_from_slice(b"\x3d\xd8b\0x");
    test.write("a", &bytes);
    for more in [json!({}), json!({"line_from": 1}), json!({"byte_from": 0}), json!({"tail": 1})] {
        let found = read(&test, "a", &more);
        assert_eq!((&found["content"], &found["replaced"]), (&"a\u{fffd}b\u{fffd}".into(), &true.into()), "{more}");
    }
}

#[test]
fn a_line_above_the_limit_goes_on_at_its_byte_in_the_file() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 40;
    test.limits.max_output_bytes = 40;
    let text = format!("é\n{}\n", "x".repeat(60));
    test.write("a", encode(&text, true));
    let found = read(&test, "a", &json!({"line_from": 2}));
    assert_eq!((&found["content"], &found["next_byte"]), (&"".into(), &6.into()));
    let mut got = String::new();
    let mut next = found["next_byte"].clone();
    while !next.is_null() {
        let part = read(&test, "a", &json!({ "byte_from": next }));
        got.push_str(part["content"].as_str().unwrap());
        next = part["next_byte"].clone();
    }
    assert_eq!(got, format!("{}\n", "x".repeat(60)));
}

#[test]
fn a_binary_file_that_begins_like_utf16_stays_bytes() {
    let test = TestJail::new();
    test.write("a", b"\xff\xfe\0\0x\n");
    let found = read(&test, "a", &json!({}));
    assert!(found.get("charset").is_none());
    assert_eq!(found["content"], "\u{fffd}\u{fffd}\0\0x\n");
}
