//! What is known about a whole stream without holding it: lines, bytes, text length, validity.

use super::{BOM, utf8::Lossy};

#[derive(Debug, Clone, Default)]
pub struct Tally {
    bytes: u64,
    newlines: u64,
    last: u8,
    /// The first bytes, to know a byte order mark.
    head: [u8; 3],
    lossy: Lossy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub bytes: u64,
    pub lines: u64,
    /// Bytes of the text that the stream becomes.
    pub converted: u64,
    pub is_utf8: bool,
    pub has_bom: bool,
}

impl Tally {
    pub fn push(&mut self, chunk: &[u8]) {
        let Some(&last) = chunk.last() else { return };
        for (slot, &byte) in self.head.iter_mut().skip(self.bytes.min(3) as usize).zip(chunk) {
            *slot = byte;
        }
        self.bytes += chunk.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', chunk).count() as u64;
        self.last = last;
        self.lossy.push(chunk);
    }

    pub fn finish(self) -> Totals {
        let has_bom = self.bytes >= 3 && self.head == BOM;
        let in_lines = if has_bom { self.bytes - 3 } else { self.bytes };
        let unterminated = in_lines > 0 && self.last != b'\n';
        let (converted, is_utf8) = self.lossy.finish();
        Totals { bytes: self.bytes, lines: self.newlines + u64::from(unterminated), converted, is_utf8, has_bom }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(bytes: &[u8], step: usize) -> Totals {
        let mut tally = Tally::default();
        bytes.chunks(step).for_each(|chunk| tally.push(chunk));
        tally.finish()
    }

    #[test]
    fn lines_are_counted_as_the_contract_says() {
        let cases: [(&[u8], u64); 12] = [
            (b"", 0),
            (b"\n", 1),
            (b"a", 1),
            (b"a\n", 1),
            (b"a\nb", 2),
            (b"\n\n", 2),
            (b"a\r\nb\r\n", 2),
            (b"a\rb", 1),
            (b"\xef\xbb\xbf", 0),
            (b"\xef\xbb\xbfa", 1),
            (b"\xef\xbb\xbf\n", 1),
            (b"\xef\xbb", 1),
        ];
        for (bytes, lines) in cases {
            for step in 1..4 {
                assert_eq!(tally(bytes, step).lines, lines, "{bytes:?} in chunks of {step}");
            }
        }
    }

    #[test]
    fn a_mark_is_known_in_any_chunking() {
        for step in 1..6 {
            assert!(tally(b"\xef\xbb\xbfab", step).has_bom);
            assert!(!tally(b"a\xef\xbb\xbf", step).has_bom);
        }
    }
}
