//! Only the asked lines differ. Each kind of file is a list of lines with their terminators; what it has to be is
//! that list with one place changed.

use std::{fs, io::Read, os::unix::fs::PermissionsExt};

use super::{
    UPDATE, assert_edit,
    support::{TestJail, Value, json},
    update,
};

/// A kind of file: what is in front of line 1, and the lines.
struct File {
    kind: &'static str,
    mark: &'static [u8],
    lines: Vec<(&'static [u8], &'static [u8])>,
}

const LF: &[u8] = b"\n";
const CRLF: &[u8] = b"\r\n";
const NONE: &[u8] = b"";

fn kinds() -> Vec<File> {
    let file = |kind, mark, lines: &[(&'static [u8], &'static [u8])]| File { kind, mark, lines: lines.to_vec() };
    vec![
        file("LF", NONE, &[(b"one", LF), (b"two", LF), (b"three", LF), (b"four", LF)]),
        file("CRLF", NONE, &[(b"one", CRLF), (b"two", CRLF), (b"three", CRLF), (b"four", CRLF)]),
        file("mixed endings", NONE, &[(b"one", CRLF), (b"two", LF), (b"three\r", CRLF), (b"four", LF)]),
        file("lone CR", NONE, &[(b"one\rx", LF), (b"\rtwo\r\r", CRLF), (b"th\rree", LF), (b"fo\rur", LF)]),
        file("BOM", b"\xef\xbb\xbf", &[(b"one", LF), (b"two", LF), (b"three", LF), (b"four", LF)]),
        file("BOM and CRLF", b"\xef\xbb\xbf", &[(b"one", CRLF), (b"two", CRLF), (b"three", CRLF), (b"four", NONE)]),
        file("Latin-1", NONE, &[(b"\xe9t\xe9 one", LF), (b"two \xfc", LF), (b"\xff\xfe", LF), (b"na\xefve", LF)]),
        file("NUL", NONE, &[(b"\0\0one", LF), (b"t\0wo", LF), (b"\0", LF), (b"four\0", LF)]),
        file("no final newline", NONE, &[(b"one", LF), (b"two", LF), (b"three", LF), (b"four", NONE)]),
        file(
            "broken UTF-8",
            NONE,
            &[(b"\xe2\x86", LF), (b"\x86\x92two", CRLF), (b"\xf0\x9d", LF), (b"\x84\x9e", NONE)],
        ),
    ]
}

impl File {
    fn bytes(&self, lines: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = self.mark.to_vec();
        lines.iter().for_each(|(text, end)| bytes.extend([*text, *end].concat()));
        bytes
    }
}

fn edit_each_kind(ops: Value, change: impl Fn(&mut Vec<(&'static [u8], &'static [u8])>)) {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for file in kinds() {
        println!("{}", file.kind);
        let mut lines = file.lines.clone();
        change(&mut lines);
        assert_edit(&jail, &mut client, &file.bytes(&file.lines), ops.clone(), &file.bytes(&lines));
    }
}

#[test]
fn a_changed_line_changes_alone() {
    edit_each_kind(json!([{"op": "update_lines", "from_line": 2, "to_line": 2, "content": "new é"}]), |lines| {
        lines[1].0 = "new é".as_bytes();
    });
}

#[test]
fn a_removed_line_goes_alone() {
    edit_each_kind(json!([{"op": "remove", "from_line": 2, "to_line": 3}]), |lines| {
        lines.drain(1..3);
    });
}

#[test]
fn an_inserted_line_comes_alone_with_the_terminator_of_the_line_before() {
    edit_each_kind(json!([{"op": "insert", "at_line": 3, "content": "new"}]), |lines| {
        lines.insert(2, (b"new", lines[1].1));
    });
}

#[test]
fn several_operations_name_lines_of_the_original() {
    let ops = json!([
        {"op": "remove", "from_line": 3, "to_line": 3},
        {"op": "insert", "at_line": 1, "content": "first\n"},
        {"op": "update_lines", "from_line": 2, "to_line": 2, "content": "2a\n2b\n"},
    ]);
    edit_each_kind(ops, |lines| {
        let (first, second) = (lines[0].1, lines[1].1);
        lines.splice(1..3, [(&b"2a"[..], second), (b"2b", second)]);
        lines.insert(0, (b"first", first));
    });
}

#[test]
fn a_replacement_of_text_changes_nothing_else() {
    // Where the text is not in the file, nothing at all may change.
    for ops in [
        json!([{"op": "replace", "pattern": "two", "replacement": "$0!"}]),
        json!([{"op": "replace", "pattern": "t(w)(o)", "replacement": "t${1}o!"}]),
        json!([{"op": "replace", "pattern": "TWO", "replacement": "two!", "ignore_case": true}]),
    ] {
        edit_each_kind(ops, |lines| {
            lines[1].0 = match lines[1].0 {
                b"two" => b"two!",
                b"\rtwo\r\r" => b"\rtwo!\r\r",
                b"two \xfc" => b"two! \xfc",
                b"\x86\x92two" => b"\x86\x92two!",
                other => other,
            };
        });
    }
}

#[test]
fn literal_text_is_replaced_byte_by_byte() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for file in kinds().into_iter().filter(|file| file.lines[1].0.windows(3).any(|bytes| bytes == b"two")) {
        println!("{}", file.kind);
        let before = file.bytes(&file.lines);
        let at = before.windows(3).position(|bytes| bytes == b"two").unwrap();
        let expected = [&before[..at], b"2", &before[at + 3..]].concat();
        let ops = json!([{"op": "str_replace", "old": "two", "new": "2"}]);
        assert_edit(&jail, &mut client, &before, ops, &expected);
    }
}

#[test]
fn what_is_added_at_either_end_leaves_the_rest() {
    edit_each_kind(json!([{"op": "prepend", "content": "top"}]), |lines| {
        lines.insert(0, (b"top", lines[0].1));
    });
    edit_each_kind(json!([{"op": "append", "content": "end\n"}]), |lines| {
        let style = if lines[3].1.is_empty() { lines[2].1 } else { lines[3].1 };
        lines[3].1 = style;
        lines.push((b"end", style));
    });
}

#[test]
fn an_empty_file_is_one_without_lines() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for (before, ops, expected) in [
        (&b""[..], json!([{"op": "insert", "at_line": 1, "content": "x"}]), &b"x\n"[..]),
        (b"", json!([{"op": "append", "content": "x\n"}]), b"x\n"),
        (b"", json!([{"op": "prepend", "content": "x"}]), b"x\n"),
        (b"", json!([{"op": "replace", "pattern": "^", "replacement": "x"}]), b"x"),
        (b"\xef\xbb\xbf", json!([{"op": "insert", "at_line": 1, "content": "x"}]), b"\xef\xbb\xbfx\n"),
        (b"x\n", json!([{"op": "remove", "from_line": 1, "to_line": 1}]), b""),
    ] {
        let result = assert_edit(&jail, &mut client, before, ops, expected);
        assert_eq!(result["new_line_count"], u64::from(expected.contains(&b'x')));
    }
}

#[test]
fn modes_are_kept() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for mode in [0o750, 0o600, 0o444, 0o666, 0o700] {
        let path = jail.write("file", "a\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let result = update(&mut client, "file", json!([{"op": "append", "content": "b\n"}]));
        assert_eq!(result["success"], true, "{result}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\n");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_line_of_fifty_megabytes_is_edited_around_and_inside() {
    const HUGE: usize = 50_000_000;
    let policy = "[[root]]\npath = \"ROOT\"\n[limits]\nmax_write_bytes = 67108864\n";
    let jail = TestJail::with_policy(policy);
    let mut client = jail.connect();
    let huge = vec![b'x'; HUGE];
    let file = |first: &[u8], mark: &[u8], last: &[u8]| {
        [first, b"a\r\nb\r\nc\r\n", &huge, mark, &huge[..100], b"\nd\ne\n", last].concat()
    };
    let path = jail.write("file", file(b"first\r\n", b"MARK", b"last"));
    // Far enough from the line that no echo has to carry it.
    let ops = json!([
        {"op": "insert", "at_line": 1, "content": "1\n2"},
        {"op": "str_replace", "old": "last", "new": "LAST"},
    ]);
    let result = update(&mut client, "file", ops);
    assert_eq!((&result["success"], &result["new_line_count"]), (&json!(true), &json!(10)), "{result}");
    assert!(fs::read(&path).unwrap() == file(b"1\r\n2\r\nfirst\r\n", b"MARK", b"LAST"));
    // Inside: its one echo is that line, whole.
    let ops = json!([{"op": "str_replace", "old": "MARK", "new": "mark"}]);
    client.send(UPDATE, json!({"files": [{"path": "file", "ops": ops}]}));
    let reply = raw_line(&mut client.stream);
    assert!(reply.len() > HUGE && reply.len() < HUGE + 2000, "{} bytes", reply.len());
    let tail = String::from_utf8_lossy(&reply[reply.len() - 400..]).into_owned();
    assert!(tail.contains("\"total_replacements\":1"), "{tail}");
    assert!(fs::read(&path).unwrap() == file(b"1\r\n2\r\nfirst\r\n", b"mark", b"LAST"));
}

/// Without parsing, which takes a debug build half a minute for such a line.
fn raw_line(stream: &mut impl Read) -> Vec<u8> {
    let mut line = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    while !line.ends_with(b"\n") {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the connection ended");
        line.extend_from_slice(&buffer[..read]);
    }
    line
}
