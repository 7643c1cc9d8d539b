//! Byte windows of UTF-16 files. Offsets are those of the file; the text is decoded. Runs in the worker. Trusts nothing in the file.

use super::view::ReadBudget;
use crate::{
    jail::{Call, JailFile, ReadControl},
    text::{
        Measure,
        charset::{self, Decoder, HEAD_BYTES},
        utf16::Endian,
    },
    wire::{Result, types::read_file::Charset},
};

/// Bytes of a byte order mark, which belongs to no text.
const MARK_BYTES: u64 = 2;

/// The encoding of a file that is not read from its beginning.
pub(super) fn endian(file: &JailFile) -> Result<Option<Endian>> {
    let mut head = [0; HEAD_BYTES];
    let len = file.read_full_at(&mut head, 0)?;
    Ok(charset::utf16(&head[..len]))
}

/// The offset in the file of a byte of its decoded text.
pub(super) fn offset_in_file(file: &JailFile, call: &Call, text_offset: u64) -> Result<u64> {
    let mut decoder = Decoder::default();
    let (mut left, mut offset) = (text_offset, MARK_BYTES);
    file.read_chunks(call, 0, u64::MAX, |chunk| {
        let text = decoder.push(chunk);
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(text.len());
        offset += text[..taken].iter().map(|byte| bytes_of(*byte)).sum::<u64>();
        left -= taken as u64;
        Ok(if left == 0 { ReadControl::Stop } else { ReadControl::Continue })
    })?;
    Ok(offset)
}

/// Bytes of UTF-16 of the character that begins with this byte of UTF-8; 0 for a byte inside a character.
fn bytes_of(byte: u8) -> u64 {
    match byte {
        0x80..=0xbf => 0,
        0xf0.. => 4,
        _ => 2,
    }
}

/// The characters of a byte window.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) text: Vec<u8>,
    /// Bytes of the file that became the text.
    pub(super) len: usize,
    pub(super) charset: Charset,
    pub(super) has_replaced: bool,
}

impl Units {
    /// Decodes as many whole characters as the budget allows, from the first `available` bytes of `held`. `held` begins at
    /// the offset `from` of the file and continues after the window, so that the last character can be decoded completely.
    /// `ended`: the file ends with `held`.
    pub(super) fn read(
        (held, available): (&[u8], usize),
        from: u64,
        ended: bool,
        endian: Endian,
        budget: ReadBudget,
    ) -> Self {
        let charset = match endian {
            Endian::Little => Charset::Utf16Le,
            Endian::Big => Charset::Utf16Be,
        };
        // The mark, and half a unit before the first whole one.
        let skipped = usize::from(from == 0) * MARK_BYTES as usize + usize::from(from % 2 == 1);
        let mut units = Self { text: Vec::new(), len: skipped.min(available), charset, has_replaced: false };
        let whole = held.get(skipped..).unwrap_or_default().chunks_exact(2);
        let is_torn = !whole.remainder().is_empty();
        let numbers = whole.map(|unit| match endian {
            Endian::Little => u16::from_le_bytes([unit[0], unit[1]]),
            Endian::Big => u16::from_be_bytes([unit[0], unit[1]]),
        });
        let mut used = 0;
        for found in char::decode_utf16(numbers) {
            let (c, bytes, is_replaced) = match found {
                Ok(c) => (c, 2 * c.len_utf16(), false),
                Err(_) => (char::REPLACEMENT_CHARACTER, 2, true),
            };
            let cost = match budget.measure {
                Measure::Raw => bytes,
                Measure::Converted => c.len_utf8(),
            };
            used += cost as u64;
            if units.len + bytes > available || used > budget.max_bytes {
                return units;
            }
            units.push(c, bytes, is_replaced);
        }
        // Half a unit at the end of the file.
        if ended && is_torn && units.len + 1 == available {
            units.push(char::REPLACEMENT_CHARACTER, 1, true);
        }
        units
    }

    fn push(&mut self, c: char, bytes: usize, is_replaced: bool) {
        self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.len += bytes;
        self.has_replaced |= is_replaced;
    }
}
