//! Runs in the supervisor. Turns a checked relative path into an O_PATH directory beneath a root.
//! Trusts: the root descriptor. Does not trust: names on disk, which others swap while we look.
//! Never opens a file for content, never follows a link.

mod openat2;

use std::os::fd::{BorrowedFd, OwnedFd};

pub use openat2::Openat2;

use crate::{broker::Refusal, path::Root, wire::types::info::Resolver as Kind};

/// One way of walking from a root to a directory below it. Interchangeable: the same test-suite runs against each.
pub trait Resolver {
    /// Opens the directory `rel` (not empty, already checked) below `root` as O_PATH.
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal>;

    /// What `coder::info` and the check show.
    fn kind(&self) -> Kind;
}
