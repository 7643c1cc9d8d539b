//! Runs in every frontend: names and texts from a disk or a server, made safe to show to a person or a model. Pure.
//!
//! A file may be called anything but NUL and slash: a name with an escape sequence could repaint the screen, one with a
//! newline could forge a second entry, one with a direction mark could read backwards, and invisible characters could
//! address a model unnoticed.
//!
//! One notation everywhere, JSON's: `\n`, `\u202e`, and two such units for a character above U+FFFF. A name that is shown
//! so can be put between quotes in a request as it is. Bytes that are not UTF-8 are `\xe9`, which JSON does not have. In a name
//! a backslash itself is `\\`, so no name can imitate an escape; in sentences and contents it stays what it is.

use std::{borrow::Cow, fmt::Write};

/// A name in full, for the command line.
pub(super) fn name(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_name_char(c, &mut text));
        chunk.invalid().iter().for_each(|byte| push_byte(*byte, &mut text));
    }
    text
}

/// A name for a model: as it is, or as a JSON string with its quotes where it holds anything that could be taken for
/// another part of a reply. A name that is shown without quotes has none in it, so the two cannot be confused.
pub(super) fn quote_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !(is_hidden(c) || c.is_whitespace() || REPLY_DELIMITERS.contains(&c));
    // Nearly all names are of these characters alone.
    let is_plain_ascii = |byte: u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'\\' | b':');
    if !name.is_empty() && (name.bytes().all(is_plain_ascii) || name.chars().all(is_plain)) {
        return name.into();
    }
    let mut text = String::with_capacity(name.len() + 8);
    text.push('"');
    name.chars().for_each(|c| match c {
        '"' => text.push_str("\\\""),
        c => push_name_char(c, &mut text),
    });
    text.push('"');
    text.into()
}

/// Characters that replies put between their parts, and those that a quoted name begins or escapes with.
const REPLY_DELIMITERS: [char; 6] = ['"', '\\', ':', '→', '…', '⋮'];

/// Escapes the hidden characters in a text of the service.
pub(super) fn escape_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    text.chars().for_each(|c| if is_hidden(c) { push_escape(c, &mut safe) } else { safe.push(c) });
    safe
}

/// A line of a file. Keeps tabs and the variation selectors of emoji.
pub(super) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        push_content_char(c, &mut safe);
    }
    safe
}

/// JSON on one line, with hidden characters as escapes. Valid JSON has them only inside strings, apart from white space.
pub(super) fn json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.trim().chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            c if is_hidden(c) => push_escape(c, &mut safe),
            c => safe.push(c),
        }
    }
    safe
}

/// The content of a file for a terminal, piece by piece: a character or a line end may be cut between two pieces.
#[derive(Debug, Default)]
pub(super) struct ContentEscaper {
    incomplete_end: Vec<u8>,
    /// Something was shown as an escape.
    pub(super) is_escaped: bool,
}

impl ContentEscaper {
    pub(super) fn push(&mut self, piece: &[u8]) -> String {
        let bytes = [&std::mem::take(&mut self.incomplete_end), piece].concat();
        let cut = incomplete_length(&bytes);
        let (whole, rest) = bytes.split_at(bytes.len() - cut);
        self.incomplete_end = rest.to_vec();
        self.escape_bytes(whole)
    }

    /// Escapes the incomplete character at the end of the input.
    pub(super) fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.incomplete_end);
        self.escape_bytes(&rest)
    }

    fn escape_bytes(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            let mut characters = chunk.valid().chars().peekable();
            while let Some(c) = characters.next() {
                match c {
                    '\n' => text.push(c),
                    '\r' if characters.peek() == Some(&'\n') => text.push(c),
                    c => self.is_escaped |= push_content_char(c, &mut text),
                }
            }
            self.is_escaped |= !chunk.invalid().is_empty();
            chunk.invalid().iter().for_each(|byte| push_byte(*byte, &mut text));
        }
        text
    }
}

/// Length of an incomplete end: a cut character, or a carriage return whose newline may follow.
fn incomplete_length(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    let last = bytes.utf8_chunks().last();
    let cut = last.map_or(&[][..], |chunk| chunk.invalid());
    let is_start = cut.first().is_some_and(|first| {
        let length = match first {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 0,
        };
        cut.len() < length
    });
    if is_start { cut.len() } else { 0 }
}

/// Escapes also white space other than the space, so that a name copied from the screen is the real name.
fn push_name_char(c: char, text: &mut String) {
    match c {
        '\\' => text.push_str("\\\\"),
        '\u{2800}' => push_escape(c, text),
        c if is_hidden(c) || (c.is_whitespace() && c != ' ') => push_escape(c, text),
        c => text.push(c),
    }
}

/// True if it was shown as an escape.
fn push_content_char(c: char, text: &mut String) -> bool {
    let is_escaped = is_hidden(c) && !matches!(c, '\t' | '\u{fe0e}' | '\u{fe0f}');
    if is_escaped {
        push_escape(c, text)
    } else {
        text.push(c)
    }
    is_escaped
}

/// In the notation of JSON.
fn push_escape(c: char, text: &mut String) {
    match c {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                push_infallible(text, format_args!("\\u{unit:04x}"));
            }
        }
    }
}

fn push_byte(byte: u8, text: &mut String) {
    push_infallible(text, format_args!("\\x{byte:02x}"));
}

fn push_infallible(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a String does not fail");
}

/// Characters that act on a terminal, break or reorder a line, or are not seen: control characters (C1 included: U+009B
/// starts a sequence on some terminals), line and paragraph separators, direction marks, everything that Unicode calls
/// Default_Ignorable (zero-width characters, variation selectors, tags …), format characters of annotations and of music,
/// and code points that are no characters.
pub(super) fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(u32::from(c),
            0xad | 0x34f | 0x61c
            | 0x115f..=0x1160
            | 0x17b4..=0x17b5
            | 0x180b..=0x180f
            | 0x200b..=0x200f
            | 0x2028..=0x202e
            | 0x2060..=0x206f
            | 0x3164
            | 0xfdd0..=0xfdef
            | 0xfe00..=0xfe0f
            | 0xfeff
            | 0xffa0
            | 0xfff0..=0xfffb
            | 0x13430..=0x1343f
            | 0x1bca0..=0x1bca3
            | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff)
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Columns of text that was made safe. Wide scripts take two, combining marks none; exact for nearly all names.
pub(super) fn display_width(text: &str) -> usize {
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
#[path = "escape_tests.rs"]
mod tests;
