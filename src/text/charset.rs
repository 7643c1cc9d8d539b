//! The encoding of a file's text. Runs in the worker. Pure.
//! Trusts nothing: the bytes are a client's files. Never guesses: only a byte order mark makes a file UTF-16, and all other files
//! are taken as they are.

use super::utf16::{self, Endian, Utf16};

/// The first bytes of a file, which decide whether it is binary.
pub const HEAD_BYTES: usize = 4096;

/// Bytes of a byte order mark of UTF-16.
const MARK_BYTES: usize = 2;

/// UTF-16, if the file begins with its byte order mark and its first bytes hold no NUL character. `head` is the beginning of the
/// file; bytes after `HEAD_BYTES` do not count.
pub fn utf16(head: &[u8]) -> Option<Endian> {
    let endian = utf16::byte_order_mark(head)?;
    let units = &head[MARK_BYTES..head.len().min(HEAD_BYTES)];
    let is_binary = units.chunks_exact(2).any(|unit| unit == [0, 0]);
    (!is_binary).then_some(endian)
}

/// The offset of the NUL byte that makes a file binary. None for text, UTF-16 included.
pub fn binary_at(head: &[u8]) -> Option<usize> {
    let nul = memchr::memchr(0, &head[..head.len().min(HEAD_BYTES)]);
    nul.filter(|_| utf16(head).is_none())
}

/// Turns the bytes of a file into its text, chunk by chunk: UTF-16 is decoded and loses its byte order mark, all other bytes stay.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    has_begun: bool,
    utf16: Option<Utf16>,
    text: Vec<u8>,
}

impl Decoder {
    /// The first chunk decides about the encoding.
    pub fn push<'a>(&'a mut self, mut chunk: &'a [u8]) -> &'a [u8] {
        if !self.has_begun && !chunk.is_empty() {
            self.has_begun = true;
            self.utf16 = utf16(chunk).map(Utf16::new);
            if self.utf16.is_some() {
                chunk = &chunk[MARK_BYTES..];
            }
        }
        let Some(utf16) = &mut self.utf16 else { return chunk };
        self.text.clear();
        utf16.push(chunk, &mut self.text);
        &self.text
    }

    /// The text of a character that the end of the file has cut.
    pub fn finish(&mut self) -> &[u8] {
        self.text.clear();
        if let Some(utf16) = &mut self.utf16 {
            utf16.finish(&mut self.text);
        }
        &self.text
    }

    /// The encoding, if it is UTF-16.
    pub fn endian(&self) -> Option<Endian> {
        self.utf16.as_ref().map(Utf16::endian)
    }

    /// Whether something was no character and became U+FFFD. Always false for bytes that are not decoded.
    pub fn has_replaced(&self) -> bool {
        self.utf16.as_ref().is_some_and(Utf16::has_replaced)
    }
}

/// The text of a whole UTF-16 file for an edit. Units that are no characters are kept as WTF-8 (three bytes that are not UTF-8),
/// so that `encode` writes the same units again. None if the file ends with half a unit.
pub fn decode(bytes: &[u8], endian: Endian) -> Option<Vec<u8>> {
    let units = bytes.get(MARK_BYTES..)?;
    if units.len() % 2 != 0 {
        return None;
    }
    let mut text = Vec::with_capacity(units.len());
    let mut decoder = Utf16::lossless(endian);
    decoder.push(units, &mut text);
    decoder.finish(&mut text);
    Some(text)
}

/// The opposite of `decode`. None if the text holds bytes that stand for no unit.
pub fn encode(text: &[u8], endian: Endian) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(MARK_BYTES + 2 * text.len());
    let mut put = |unit: u16| {
        bytes.extend_from_slice(&match endian {
            Endian::Little => unit.to_le_bytes(),
            Endian::Big => unit.to_be_bytes(),
        });
    };
    put(0xfeff);
    let mut rest = text;
    loop {
        let valid = match std::str::from_utf8(rest) {
            Ok(valid) => valid,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).ok()?,
        };
        valid.encode_utf16().for_each(&mut put);
        match &rest[valid.len()..] {
            [] => return Some(bytes),
            [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, more @ ..] => {
                put(0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f));
                rest = more;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(units: &[u16], is_big: bool) -> Vec<u8> {
        let units = [&[0xfeff], units].concat();
        units.iter().flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    proptest! {
        #[test]
        fn every_unit_survives_decoding_and_encoding(
            units in proptest::collection::vec(prop_oneof![0x20u16..0x7f, 0xd7f0u16..0xe010, any::<u16>()], 0..40),
            is_big: bool,
        ) {
            let bytes = file(&units, is_big);
            let endian = if is_big { Endian::Big } else { Endian::Little };
            let text = decode(&bytes, endian).unwrap();
            prop_assert_eq!(String::from_utf16(&units).ok(), String::from_utf8(text.clone()).ok());
            prop_assert_eq!(encode(&text, endian).unwrap(), bytes);
        }

        #[test]
        fn chunks_do_not_matter(
            units in proptest::collection::vec(prop_oneof![0x20u16..0x7f, 0xd7f0u16..0xe010], 0..40),
            first in 2usize..9, step in 1usize..7, is_big: bool,
        ) {
            let bytes = file(&units, is_big);
            let (head, rest) = bytes.split_at(first.min(bytes.len()));
            let (mut decoder, mut text) = (Decoder::default(), Vec::new());
            text.extend_from_slice(decoder.push(head));
            rest.chunks(step).for_each(|chunk| text.extend_from_slice(decoder.push(chunk)));
            text.extend_from_slice(decoder.finish());
            let expected = String::from_utf16_lossy(&units);
            prop_assert_eq!(decoder.has_replaced(), String::from_utf16(&units).is_err());
            prop_assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn only_a_mark_makes_a_file_utf16_and_a_nul_character_makes_it_binary() {
        assert_eq!(utf16(b"\xff\xfea\0"), Some(Endian::Little));
        assert_eq!(utf16(b"\xfe\xff\0a"), Some(Endian::Big));
        assert_eq!(utf16(b"a\0b\0"), None);
        // The mark of UTF-32.
        assert_eq!(utf16(b"\xff\xfe\0\0a\0\0\0"), None);
        assert_eq!(binary_at(b"\xff\xfea\0"), None);
        assert_eq!(binary_at(b"a\0b\0"), Some(1));
        assert_eq!(binary_at(b"\xff\xfe\0\0"), Some(2));
        assert_eq!(binary_at(&[&[b'a'; HEAD_BYTES][..], b"\0"].concat()), None);
    }

    #[test]
    fn half_a_unit_and_bytes_that_stand_for_none_are_refused() {
        assert_eq!(decode(b"\xff\xfea", Endian::Little), None);
        for text in [&b"\xff"[..], b"\xed\xa0", b"\xe9x", b"a\xed\x20\x80"] {
            assert_eq!(encode(text, Endian::Little), None, "{text:?}");
        }
        assert_eq!(encode(b"a", Endian::Big).unwrap(), b"\xfe\xff\0a");
    }

    #[test]
    fn other_bytes_pass_as_they_are() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\xef\xbb\xbfa\xff"), b"\xef\xbb\xbfa\xff");
        assert!(decoder.finish().is_empty());
        assert_eq!((decoder.endian(), decoder.has_replaced()), (None, false));
    }
}
