//! Runs in the worker and in clients. Pure: bytes come in chunks, text and numbers go out; no descriptors.
//! Trusts nothing: the bytes are a client's files. Never holds more than the budget it was given.
//!
//! A line is a segment ended by LF or by the end of the file; an empty file has none, a final LF begins no further
//! one, and a lone CR ends nothing. A byte order mark belongs to no line: line 1 begins after it.

pub mod charset;
pub mod diff;
pub mod edit;
pub mod etag;
pub mod file_types;
pub mod globs;
pub mod ignore;
pub mod lines;
pub mod name_globs;
pub mod number;
pub mod order;
pub mod quote;
pub mod search;
pub mod tail;
pub mod tally;
pub mod utf16;
pub mod utf8;
pub mod window;

pub use etag::Etag;
pub use tally::Tally;
pub use window::LineWindow;

/// UTF-8's byte order mark.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// How a budget counts bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bytes as they are in the file (and number prefixes).
    Raw,
    /// Bytes of the text they become, U+FFFD for what is not UTF-8 (and number prefixes).
    Converted,
}

impl Measure {
    pub fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Raw => bytes.len() as u64,
            Self::Converted => utf8::converted_len(bytes),
        }
    }
}
