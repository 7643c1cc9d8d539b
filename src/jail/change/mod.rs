//! Runs in the worker: everything that changes names or content on disk for a client. See "Changes" in docs/ARCHITECTURE.md.
//! Trusts the supervisor's answers. Does not trust what lies on disk: every name is checked before and after it changes.
//! Never writes through an inode that exists, and never destroys an entry that it cannot put back.

pub(super) mod check;
pub(super) mod claim;
mod copy;
mod count;
pub(super) mod engine;
pub(super) mod folders;
pub(super) mod foreseen;
mod foresight;
pub(super) mod plan;
mod planning;
mod protected;
pub(super) mod remove;
pub(super) mod staged;
pub(super) mod undo;

pub use claim::Claim;
pub use copy::{Copied, check_size};
pub use count::Counted;
pub use engine::RolledBack;
pub use foreseen::{Foreseen, Source};
pub use plan::Plan;
pub use planning::{Mode, Planning};
pub use staged::{Like, Staged};
