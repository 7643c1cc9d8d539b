//! UTF-16 to UTF-8, chunk by chunk. What is no character becomes U+FFFD.

/// Which end of a unit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    Little,
    Big,
}

/// Says so in its first two bytes.
pub fn byte_order_mark(head: &[u8]) -> Option<Endian> {
    match head {
        [0xff, 0xfe, ..] => Some(Endian::Little),
        [0xfe, 0xff, ..] => Some(Endian::Big),
        _ => None,
    }
}

#[derive(Debug, Clone)]
pub struct Utf16 {
    endian: Endian,
    /// Keeps units that are no characters as WTF-8 instead of replacing them.
    is_lossless: bool,
    has_replaced: bool,
    /// The first byte of a unit.
    half: Option<u8>,
    /// The first unit of a pair.
    high: Option<u16>,
}

impl Utf16 {
    pub fn new(endian: Endian) -> Self {
        Self { endian, is_lossless: false, has_replaced: false, half: None, high: None }
    }

    /// Units that are no characters become three bytes that are not UTF-8 (WTF-8), from which they can be restored.
    pub fn lossless(endian: Endian) -> Self {
        Self { is_lossless: true, ..Self::new(endian) }
    }

    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Whether anything has become U+FFFD because it was no character.
    pub fn has_replaced(&self) -> bool {
        self.has_replaced
    }

    pub fn push(&mut self, mut chunk: &[u8], out: &mut Vec<u8>) {
        if let Some(first) = self.half
            && let [second, rest @ ..] = chunk
        {
            self.half = None;
            self.unit([first, *second], out);
            chunk = rest;
        }
        let units = chunk.chunks_exact(2);
        if let [last] = units.remainder() {
            self.half = Some(*last);
        }
        units.for_each(|unit| self.unit([unit[0], unit[1]], out));
    }

    /// After the last chunk: what was begun and never ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match (self.high.take(), self.half.take()) {
            (Some(high), None) => self.put_lone(high, out),
            // Half a unit cannot be restored.
            (_, Some(_)) => self.put_replacement(out),
            (None, None) => {}
        }
    }

    fn unit(&mut self, bytes: [u8; 2], out: &mut Vec<u8>) {
        let unit = match self.endian {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        };
        let is_low = (0xdc00..0xe000).contains(&unit);
        if let Some(high) = self.high.take() {
            if is_low && let Some(Ok(c)) = char::decode_utf16([high, unit]).next() {
                return put(c, out);
            }
            self.put_lone(high, out);
        }
        match (unit, char::from_u32(unit.into())) {
            (0xd800..0xdc00, _) => self.high = Some(unit),
            (_, Some(c)) => put(c, out),
            (_, None) => self.put_lone(unit, out),
        }
    }

    /// One half of a pair without the other.
    fn put_lone(&mut self, unit: u16, out: &mut Vec<u8>) {
        if !self.is_lossless {
            return self.put_replacement(out);
        }
        let [high, low] = [unit >> 6 & 0x3f, unit & 0x3f].map(|bits| 0x80 | bits as u8);
        out.extend_from_slice(&[0xed, high, low]);
    }

    fn put_replacement(&mut self, out: &mut Vec<u8>) {
        self.has_replaced = true;
        put(char::REPLACEMENT_CHARACTER, out);
    }
}

fn put(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_chunking_gives_what_the_standard_library_gives(
            units in proptest::collection::vec(prop_oneof![0x20u16..0x7f, 0xd7f0u16..0xe010, any::<u16>()], 0..30),
            step in 1usize..7, is_big: bool,
        ) {
            let endian = if is_big { Endian::Big } else { Endian::Little };
            let bytes: Vec<u8> =
                units.iter().flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect();
            let (mut decoder, mut out) = (Utf16::new(endian), Vec::new());
            bytes.chunks(step).for_each(|chunk| decoder.push(chunk, &mut out));
            decoder.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), String::from_utf16_lossy(&units));
        }
    }

    #[test]
    fn marks_are_known_and_a_torn_end_is_replaced() {
        assert_eq!(byte_order_mark(b"\xff\xfea\0"), Some(Endian::Little));
        assert_eq!(byte_order_mark(b"\xfe\xff"), Some(Endian::Big));
        assert_eq!(byte_order_mark(b"\xff"), None);
        let (mut decoder, mut out) = (Utf16::new(Endian::Little), Vec::new());
        decoder.push(b"a\0\x3d", &mut out);
        decoder.finish(&mut out);
        assert_eq!(out, "a\u{fffd}".as_bytes());
    }
}
