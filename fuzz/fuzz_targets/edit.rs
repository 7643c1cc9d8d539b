//! Whatever a client asks to be done to whatever file: bounded, and echoes that are true.
#![no_main]

use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use stockade::internals::text::{
    diff,
    edit::{EditBounds, Edited, FileEditOp, RegexReplace, StrReplace, apply},
    lines,
};

const MAX_BYTES: u64 = 1 << 16;

fuzz_target!(|input: (&[u8], Vec<(u8, u8, u8, &str, &str)>)| {
    let (file, ops) = input;
    let ops: Vec<FileEditOp<'_>> = ops.iter().map(op).collect();
    let bounds = EditBounds { max_bytes: MAX_BYTES, should_continue: &|| true };
    if let Ok(edited) = apply(file, &ops, bounds) {
        assert!(edited.bytes.len() as u64 <= MAX_BYTES || !edited.changed);
        assert_eq!(edited.changed, edited.bytes != file);
        check_echoes(&edited);
        let diff = diff::unified("f", file, &edited.bytes, 1 << 12, Instant::now());
        assert!(diff.text.len() <= 1 << 12);
    }
});

fn op<'a>((kind, from, more, old, new): &(u8, u8, u8, &'a str, &'a str)) -> FileEditOp<'a> {
    let (from_line, to_line) = (u64::from(*from), u64::from(*from) + u64::from(*more % 4));
    match kind % 7 {
        0 => FileEditOp::Insert { at_line: from_line, content: new },
        1 => FileEditOp::Remove { from_line, to_line },
        2 => FileEditOp::UpdateLines { from_line, to_line, content: new },
        3 => FileEditOp::Replace(RegexReplace {
            pattern: old,
            replacement: new,
            ignore_case: more & 4 != 0,
            dot_matches_newline: more & 8 != 0,
            expect_matches: None,
            must_match: more & 16 != 0,
        }),
        4 => FileEditOp::StrReplace(StrReplace {
            old,
            new,
            expect_matches: u64::from(more % 4),
            ignores_white_space: more & 32 != 0,
        }),
        5 => FileEditOp::Append { content: new },
        _ => FileEditOp::Prepend { content: new },
    }
}

fn check_echoes(edited: &Edited) {
    let (_, body) = lines::split_bom(&edited.bytes);
    let text = |line: &[u8]| String::from_utf8_lossy(lines::text_of(line)).into_owned();
    let all: Vec<String> = lines::lines(body).map(text).collect();
    assert_eq!(all.len() as u64, edited.new_line_count);
    for echo in &edited.echoes {
        let head = if echo.elided.is_some() { echo.lines.len() / 2 } else { echo.lines.len() };
        let from = echo.from_line as usize - 1;
        assert_eq!(all[from..from + head], echo.lines[..head]);
        let tail = from + head + echo.elided.unwrap_or(0) as usize;
        assert_eq!(all[tail..tail + echo.lines.len() - head], echo.lines[head..]);
    }
}
