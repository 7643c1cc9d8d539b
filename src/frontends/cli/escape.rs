//! Names and texts from a disk or a server, made safe for a terminal. Pure.
//!
//! A file may be called anything but NUL and slash: a name with an escape sequence could repaint the screen, one
//! with a newline could fake a second entry, one with a direction mark could read backwards.

use std::fmt::Write;

/// A name in full: whatever could act on a terminal, and the backslash itself, in the notation of Rust and C.
pub(super) fn name(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| match c {
            '\\' => text.push_str("\\\\"),
            c => push_safe(c, &mut text),
        });
        chunk.invalid().iter().for_each(|byte| push_byte(*byte, &mut text));
    }
    text
}

/// A sentence of the server: the same, but a backslash in prose is only a backslash.
pub(super) fn one_line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    text.chars().for_each(|c| push_safe(c, &mut safe));
    safe
}

/// A line of a file: tabs are what they are.
pub(super) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    text.chars().for_each(|c| if c == '\t' { safe.push(c) } else { push_safe(c, &mut safe) });
    safe
}

fn push_safe(c: char, text: &mut String) {
    match c {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        c if c.is_ascii_control() => push_byte(c as u8, text),
        c if acts_on_terminal(c) => push_infallible(text, format_args!("\\u{{{:x}}}", u32::from(c))),
        c => text.push(c),
    }
}

fn push_byte(byte: u8, text: &mut String) {
    push_infallible(text, format_args!("\\x{byte:02x}"));
}

pub(super) fn push_infallible(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a String does not fail");
}

/// Control characters (C1 included: U+009B starts a sequence on some terminals) and characters that reorder or
/// break a line without being seen.
pub(super) fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Columns of text that was made safe. Wide scripts take two, combining marks none; exact for nearly all names.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for plain in ["main.rs", "a b", "größe", "日本語", "q'uote\"s"] {
            assert_eq!(name(plain.as_bytes()), plain);
        }
    }

    #[test]
    fn escape_sequences_never_reach_the_terminal() {
        assert_eq!(name(b"\x1b[2Jx\x07\x7f"), "\\x1b[2Jx\\x07\\x7f");
        assert_eq!(name("\u{9b}31m".as_bytes()), "\\u{9b}31m");
        assert_eq!(name(b"a\nb\tc\r"), "a\\nb\\tc\\r");
    }

    #[test]
    fn direction_and_invisible_marks_are_shown() {
        assert_eq!(name("a\u{202e}txt.exe".as_bytes()), "a\\u{202e}txt.exe");
        assert_eq!(name("a\u{2066}b\u{200b}".as_bytes()), "a\\u{2066}b\\u{200b}");
    }

    #[test]
    fn names_that_are_not_utf8_show_their_bytes() {
        assert_eq!(name(b"caf\xe9.txt"), "caf\\xe9.txt");
    }

    #[test]
    fn a_backslash_in_a_name_cannot_pose_as_an_escape() {
        assert_eq!(name(b"a\\x1b"), "a\\\\x1b");
        assert_eq!(one_line("a\\d+"), "a\\d+");
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("日本"), 4);
        assert_eq!(width("e\u{301}"), 1);
    }
}
