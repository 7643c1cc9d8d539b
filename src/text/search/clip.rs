//! A line as a reply shows it: its text, or a window of it if the line is long, and where the matches are in that text.

use std::ops::Range;

use crate::text::{Measure, utf8};

/// A window of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClippedLine {
    pub text: String,
    /// Bytes of the line before the window; None if the line is here whole.
    pub offset: Option<u64>,
    /// Byte offsets into `text`, end exclusive.
    pub spans: Vec<(u64, u64)>,
}

/// A quarter of the window shows what stands before the match.
const LEAD: usize = 4;

/// Which part of a line of `len` bytes to show for a match there.
pub(super) fn window(line: &[u8], first: &Range<usize>, most: usize) -> Range<usize> {
    if line.len() <= most {
        return 0..line.len();
    }
    let lead = most / LEAD;
    let latest = line.len().saturating_sub(most);
    let start = first.start.saturating_sub(lead).min(latest);
    let start = next_boundary(line, start);
    start..last_boundary(line, (start + most).min(line.len())).max(start)
}

/// `matches` are ranges of the line, in order. Those outside the window are left out, those across its edge are cut.
pub(super) fn clip(line: &[u8], window: Range<usize>, matches: &[Range<usize>]) -> ClippedLine {
    let shown = &line[window.clone()];
    let inside = matches.iter().filter(|found| found.start <= window.end && found.end >= window.start);
    let spans = inside.map(|found| {
        let cut = |at: usize| at.clamp(window.start, window.end) - window.start;
        (cut(found.start), cut(found.end))
    });
    let offset = (window.len() < line.len()).then_some(window.start as u64);
    match std::str::from_utf8(shown) {
        Ok(text) => {
            let spans = spans.map(|(from, to)| (from as u64, to as u64)).collect();
            ClippedLine { text: text.to_owned(), offset, spans }
        }
        Err(_) => {
            let place = |at: usize| utf8::converted_len(&shown[..at]);
            let spans = spans.map(|(from, to)| (place(from), place(to))).collect();
            ClippedLine { text: String::from_utf8_lossy(shown).into_owned(), offset, spans }
        }
    }
}

/// The beginning of a neighbour.
pub(super) fn head(line: &[u8], most: usize) -> String {
    let len = utf8::prefix_within(line, most as u64, Measure::Raw);
    String::from_utf8_lossy(&line[..len]).into_owned()
}

fn is_inside_char(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// At most three bytes on: more of them are no character anyway.
fn next_boundary(line: &[u8], at: usize) -> usize {
    at + line[at..].iter().take(3).take_while(|byte| is_inside_char(**byte)).count()
}

fn last_boundary(line: &[u8], at: usize) -> usize {
    if line.get(at).is_none_or(|byte| !is_inside_char(*byte)) {
        return at;
    }
    let back = (1..=3).find(|back| at.checked_sub(*back).is_some_and(|at| !is_inside_char(line[at])));
    back.map_or(at, |back| at - back)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_window_holds_the_match_and_tears_no_character(
            text in "[aé€😀]{0,40}", at in 0usize..41, len in 0usize..5, most in 4usize..60,
        ) {
            let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let start = boundaries[at.min(boundaries.len() - 1)];
            let end = boundaries[(at + len).min(boundaries.len() - 1)].max(start);
            let window = window(text.as_bytes(), &(start..end), most);
            prop_assert!(window.len() <= most && window.end <= text.len());
            prop_assert!(text.get(window.clone()).is_some(), "{:?}", window);
            prop_assert!(window.contains(&start) || window.end == start || window.start == start);
            let clipped = clip(text.as_bytes(), window.clone(), std::slice::from_ref(&(start..end)));
            prop_assert_eq!(clipped.offset.is_some(), window.len() < text.len());
            let (from, to) = clipped.spans[0];
            prop_assert_eq!(&clipped.text[from as usize..to as usize], &text[start..end.min(window.end).max(start)]);
        }
    }

    #[test]
    fn spans_count_in_the_text_that_is_shown() {
        let clipped = clip(b"\xffa\xffb", 0..4, &[1..2, 3..4]);
        assert_eq!(clipped.text, "\u{fffd}a\u{fffd}b");
        assert_eq!(clipped.spans, [(3, 4), (7, 8)]);
        let clipped = clip(b"0123456789", 4..8, &[1..2, 3..5, 6..7, 9..10]);
        assert_eq!((clipped.text.as_str(), clipped.offset), ("4567", Some(4)));
        assert_eq!(clipped.spans, [(0, 1), (2, 3)]);
    }

    #[test]
    fn a_neighbour_is_cut_at_a_character() {
        assert_eq!(head("aé".as_bytes(), 2), "a");
        assert_eq!(head(b"ab", 2), "ab");
        assert_eq!(head(b"\xff\xff", 1), "\u{fffd}");
    }
}
