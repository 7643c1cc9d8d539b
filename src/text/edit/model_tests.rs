//! A second implementation of the contract, as simple and slow as possible, which is compared with the engine.

use proptest::prelude::*;

use super::{tests::edited, *};

/// A line and what ends it.
type Line = (Vec<u8>, Option<&'static [u8]>);

const LF: &[u8] = b"\n";
const CRLF: &[u8] = b"\r\n";

fn split(body: &[u8]) -> Vec<Line> {
    let cut = |line: &[u8]| match (line.strip_suffix(CRLF), line.strip_suffix(LF)) {
        (Some(text), _) => (text.to_vec(), Some(CRLF)),
        (None, Some(text)) => (text.to_vec(), Some(LF)),
        (None, None) => (line.to_vec(), None),
    };
    body.split_inclusive(|byte| *byte == b'\n').map(cut).collect()
}

fn join(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|(text, end)| [text.as_slice(), end.unwrap_or_default()].concat()).collect()
}

/// "split by line terminators; one final newline is dropped; empty content = zero lines; trailing CRs of each line
/// are stripped"
fn content_lines(content: &str) -> Vec<Vec<u8>> {
    if content.is_empty() {
        return vec![];
    }
    let mut lines: Vec<&str> = content.split('\n').collect();
    if content.ends_with('\n') {
        lines.pop();
    }
    lines.iter().map(|line| line.trim_end_matches('\r').as_bytes().to_vec()).collect()
}

/// "1 ≤ from ≤ to ≤ lines", inserts up to lines + 1, no two that meet.
fn is_legal(ops: &[FileEditOp<'_>], count: u64) -> bool {
    let mut covered = vec![];
    for op in ops {
        let (from, to, most) = match *op {
            FileEditOp::Insert { at_line, .. } => (at_line, at_line, count + 1),
            FileEditOp::Remove { from_line, to_line } | FileEditOp::UpdateLines { from_line, to_line, .. } => {
                (from_line, to_line, count)
            }
            _ => continue,
        };
        if from < 1 || from > to || to > most || (from..=to).any(|line| covered.contains(&line)) {
            return false;
        }
        covered.extend(from..=to);
    }
    true
}

/// A line after others: one that stood last without terminator gets the style of the line before it, else LF.
fn push(lines: &mut Vec<Line>, line: Line) {
    let before = lines.len().checked_sub(2).and_then(|before| lines[before].1);
    if let Some(last) = lines.last_mut() {
        last.1 = last.1.or(before).or(Some(LF));
    }
    lines.push(line);
}

fn line_ops(original: &[Line], ops: &[FileEditOp<'_>]) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![];
    let mut skip_to = 0;
    for number in 1..=original.len() as u64 + 1 {
        let here = original.get(number as usize - 1);
        for op in ops {
            let above = |lines: &[Line]| lines.last().and_then(|line| line.1);
            match *op {
                FileEditOp::Insert { at_line, content } if at_line == number => {
                    for text in content_lines(content) {
                        // Whoever stood last without a terminator has got one before its style is asked for.
                        push(&mut lines, (text, None));
                        let at = lines.len() - 1;
                        let style = above(&lines[..at]).or(here.and_then(|line| line.1)).unwrap_or(LF);
                        lines[at].1 = Some(style);
                    }
                }
                FileEditOp::Remove { from_line, to_line } if from_line == number => skip_to = to_line,
                FileEditOp::UpdateLines { from_line, to_line, content } if from_line == number => {
                    skip_to = to_line;
                    let first = original[from_line as usize - 1].1.or(above(&lines)).unwrap_or(LF);
                    let last = original[to_line as usize - 1].1.unwrap_or(first);
                    let new = content_lines(content);
                    let count = new.len();
                    for (index, text) in new.into_iter().enumerate() {
                        push(&mut lines, (text, Some(if index + 1 == count { last } else { first })));
                    }
                }
                _ => {}
            }
        }
        if let Some(line) = here.filter(|_| number > skip_to) {
            push(&mut lines, line.clone());
        }
    }
    let ended = original.last().is_none_or(|line| line.1.is_some());
    if let Some(last) = lines.last_mut().filter(|_| !ended) {
        last.1 = None;
    }
    lines
}

fn newlines(text: &str, style: &[u8]) -> Vec<u8> {
    let style = std::str::from_utf8(style).unwrap();
    text.replace("\r\n", "\n").replace('\n', style).into_bytes()
}

/// The terminator of the last line, or the one that an unterminated last line would get.
fn end_style(lines: &[Line]) -> &'static [u8] {
    lines.iter().rev().take(2).find_map(|line| line.1).unwrap_or(LF)
}

/// Whether `old` matches at this offset. LF in `old` also matches CRLF in the file.
fn match_at(body: &[u8], at: usize, old: &str) -> Option<usize> {
    let mut end = at;
    let mut before = b' ';
    for byte in old.bytes() {
        let is_free_lf = byte == b'\n' && before != b'\r';
        if is_free_lf && body[end..].starts_with(CRLF) {
            end += 2;
        } else if body.get(end) == Some(&byte) {
            end += 1;
        } else {
            return None;
        }
        before = byte;
    }
    Some(end)
}

/// The file after the match at `at` was replaced.
fn replaced_at(body: &[u8], at: usize, old: &str, new: &str) -> Option<Vec<u8>> {
    // A CRLF is matched whole.
    let end = match_at(body, at, old).filter(|_| !(body[at] == b'\n' && body[..at].ends_with(b"\r")))?;
    let line = split(body)[split(&body[..=at]).len() - 1].1;
    let new = newlines(new, line.unwrap_or(end_style(&split(body))));
    Some([&body[..at], &new, &body[end..]].concat())
}

fn str_replace(body: &[u8], old: &str, new: &str) -> (u64, Vec<u8>) {
    let mut out = vec![];
    let (mut at, mut found) = (0, 0);
    while at < body.len() {
        let Some(end) = match_at(body, at, old) else {
            out.push(body[at]);
            at += 1;
            continue;
        };
        let line = split(body)[split(&body[..=at]).len() - 1].1;
        out.extend(newlines(new, line.unwrap_or(end_style(&split(body)))));
        found += 1;
        at = end;
    }
    (found, out)
}

/// The file after `ops`, or None where the contract refuses.
fn model(original: &[u8], ops: &[FileEditOp<'_>]) -> Option<Vec<u8>> {
    let (mark, body) = match original.strip_prefix(b"\xef\xbb\xbf") {
        Some(body) => (&original[..3], body),
        None => (&b""[..], original),
    };
    if !is_legal(ops, split(body).len() as u64) {
        return None;
    }
    let mut body = join(&line_ops(&split(body), ops));
    for op in ops {
        match *op {
            FileEditOp::Replace(RegexReplace { pattern, replacement, expect_matches, .. }) => {
                let regex = regex::Regex::new(pattern).unwrap();
                let text = String::from_utf8(body).unwrap();
                if expect_matches.is_some_and(|expected| regex.find_iter(&text).count() as u64 != expected) {
                    return None;
                }
                body = regex.replace_all(&text, replacement).into_owned().into_bytes();
            }
            FileEditOp::StrReplace(StrReplace { old, new, expect_matches, .. }) => {
                let (found, replaced) = str_replace(&body, old, new);
                if found != expect_matches {
                    return None;
                }
                let mut one_by_one = (0..body.len()).filter_map(|at| replaced_at(&body, at, old, new));
                if expect_matches == 1 && one_by_one.any(|one| one != replaced) {
                    return None;
                }
                body = replaced;
            }
            FileEditOp::Append { content } if !content.is_empty() => {
                let style = end_style(&split(&body));
                if !body.is_empty() && !body.ends_with(LF) {
                    body.extend_from_slice(style);
                }
                body.extend(newlines(content, style));
            }
            FileEditOp::Prepend { content } if !content.is_empty() => {
                let style = split(&body).first().and_then(|line| line.1).unwrap_or(LF);
                let mut text = newlines(content, style);
                if !text.ends_with(LF) {
                    text.extend_from_slice(style);
                }
                body = [text, body].concat();
            }
            _ => {}
        }
    }
    Some([mark, &body].concat())
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("one\n"),
        Just("two\r\n"),
        Just("\n"),
        Just("\r\n"),
        Just("é a\rb\n"),
        Just("a\n"),
        Just("b\r\n"),
    ];
    let end = prop_oneof![Just(""), Just("a"), Just("end")];
    let mark = prop_oneof![3 => Just(""), 1 => Just("\u{feff}")];
    (mark, proptest::collection::vec(line, 0..9), end)
        .prop_map(|(mark, lines, end)| format!("{mark}{}{end}", lines.concat()).into_bytes())
}

/// An operation that owns its text.
#[derive(Debug, Clone)]
enum Owned {
    Insert(u64, String),
    Remove(u64, u64),
    Update(u64, u64, String),
    Replace(&'static str, &'static str, Option<u64>),
    Str(String, String, u64),
    Append(String),
    Prepend(String),
}

impl Owned {
    fn op(&self) -> FileEditOp<'_> {
        match self {
            Self::Insert(at_line, content) => FileEditOp::Insert { at_line: *at_line, content },
            Self::Remove(from_line, to_line) => FileEditOp::Remove { from_line: *from_line, to_line: *to_line },
            Self::Update(from_line, to_line, content) => {
                FileEditOp::UpdateLines { from_line: *from_line, to_line: *to_line, content }
            }
            Self::Replace(pattern, replacement, expect_matches) => FileEditOp::Replace(RegexReplace {
                pattern,
                replacement,
                ignore_case: false,
                dot_matches_newline: false,
                expect_matches: *expect_matches,
                must_match: false,
            }),
            Self::Str(old, new, expect_matches) => FileEditOp::StrReplace(StrReplace {
                old,
                new,
                expect_matches: *expect_matches,
                ignores_white_space: false,
            }),
            Self::Append(content) => FileEditOp::Append { content },
            Self::Prepend(content) => FileEditOp::Prepend { content },
        }
    }
}

fn op() -> impl Strategy<Value = Owned> {
    let text = "[xa\n]{0,4}(\r\n)?[y]?";
    let pattern = prop_oneof![Just("a"), Just("(?m)^"), Just("(?s)n.*?t"), Just("\r?\n"), Just("(o)(n)"), Just("x*")];
    let replacement = prop_oneof![Just(""), Just("Z"), Just("[$0]"), Just("p\nq"), Just("$$")];
    let count = prop_oneof![Just(None), (0u64..3).prop_map(Some)];
    prop_oneof![
        4 => (0u64..10, text).prop_map(|(at, content)| Owned::Insert(at, content)),
        2 => (1u64..8, 0u64..3).prop_map(|(from, more)| Owned::Remove(from, from + more)),
        4 => (1u64..8, 0u64..3, text).prop_map(|(from, more, content)| Owned::Update(from, from + more, content)),
        2 => (pattern, replacement, count).prop_map(|(pattern, new, count)| Owned::Replace(pattern, new, count)),
        2 => ("(a|one|\n|\r\n|w|\na|\n\n|a\na|\n\r\n)", text, 0u64..3).prop_map(|(old, new, count)| Owned::Str(old, new, count)),
        1 => text.prop_map(Owned::Append),
        1 => text.prop_map(Owned::Prepend),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_model_does(file in file(), ops in proptest::collection::vec(op(), 1..5)) {
        let ops: Vec<FileEditOp<'_>> = ops.iter().map(Owned::op).collect();
        match (edited(&file, &ops), model(&file, &ops)) {
            (Ok(ours), Some(theirs)) => {
                prop_assert_eq!(String::from_utf8_lossy(&ours.bytes), String::from_utf8_lossy(&theirs));
                let body = theirs.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&theirs);
                prop_assert_eq!(ours.new_line_count, split(body).len() as u64);
                prop_assert_eq!(ours.changed, theirs != file);
            }
            (Err(EditError::Invalid(_)), None) => {}
            (ours, theirs) => prop_assert!(false, "{ours:?} against {theirs:?}"),
        }
    }

    #[test]
    fn untouched_lines_are_byte_identical(
        lines in proptest::collection::vec(proptest::collection::vec(any::<u8>().prop_filter("in a line", |b| *b != b'\n'), 0..6), 2..9),
        crlf in any::<u16>(),
        ended: bool,
        from in 1u64..9,
        more in 0u64..3,
    ) {
        let count = lines.len() as u64;
        let (from, to) = (from.min(count - 1), (from + more).min(count - 1));
        let mut file = vec![];
        for (index, line) in lines.iter().enumerate() {
            file.extend_from_slice(line);
            if ended || index + 1 < lines.len() {
                file.extend_from_slice(if crlf >> index & 1 == 1 { CRLF } else { LF });
            }
        }
        let body = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&file);
        let before: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
        // The last one may be empty, and then it is none.
        prop_assume!(before.len() as u64 == count);
        let new = edited(&file, &[FileEditOp::UpdateLines { from_line: from, to_line: to, content: "new" }]).unwrap().bytes;
        let head: Vec<u8> = file[..file.len() - body.len()].iter().chain(before[..from as usize - 1].concat().iter()).copied().collect();
        let tail = before[to as usize..].concat();
        prop_assert!(new.starts_with(&head) && new.ends_with(&tail));
        let middle = &new[head.len()..new.len() - tail.len()];
        prop_assert!(middle == b"new\n" || middle == b"new\r\n", "{middle:?}");
    }
}
