//! Bytes to text, where nothing may be lost without saying so.

use super::Measure;

/// Bytes of U+FFFD, which stands for each maximal part of a sequence that is not UTF-8.
const REPLACEMENT_BYTES: u64 = '\u{fffd}'.len_utf8() as u64;

/// The text, and whether it is exactly the bytes.
pub fn to_text(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
    }
}

/// Bytes of the text that `bytes` become. Never less than `bytes.len()`.
pub fn converted_len(bytes: &[u8]) -> u64 {
    let mut lossy = Lossy::default();
    lossy.push(bytes);
    lossy.finish().0
}

/// Longest prefix within `cap` that tears no character which is whole in `bytes`.
pub fn prefix_within(bytes: &[u8], cap: u64, measure: Measure) -> usize {
    let mut used = 0;
    let mut end = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let room = usize::try_from(cap - used).unwrap_or(usize::MAX);
        if valid.len() > room {
            return end + valid.floor_char_boundary(room);
        }
        used += valid.len() as u64;
        end += valid.len();
        let invalid = chunk.invalid().len();
        let cost = match measure {
            Measure::Raw => invalid as u64,
            Measure::Converted if invalid == 0 => 0,
            Measure::Converted => REPLACEMENT_BYTES,
        };
        if used + cost > cap {
            return end;
        }
        used += cost;
        end += invalid;
    }
    end
}

/// Length and validity of the text that a stream of chunks becomes, without holding it.
#[derive(Debug, Clone, Default)]
pub struct Lossy {
    converted: u64,
    invalid: bool,
    /// The beginning of a sequence whose rest may come with the next chunk.
    pending: [u8; 4],
    pending_len: usize,
}

impl Lossy {
    pub fn push(&mut self, mut chunk: &[u8]) {
        while self.pending_len > 0 && !chunk.is_empty() {
            chunk = self.complete(chunk);
        }
        loop {
            match std::str::from_utf8(chunk) {
                Ok(text) => {
                    self.converted += text.len() as u64;
                    return;
                }
                Err(error) => {
                    self.converted += error.valid_up_to() as u64;
                    let rest = &chunk[error.valid_up_to()..];
                    let Some(bad) = error.error_len() else {
                        self.pending[..rest.len()].copy_from_slice(rest);
                        self.pending_len = rest.len();
                        return;
                    };
                    self.replace();
                    chunk = &rest[bad..];
                }
            }
        }
    }

    /// Bytes of the text, and whether it is exactly the input.
    pub fn finish(mut self) -> (u64, bool) {
        if self.pending_len > 0 {
            self.replace();
        }
        (self.converted, !self.invalid)
    }

    fn replace(&mut self) {
        self.converted += REPLACEMENT_BYTES;
        self.invalid = true;
        self.pending_len = 0;
    }

    /// Takes one more byte into the pending sequence; returns what is left of the chunk.
    fn complete<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        self.pending[self.pending_len] = chunk[0];
        match std::str::from_utf8(&self.pending[..=self.pending_len]) {
            Ok(text) => {
                self.converted += text.len() as u64;
                self.pending_len = 0;
            }
            Err(error) if error.error_len().is_none() => self.pending_len += 1,
            // What was pending is one maximal part; this byte begins anew.
            Err(_) => {
                self.replace();
                return chunk;
            }
        }
        &chunk[1..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes in which broken and whole sequences are frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just("é→𝄞".as_bytes().to_vec()),
            Just(b"\xf0\x9d\x84".to_vec()),
            Just(b"\xe2\x86".to_vec()),
            Just(b"\xed\xa0\x80".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn streamed_length_equals_the_text(bytes in bytes(), step in 1usize..7) {
            let mut lossy = Lossy::default();
            bytes.chunks(step).for_each(|chunk| lossy.push(chunk));
            let text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(lossy.finish(), (text.len() as u64, std::str::from_utf8(&bytes).is_ok()));
        }

        #[test]
        fn prefix_is_the_longest_that_fits(bytes in bytes(), cap in 0u64..40) {
            for measure in [Measure::Raw, Measure::Converted] {
                let end = prefix_within(&bytes, cap, measure);
                prop_assert!(measure.of(&bytes[..end]) <= cap);
                // The next character, or the next broken part, would not fit.
                let next = bytes[end..].utf8_chunks().next().map(|chunk| match chunk.valid().chars().next() {
                    Some(char) => char.len_utf8(),
                    None => chunk.invalid().len(),
                });
                if let Some(next) = next {
                    prop_assert!(measure.of(&bytes[..end + next]) > cap);
                }
            }
        }
    }

    #[test]
    fn to_text_tells_what_was_replaced() {
        assert_eq!(to_text(b"a\xffb".to_vec()), ("a\u{fffd}b".to_owned(), false));
        assert_eq!(to_text("aé".into()), ("aé".to_owned(), true));
    }
}
