//! Runs in the worker: how a batch of changes failed, and what the client is told about the entries that did not fail themselves.

use crate::wire::{Code, Error};

/// Which entry failed, and how. Everything is as it was before unless `is_undo_incomplete`.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchFailure {
    pub entry: usize,
    pub error: Error,
    /// Another client has changed a name while the batch was planned, and every step was undone. A new plan may succeed.
    pub is_conflict: bool,
    /// A step could not be undone. Recovery tries again.
    pub is_undo_incomplete: bool,
    /// A file or folder cannot be renamed because its destination lies on another file system.
    pub is_other_file_system: bool,
}

impl BatchFailure {
    /// The batch failed for a reason that a new plan would not change.
    pub fn permanent(entry: usize, error: Error) -> Self {
        Self { entry, error, is_conflict: false, is_undo_incomplete: false, is_other_file_system: false }
    }

    /// The error of the entries that did not fail themselves.
    pub fn error_for_others(&self, field: &str) -> Error {
        Error::new(
            Code::Io,
            format!(
                "the batch was rolled back because of entry {} ({field}[{}]); {}",
                self.entry,
                self.entry,
                if self.is_undo_incomplete { "not everything could be put back" } else { "nothing was changed" }
            ),
        )
    }
}
