//! The text of a reply, written as JSON from the start: the content of a file goes from the service to the host as it was
//! written, and decoding and encoding it again would be most of the bridge's work.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

/// A JSON string that can grow. Always whole, with both quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::frontends::mcp) struct JsonText(Vec<u8>);

impl Default for JsonText {
    fn default() -> Self {
        Self(b"\"\"".to_vec())
    }
}

impl JsonText {
    pub(in crate::frontends::mcp) fn from_text(text: &str) -> Self {
        let mut json = Vec::with_capacity(text.len() + text.len() / 8 + 2);
        json.extend_from_slice(b"\"\"");
        let mut this = Self(json);
        this.push(text);
        this
    }

    pub(in crate::frontends::mcp) fn as_json(&self) -> &[u8] {
        &self.0
    }

    pub(in crate::frontends::mcp) fn push(&mut self, text: &str) {
        self.0.pop();
        // serde_json writes a string with quotes: the opening one takes the place of the byte before it, which is put back.
        let at = self.0.len() - 1;
        let before = self.0[at];
        self.0.truncate(at);
        // Writing to a Vec does not fail.
        let _ = serde_json::to_writer(&mut self.0, text);
        self.0[at] = before;
    }

    pub(super) fn push_encoded(&mut self, text: EncodedText<'_>) {
        self.0.pop();
        self.0.extend_from_slice(text.0.as_bytes());
        self.0.push(b'"');
    }

    /// Length of the decoded text in bytes.
    pub(in crate::frontends::mcp) fn decoded_length(&self) -> usize {
        let json = self.inside();
        let mut length = json.len();
        let mut at = 0;
        while let Some(escape) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
            at += escape;
            let (encoded, decoded) = escape_lengths(&json[at..]);
            length = length + decoded - encoded;
            at += encoded;
        }
        length
    }

    fn inside(&self) -> &[u8] {
        &self.0[1..self.0.len() - 1]
    }

    /// Ends the last line, if it has no end.
    pub(super) fn end_line(&mut self) {
        let inside = self.inside();
        if !inside.is_empty() && !ends_line(inside) {
            self.push("\n");
        }
    }
}

/// Lengths in bytes of the escape at the beginning of `json`, and of the character that it encodes.
fn escape_lengths(json: &[u8]) -> (usize, usize) {
    if json.get(1) != Some(&b'u') {
        return (2, 1);
    }
    let unit = json.get(2..6).and_then(|digits| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
    match unit.unwrap_or_default() {
        // Two halves make a character above U+FFFF.
        0xd800..=0xdbff => (12, 4),
        0..=0x7f => (6, 1),
        0x80..=0x7ff => (6, 2),
        _ => (6, 3),
    }
}

/// `\n` at the end, and not a backslash before an n.
fn ends_line(json: &[u8]) -> bool {
    let backslashes = |before: &[u8]| before.iter().rev().take_while(|byte| **byte == b'\\').count();
    json.strip_suffix(b"n").is_some_and(|before| backslashes(before) % 2 == 1)
}

/// A JSON string as it was written, without its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EncodedText<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for EncodedText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        inside.map(Self).ok_or_else(|| D::Error::custom("expected a string"))
    }
}

impl<'a> EncodedText<'a> {
    pub(super) fn as_str(&self) -> &'a str {
        self.0
    }

    /// The decoded text.
    pub(super) fn decode(&self) -> String {
        serde_json::from_str(&format!("\"{}\"", self.0)).unwrap_or_else(|_| self.0.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Piece {
        Text(String),
        Written(String),
        LineEnd,
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let text = || prop_oneof![any::<String>(), r#"[a\n"\\→n]{0,4}"#];
        prop_oneof![text().prop_map(Piece::Text), text().prop_map(Piece::Written), Just(Piece::LineEnd),]
    }

    proptest! {
        #[test]
        fn any_pieces_are_the_string_that_they_make(pieces in prop::collection::vec(piece(), 0..6)) {
            let (mut json, mut expected) = (JsonText::default(), String::new());
            for piece in pieces {
                match piece {
                    Piece::Text(text) => {
                        json.push(&text);
                        expected.push_str(&text);
                    }
                    Piece::Written(text) => {
                        let written = serde_json::to_string(&text).unwrap();
                        json.push_encoded(serde_json::from_str(&written).unwrap());
                        expected.push_str(&text);
                    }
                    Piece::LineEnd => {
                        json.end_line();
                        if !expected.is_empty() && !expected.ends_with('\n') {
                            expected.push('\n');
                        }
                    }
                }
                let read: String = serde_json::from_slice(json.as_json()).unwrap();
                prop_assert_eq!(&read, &expected);
                prop_assert_eq!(json.decoded_length(), expected.len());
            }
        }
    }
}
