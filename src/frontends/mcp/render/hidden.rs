//! Collects lines with invisible or control characters, and writes the warning about them. The contents themselves are not
//! changed, because a model quotes them in edits.

use super::{EncodedText, counted};
use crate::frontends::escape::is_hidden;

/// Lines that a warning names, bytes of their names together, and characters of each.
const MAX_LINES: usize = 8;
const MAX_NAME_BYTES: usize = 600;
const MAX_CHARACTERS: usize = 4;

/// Lines with hidden characters.
#[derive(Debug, Default)]
pub(super) struct HiddenCharacters {
    lines: Vec<(String, Vec<char>)>,
    more_lines: u64,
}

impl HiddenCharacters {
    /// Scans one or more lines; `name(n)` names the n-th line after the first.
    pub(super) fn scan(&mut self, text: &str, name: impl Fn(u64) -> String) {
        if text.bytes().any(|byte| byte >= 0x7f || (byte < 0x20 && byte != b'\n')) {
            self.scan_chars(text.chars(), name);
        }
    }

    /// Like `scan`, for text that is still JSON.
    pub(super) fn scan_json(&mut self, text: EncodedText<'_>, name: impl Fn(u64) -> String) {
        if may_contain_hidden(text.as_str()) {
            self.scan_chars(text.decode().chars(), name);
        }
    }

    fn scan_chars(&mut self, text: impl Iterator<Item = char>, name: impl Fn(u64) -> String) {
        let (mut line, mut found, mut last) = (0, Vec::new(), None);
        let mut text = text.peekable();
        while let Some(c) = text.next() {
            if c == '\n' {
                self.end_line(&mut found, || name(line));
                line += 1;
            } else if needs_warning(c, last, text.peek().copied()) && !found.contains(&c) {
                found.push(c);
            }
            last = Some(c);
        }
        self.end_line(&mut found, || name(line));
    }

    fn end_line(&mut self, found: &mut Vec<char>, name: impl FnOnce() -> String) {
        if found.is_empty() {
            return;
        }
        let found = std::mem::take(found);
        let name = name();
        let named: usize = self.lines.iter().map(|(name, _)| name.len()).sum();
        if self.lines.len() < MAX_LINES && named + name.len() <= MAX_NAME_BYTES {
            self.lines.push((name, found));
        } else {
            self.more_lines += 1;
        }
    }

    pub(super) fn warning(&self) -> Option<String> {
        let lines: Vec<String> = self.lines.iter().map(|(name, found)| describe_line(name, found)).collect();
        let more =
            if self.more_lines > 0 { format!(" and {}", counted(self.more_lines, "more line")) } else { String::new() };
        let lines = if lines.is_empty() { "this part".into() } else { lines.join(", ") };
        (self.more_lines > 0 || !self.lines.is_empty())
            .then(|| format!("warning: invisible or control characters, shown as they are, in {lines}{more}\n"))
    }
}

fn describe_line(name: &str, found: &[char]) -> String {
    let mut codes: Vec<String> =
        found.iter().take(MAX_CHARACTERS).map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    if found.len() > MAX_CHARACTERS {
        codes.push("…".into());
    }
    format!("{name} ({})", codes.join(" "))
}

/// Hidden, and unusual in text: not a tab, a line end, a byte order mark at the start, or an emoji's variation selector.
fn needs_warning(c: char, last: Option<char>, next: Option<char>) -> bool {
    let is_usual = match c {
        '\t' => true,
        '\r' => next == Some('\n'),
        '\u{feff}' => last.is_none(),
        '\u{fe0e}' | '\u{fe0f}' => last.is_some_and(|last| !is_hidden(last) && !last.is_ascii_alphabetic()),
        _ => false,
    };
    is_hidden(c) && !is_usual
}

/// Bytes that are checked together: enough for vector instructions, few enough to stop early.
const BLOCK_BYTES: usize = 256;

/// False if the JSON text surely holds nothing hidden: no escape but those of quote, backslash, tab and line end, and no byte
/// that a hidden character begins with. Nearly all contents end here.
fn may_contain_hidden(json: &str) -> bool {
    let bytes = json.as_bytes();
    let Some(last) = bytes.last() else { return false };
    let (mut firsts, mut seconds) = (bytes.chunks(BLOCK_BYTES), bytes[1..].chunks(BLOCK_BYTES));
    let mut is_block_suspect = || {
        let (firsts, seconds) = (firsts.next()?, seconds.next()?);
        let suspects = firsts.iter().zip(seconds).fold(false, |any, (first, second)| any | is_suspect(*first, *second));
        Some(suspects)
    };
    is_suspect(*last, 0) || std::iter::from_fn(&mut is_block_suspect).any(|is_suspect| is_suspect)
}

/// True if a hidden character may begin with these two bytes. Without branches, so that the compiler uses vectors.
fn is_suspect(first: u8, second: u8) -> bool {
    let is_escape = (first == b'\\') & ((second == b'u') | (second == b'r') | (second == b'b') | (second == b'f'));
    // U+2192, which stands behind every line number, begins with this byte, too.
    let is_general_punctuation = (first == 0xe2) & (second & 0xfe == 0x80);
    let is_lead = (first == 0x7f)
        | (first == 0xc2)
        | (first == 0xcd)
        | (first == 0xd8)
        | (first == 0xe1)
        | (first == 0xe3)
        | (first == 0xef)
        | (first >= 0xf0);
    is_escape | is_general_punctuation | is_lead
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn warned(text: &str) -> Option<String> {
        let mut hidden = HiddenCharacters::default();
        hidden.scan(text, |behind| format!("line {}", behind + 1));
        hidden.warning()
    }

    #[test]
    fn lines_are_named_with_what_they_hide() {
        assert_eq!(
            warned("plain\na\u{202e}b\u{202e}\u{200b}\n\u{e0041}").unwrap(),
            "warning: invisible or control characters, shown as they are, in line 2 (U+202E U+200B), line 3 (U+E0041)\n"
        );
    }

    #[test]
    fn usual_texts_are_not_warned_about() {
        for usual in ["\u{feff}a\r\n\tb\n", "❤\u{fe0f} 1\u{fe0f}", "größe → 日本語 🙂", ""] {
            assert_eq!(warned(usual), None, "{usual:?}");
        }
        for odd in ["a\rb", "a\u{feff}", "a\u{fe0f}", "❤\u{fe0f}\u{fe0f}", "\u{2028}", "\u{7f}", "\u{85}"] {
            assert!(warned(odd).is_some(), "{odd:?}");
        }
    }

    #[test]
    fn a_warning_is_bounded() {
        let text: String = (0..1000).map(|_| "\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2060}\n").collect();
        let warning = warned(&text).unwrap();
        assert!(warning.len() < 600 && warning.ends_with(" and 992 more lines\n"), "{warning}");
    }

    proptest! {
        /// The quick check of the JSON text finds everything that the slow check finds.
        #[test]
        fn written_text_is_looked_at_like_read_text(
            text in prop_oneof![any::<String>(), "[a\n\r\t\\\\\"→é\u{ad}\u{34f}\u{61c}\u{115f}\u{3164}\u{fe0f}\u{13430}\u{1d173}]{0,9}"],
        ) {
            let json = serde_json::to_string(&text).unwrap();
            let written: EncodedText<'_> = serde_json::from_str(&json).unwrap();
            let mut hidden = HiddenCharacters::default();
            hidden.scan_json(written, |behind| format!("line {}", behind + 1));
            prop_assert_eq!(hidden.warning(), warned(&text));
        }
    }

    #[test]
    fn no_hidden_character_is_overlooked() {
        for c in (0..0x11_0000).filter_map(char::from_u32).filter(|c| is_hidden(*c) && !['\t', '\n'].contains(c)) {
            let json = serde_json::to_string(&format!("x{c}")).unwrap();
            // In any place of a block, and at its end.
            let json = format!("{}{}", "a".repeat(u32::from(c) as usize % BLOCK_BYTES), json.trim_matches('"'));
            assert!(may_contain_hidden(&json), "{:x}", u32::from(c));
            assert!(may_contain_hidden(&format!("{json}→")), "{:x}", u32::from(c));
        }
    }
}
