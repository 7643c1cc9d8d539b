use proptest::prelude::*;

use super::*;

const ALL: WindowSpec =
    WindowSpec { from: 1, to: u64::MAX, max_bytes: u64::MAX, measure: Measure::Raw, numbered: false, keep_bom: false };

fn window(bytes: &[u8], spec: WindowSpec, step: usize) -> WindowContent {
    let mut window = LineWindow::new(spec);
    for chunk in bytes.chunks(step) {
        if window.push(chunk) {
            return window.finish(false);
        }
    }
    window.finish(true)
}

/// The contract, told naively, with the whole file in memory.
fn naive(bytes: &[u8], spec: WindowSpec) -> WindowContent {
    let (mark, body) = match bytes.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => (&b""[..], bytes),
    };
    let mut cut = WindowContent { next_line: 1, ..WindowContent::default() };
    let mut used = 0;
    if spec.keep_bom && !mark.is_empty() {
        if spec.max_bytes < 3 {
            return WindowContent { has_more: true, over_budget: true, ..cut };
        }
        cut.content.extend_from_slice(mark);
        used = 3;
    }
    let mut offset = mark.len();
    let lines: Vec<&[u8]> = body.split_inclusive(|&byte| byte == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let number = index as u64 + 1;
        (cut.next_line, cut.next_byte) = (number, offset as u64);
        if number > spec.to {
            cut.has_more = true;
            return cut;
        }
        if number >= spec.from {
            let mut rendered = if spec.numbered { format!("{number}→").into_bytes() } else { vec![] };
            rendered.extend_from_slice(line);
            let size = match spec.measure {
                Measure::Raw => rendered.len(),
                Measure::Converted => String::from_utf8_lossy(&rendered).len(),
            } as u64;
            if used + size > spec.max_bytes {
                (cut.has_more, cut.over_budget) = (true, true);
                return cut;
            }
            used += size;
            cut.content.extend_from_slice(&rendered);
            cut.lines += 1;
        }
        offset += line.len();
    }
    cut.total_lines = Some(lines.len() as u64);
    (cut.next_line, cut.next_byte) = (lines.len() as u64 + 1, offset as u64);
    cut
}

proptest! {
    #[test]
    fn a_window_is_what_the_naive_reader_finds(
        marked: bool,
        body in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xe2), Just(0x86), Just(0x92), Just(0xff)], 0..60),
        from in 1u64..8, len in prop_oneof![0u64..6, Just(u64::MAX)],
        max_bytes in prop_oneof![0u64..60, Just(u64::MAX)],
        raw: bool, numbered: bool, keep_bom: bool, step in 1usize..9,
    ) {
        let bytes = if marked { [BOM, &body].concat() } else { body };
        let measure = if raw { Measure::Raw } else { Measure::Converted };
        let spec = WindowSpec { from, to: from.saturating_add(len), max_bytes, measure, numbered, keep_bom };
        let mut expected = naive(&bytes, spec);
        let mut found = window(&bytes, spec, step);
        if !expected.has_more {
            (expected.next_line, expected.next_byte) = (0, 0);
            (found.next_line, found.next_byte) = (0, 0);
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_peek_behind_the_window_tells_its_end() {
    let to_two = WindowSpec { to: 2, ..ALL };
    assert_eq!(window(b"a\nb\n", to_two, 64).total_lines, Some(2));
    let cut = window(b"a\nb\nc", to_two, 64);
    assert_eq!(
        (cut.total_lines, cut.has_more, cut.over_budget, cut.next_line, cut.next_byte),
        (None, true, false, 3, 4)
    );
}

#[test]
fn a_window_past_the_end_is_empty_and_counts() {
    let cut = window(b"a\nb", WindowSpec { from: u64::MAX, ..ALL }, 64);
    assert_eq!((cut.content.len(), cut.lines, cut.total_lines, cut.has_more), (0, 0, Some(2), false));
}

#[test]
fn budget_is_exact_to_the_byte() {
    let spec = |cap| WindowSpec { max_bytes: cap, ..ALL };
    assert_eq!(window(b"ab\ncd\n", spec(6), 64).lines, 2);
    let cut = window(b"ab\ncd\n", spec(5), 64);
    assert_eq!((cut.content.as_slice(), cut.has_more, cut.over_budget, cut.next_line), (&b"ab\n"[..], true, true, 2));
}

#[test]
fn prefixes_and_replacements_count() {
    // "1→" is 4 bytes; 0xff becomes 3.
    let spec = |cap, measure| WindowSpec { max_bytes: cap, measure, numbered: true, ..ALL };
    assert_eq!(window(b"\xff\n", spec(6, Measure::Raw), 64).lines, 1);
    assert_eq!(window(b"\xff\n", spec(5, Measure::Raw), 64).lines, 0);
    assert_eq!(window(b"\xff\n", spec(8, Measure::Converted), 64).lines, 1);
    assert_eq!(window(b"\xff\n", spec(7, Measure::Converted), 64).lines, 0);
}

#[test]
fn a_line_above_the_budget_is_never_held() {
    let mut window = LineWindow::new(WindowSpec { max_bytes: 10, ..ALL });
    let mut pushed = 0;
    while !window.push(&[b'a'; 8]) {
        pushed += 1;
        assert!(pushed < 3, "the second chunk is over the budget");
    }
    assert!(window.out.capacity() < 64);
    let cut = window.finish(false);
    assert_eq!((cut.content.len(), cut.next_line, cut.next_byte), (0, 1, 0));
}
