//! Runs in the worker: everything that changes names or content on disk for a client. See "Changes" in docs/ARCHITECTURE.md.
//! Trusts the supervisor's answers. Does not trust what lies on disk: every name is checked before and after it changes.
//! Never writes through an inode that exists, and never destroys an entry that it cannot put back.

pub(super) mod claim;
mod commit;
mod copy;
pub(super) mod foreseen;
mod foresight;
mod parents;
mod protected;
pub(super) mod remove;
pub(super) mod rename;
mod replace;
pub(super) mod staged;
pub(super) mod steps;
mod transaction;

pub use claim::Claim;
pub use commit::{Commit, Counted, DryRun};
pub use copy::{Copied, check_size};
pub use foreseen::{Foreseen, Source};
pub use rename::Renamed;
pub use replace::Written;
pub use staged::{Fill, Like, Staged};
pub use transaction::{RolledBack, Transaction};
