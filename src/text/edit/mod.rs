//! Runs in the worker: the edits of one file. Bytes and operations in, bytes and echoes out; pure.
//! Trusts nothing: the bytes are a client's file, the operations a client's request.
//! Never changes a byte that no operation names, never builds more than the bound it was given, and asks between
//! any two steps whether it is still wanted.
//!
//! Line operations come first; their numbers are the original file's. Then the others, in the order of the request,
//! each on what the one before left.

mod echo;
mod ends;
mod line_ops;
mod literal;
mod loose;
mod mismatch;
mod nearest;
mod pattern;
mod splice;
mod template;

use std::borrow::Cow;

use self::{
    echo::{Anchors, EchoShape},
    splice::Splice,
};
use super::lines;

pub use echo::FileEditEcho;
pub use nearest::Nearest;

/// As `expect_matches` of literal text: every occurrence, at least one. No text is as long as this number.
pub const EVERY_MATCH: u64 = u64::MAX;

/// One operation, as the contract names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEditOp<'a> {
    Insert { at_line: u64, content: &'a str },
    Remove { from_line: u64, to_line: u64 },
    UpdateLines { from_line: u64, to_line: u64, content: &'a str },
    Replace(RegexReplace<'a>),
    StrReplace(StrReplace<'a>),
    Append { content: &'a str },
    Prepend { content: &'a str },
}

/// Literal text and what takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrReplace<'a> {
    pub old: &'a str,
    pub new: &'a str,
    pub expect_matches: u64,
    /// If the text is not found, white space around its lines does not count.
    pub ignores_white_space: bool,
}

/// A regular expression and what takes the place of each of its matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegexReplace<'a> {
    pub pattern: &'a str,
    pub replacement: &'a str,
    pub ignore_case: bool,
    pub dot_matches_newline: bool,
    pub expect_matches: Option<u64>,
    /// Without `expect_matches`: no match is an error.
    pub must_match: bool,
}

/// The limits of an edit: size and time.
#[derive(Clone, Copy)]
pub struct EditBounds<'a> {
    /// Limit of the file's size at any time between two operations.
    pub max_bytes: u64,
    /// False if the call was cancelled or its deadline has passed.
    pub should_continue: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for EditBounds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bounds").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// The result of an edit that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub bytes: Vec<u8>,
    /// Operations applied: all of them.
    pub applied: usize,
    pub new_line_count: u64,
    /// The changed places as they are now, in the order of the operations.
    pub echoes: Vec<FileEditEcho>,
    /// There were more than the budget shows.
    pub echoes_truncated: bool,
    pub changed: bool,
    /// What an operation did otherwise than it was written, with its index.
    pub notes: Vec<(usize, String)>,
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The error text for operations that are invalid.
    Invalid(String),
    /// The same for a text that is not in the file, with the lines that are most like it.
    Missing { text: String, nearest: Box<Nearest> },
    /// The result would have at least so many bytes.
    TooLarge { bytes: u64 },
    /// The call was cancelled or its deadline has passed.
    Stopped,
}

pub fn apply(original: &[u8], ops: &[FileEditOp<'_>], bounds: EditBounds<'_>) -> Result<Edited, EditError> {
    let (mark, lines) = lines::split_bom(original);
    let mut body = Body {
        bytes: Cow::Borrowed(lines),
        anchors: Anchors::default(),
        bom_bytes: mark.len(),
        bounds,
        runs_after_others: false,
        notes: Vec::new(),
    };
    line_ops::run(&mut body, ops)?;
    for (op_index, op) in ops.iter().enumerate() {
        if !(bounds.should_continue)() {
            return Err(EditError::Stopped);
        }
        match *op {
            FileEditOp::Insert { .. } | FileEditOp::Remove { .. } | FileEditOp::UpdateLines { .. } => {
                continue;
            }
            FileEditOp::Replace(replace) => pattern::run(&mut body, op_index, &replace)?,
            FileEditOp::StrReplace(replace) => literal::run(&mut body, op_index, &replace)?,
            FileEditOp::Append { content } => ends::append(&mut body, op_index, content)?,
            FileEditOp::Prepend { content } => ends::prepend(&mut body, op_index, content)?,
        }
        body.runs_after_others = true;
    }
    // Text that an edit puts at the beginning of the file may begin with a byte order mark, which readers of the file then
    // take for one.
    let (new_mark, new_lines) =
        if mark.is_empty() { lines::split_bom(&body.bytes) } else { (&b""[..], &body.bytes[..]) };
    let (echoes, echoes_truncated) = body.anchors.show(new_lines, new_mark.len());
    Ok(Edited {
        applied: ops.len(),
        new_line_count: lines::count(new_lines),
        echoes,
        echoes_truncated,
        changed: *body.bytes != *lines,
        notes: body.notes,
        bytes: match body.bytes {
            Cow::Owned(bytes) if mark.is_empty() => bytes,
            bytes => [mark, &bytes].concat(),
        },
    })
}

/// A file between two operations, without its byte order mark.
struct Body<'a> {
    bytes: Cow<'a, [u8]>,
    anchors: Anchors,
    bom_bytes: usize,
    bounds: EditBounds<'a>,
    /// Numbers of lines in error texts are then no longer those of the file on disk.
    runs_after_others: bool,
    notes: Vec<(usize, String)>,
}

impl Body<'_> {
    fn splice(&self) -> Splice<'_> {
        let max = usize::try_from(self.bounds.max_bytes).unwrap_or(usize::MAX);
        Splice::new(&self.bytes, max.saturating_sub(self.bom_bytes), self.anchors.marks())
    }

    /// Takes over what a splice has built.
    fn set(&mut self, (bytes, marks): (Vec<u8>, Vec<usize>)) {
        self.bytes = Cow::Owned(bytes);
        self.anchors.move_to(&marks);
    }

    fn check_cancelled(&self) -> Result<(), EditError> {
        if (self.bounds.should_continue)() { Ok(()) } else { Err(EditError::Stopped) }
    }
}

/// A complaint about one operation.
fn invalid_op(op_index: usize, text: impl std::fmt::Display) -> EditError {
    EditError::Invalid(format!("ops[{op_index}]: {text}"))
}

#[cfg(test)]
mod echo_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod relaxed_tests;
#[cfg(test)]
mod tests;
