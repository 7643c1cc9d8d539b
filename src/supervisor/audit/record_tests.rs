use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::broker::{Effect, OutcomePaths};
use crate::{supervisor::line_writer::MAX_LINE_BYTES, terms::Level};

fn line(event: impl FnOnce(AuditRecord) -> AuditRecord) -> Vec<u8> {
    let record = event(AuditRecord::with_time(u64::MAX))
        .with_field("level", Level::Userspace)
        .with_field("connection", u64::MAX)
        .with_field("uid", u32::MAX)
        .with_field("gid", u32::MAX)
        .with_field("pid", i32::MIN)
        .with_field("peer_alive", false)
        .with_field("lost_before", u64::MAX);
    record.encode_line().unwrap()
}

/// One line of printable ASCII that is one JSON object, not too long for a pipe.
fn parse(line: &[u8]) -> Value {
    let (newline, text) = line.split_last().unwrap();
    assert_eq!(*newline, b'\n');
    assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)), "{}", text.escape_ascii());
    assert!(line.len() <= MAX_LINE_BYTES, "{} bytes", line.len());
    serde_json::from_slice(text).unwrap()
}

fn decided(root: &str, path: &[u8]) -> Value {
    let refusal = Some(Refusal::ReadOnly);
    let function = "coder::a-function-with-a-long-name";
    parse(&line(|record| record.decided(refusal, Intent::Create, root, path, function)))
}

fn reported(path: &[u8]) -> Value {
    parse(&line(|record| record.reported(Code::OutsideRoots, path, "coder::a-function-with-a-long-name")))
}

#[test]
fn whatever_a_name_holds_it_is_one_line_that_says_that_name() {
    for name in [
        "a\nb",
        "a\r\nb",
        "\"},{\"event\":\"accepted\"",
        "\\\"}\n{\"event\":\"accepted\",\"uid\":0}",
        "\u{1b}[2J\u{1b}]0;title\u{7}",
        "\u{9b}2J",
        "\u{7f}",
        "a\u{2028}b\u{2029}c\u{85}d",
        "\u{202e}gpj.exe",
        "\0",
        "é 日本 😀",
        "",
    ] {
        let record = decided(name, name.as_bytes());
        assert_eq!((record["path"].as_str(), record["root"].as_str()), (Some(name), Some(name)));
        assert_eq!((&record["event"], &record["path_bytes"]), (&"decided".into(), &Value::Null));
        let record = reported(name.as_bytes());
        assert_eq!((record["reported_path"].as_str(), &record["path"]), (Some(name), &Value::Null));
        let (refused, ended) = (line(|record| record.refused(Code::Busy, name)), line(|record| record.ended(name)));
        assert_eq!([refused, ended].map(|line| parse(&line)["reason"] == name), [true; 2]);
    }
}

#[test]
fn a_name_that_is_no_text_is_there_in_base64() {
    let record = decided("/srv", b"a/\xff\n\xc3");
    assert_eq!(record["path"], "a/\u{fffd}\n\u{fffd}");
    assert_eq!(STANDARD.decode(record["path_bytes"].as_str().unwrap()).unwrap(), b"a/\xff\n\xc3");
    assert_eq!(reported(b"\xff")["reported_path_bytes"], "/w==");
}

#[test]
fn a_long_name_is_cut_and_says_so() {
    for (path, is_cut) in [
        ("x".repeat(2000), false),
        ("x".repeat(2001), true),
        ("\"".repeat(1000), false),
        ("\"".repeat(1001), true),
        ("\0".repeat(333), false),
        ("\0".repeat(334), true),
        ("😀".repeat(166), false),
        ("😀".repeat(167), true),
    ] {
        let record = decided(&"\u{1}".repeat(4096), path.as_bytes());
        let kept = record["path"].as_str().unwrap();
        assert_eq!((record["path_cut"] == true, kept.len() < path.len()), (is_cut, is_cut), "{record}");
        assert!(path.starts_with(kept));
    }
    assert_eq!(decided("/srv", &[0xff; 4096])["path_cut"], true);
    assert_eq!(reported(&[0xff; 4096])["reported_path_cut"], true);
    let record = parse(&line(|record| record.refused(Code::Io, &"\u{1}".repeat(100_000))));
    assert_eq!(record["event"], "refused");
}

proptest! {
    #[test]
    fn any_bytes_make_one_record(root in ".{0,700}", path in prop::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert_eq!(&decided(&root, &path)["event"], "decided");
        prop_assert_eq!(&reported(&path)["event"], "reported");
        prop_assert_eq!(&outcome(OutcomeKind::Changed, &path, Some(&path), Effect::default())["event"], "outcome");
    }
}

fn outcome(became: OutcomeKind, path: &[u8], to: Option<&[u8]>, effect: Effect) -> Value {
    let names = OutcomePaths { path: path.to_vec(), to: to.map(<[u8]>::to_vec) };
    parse(&line(|record| record.outcome(&EntryOutcome { kind: became, paths: names, effect }, "coder::move")))
}

#[test]
fn an_outcome_says_what_is_known_and_nothing_else() {
    let effect = Effect {
        bytes: Some(7),
        entries: Some(3),
        etag_before: Some("a".into()),
        etag_after: Some("b".into()),
        trash_id: Some("c".into()),
    };
    let record = outcome(OutcomeKind::Changed, b"/srv/a", Some(b"/srv/b"), effect);
    assert_eq!((&record["event"], &record["reported_outcome"]), (&"outcome".into(), &"changed".into()));
    assert_eq!((&record["reported_path"], &record["reported_to"]), (&"/srv/a".into(), &"/srv/b".into()));
    assert_eq!((&record["reported_bytes"], &record["reported_entries"]), (&7.into(), &3.into()));
    assert_eq!((&record["reported_etag_before"], &record["reported_etag_after"]), (&"a".into(), &"b".into()));
    assert_eq!((&record["reported_trash_id"], &record["reported_code"]), (&"c".into(), &Value::Null));
    for (became, word) in [(OutcomeKind::Unchanged, "unchanged"), (OutcomeKind::DryRun, "dry-run")] {
        let record = outcome(became, b"/srv/a", None, Effect::default());
        let own: Vec<_> = record.as_object().unwrap().keys().filter(|key| key.starts_with("reported_")).collect();
        assert_eq!(own, ["reported_function", "reported_outcome", "reported_path"]);
        assert_eq!(record["reported_outcome"], word);
    }
    let refused =
        |denied| outcome(OutcomeKind::Refused { code: Code::NotFound, denied }, b"x", None, Effect::default());
    assert_eq!((&refused(true)["reported_code"], &refused(true)["reported_denied"]), (&"C211".into(), &true.into()));
    assert_eq!(refused(false)["reported_denied"], Value::Null);
}

/// Both names and all texts have the greatest length and consist of the characters with the longest escapes.
#[test]
fn the_longest_outcome_is_one_line() {
    let word = || Some("\u{1}".repeat(128));
    let effect = Effect {
        bytes: Some(u64::MAX),
        entries: Some(u64::MAX),
        etag_before: word(),
        etag_after: word(),
        trash_id: word(),
    };
    let path = [0xff; 4096];
    let became = OutcomeKind::Refused { code: Code::NotFound, denied: true };
    let record = outcome(became, &path, Some(&path), effect.clone());
    assert_eq!(record["reported_path_cut"], true);
    assert_eq!(STANDARD.decode(record["reported_to_bytes"].as_str().unwrap()).unwrap(), [0xff; 240]);
    assert_eq!(outcome(became, b"a", Some(&path), effect)["reported_path_cut"], true);
}

#[test]
fn a_terminal_gets_the_same_fields_as_text_of_one_line() {
    let record = AuditRecord::with_time(29_703_000).with_field("connection", 7);
    let record = record.reported(Code::OutsideRoots, "a\u{1b}\n é".as_bytes(), "coder::stat");
    let text = String::from_utf8(record.encode_text().unwrap()).unwrap();
    let expected = "08:15:03 audit connection=7 event=\"reported\" reported_code=\"C215\" \
                    reported_path=\"a\\u001b\\n \\u00e9\" reported_function=\"coder::stat\"\n";
    assert_eq!(text, expected);
}
