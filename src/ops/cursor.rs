//! Cursors: texts that continue a reply and are only valid for the same request. Pure.
//!
//! A cursor contains the last path that was shown and nothing that the caller has not seen. A forged cursor only changes
//! where the search starts.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde::Serialize;

use crate::wire::{Error, Result};

/// Bytes of the fingerprint at the beginning of a cursor.
const FINGERPRINT_BYTES: usize = 8;

/// The part of a request that must be the same for another request to continue its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestFingerprint([u8; FINGERPRINT_BYTES]);

impl RequestFingerprint {
    /// Pass `request` without the fields that may differ: its cursor, and the size of the reply.
    pub(super) fn of(function: &str, request: &impl Serialize) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(function.as_bytes());
        // Plain structs always serialise. Otherwise the cursor would be valid for every request of the function, which does
        // no harm.
        hash.update(&serde_json::to_vec(request).unwrap_or_default());
        let mut mark = [0; FINGERPRINT_BYTES];
        mark.copy_from_slice(&hash.finalize().as_bytes()[..FINGERPRINT_BYTES]);
        Self(mark)
    }

    pub(super) fn encode_cursor(self, numbers: &[u64], path: &[u8]) -> String {
        let mut bytes = self.0.to_vec();
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        bytes.extend_from_slice(path);
        BASE64.encode(bytes)
    }

    pub(super) fn decode_cursor<const N: usize>(self, cursor: &str) -> Result<([u64; N], Vec<u8>)> {
        let foreign = || {
            Error::bad_input(
                "cursor: not one of this request; pass next_cursor of the reply before, and the same request otherwise",
            )
        };
        let bytes = BASE64.decode(cursor).map_err(|_| foreign())?;
        let rest = bytes.strip_prefix(&self.0).ok_or_else(foreign)?;
        let (numbers, path) = rest.split_at_checked(8 * N).ok_or_else(foreign)?;
        let mut parsed = [0; N];
        for (number, bytes) in parsed.iter_mut().zip(numbers.chunks_exact(8)) {
            *number = bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        Ok((parsed, path.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    #[test]
    fn a_cursor_comes_back_as_it_was() {
        let mark = RequestFingerprint::of("f", &"request");
        let cursor = mark.encode_cursor(&[7, u64::MAX], b"/a/\xff");
        assert_eq!(mark.decode_cursor::<2>(&cursor).unwrap(), ([7, u64::MAX], b"/a/\xff".to_vec()));
    }

    #[test]
    fn another_request_or_a_torn_cursor_is_refused() {
        let mark = RequestFingerprint::of("f", &"request");
        let cursor = mark.encode_cursor(&[7], b"/a");
        for wrong in
            ["", "*", "AAAA", &cursor[..12], &RequestFingerprint::of("g", &"request").encode_cursor(&[7], b"/a")]
        {
            assert_eq!(mark.decode_cursor::<1>(wrong).unwrap_err().code, Code::BadInput, "{wrong}");
        }
        assert_eq!(RequestFingerprint::of("f", &"other").decode_cursor::<1>(&cursor).unwrap_err().code, Code::BadInput);
    }
}
