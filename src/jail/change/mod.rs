//! Runs in the worker: everything that changes names or content on disk for a client. See "Changes" in docs/ARCHITECTURE.md.
//! Trusts the supervisor's answers. Does not trust what lies on disk: every name is checked before and after it changes.
//! Never writes through an inode that exists, and never destroys an entry that it cannot put back.

mod batch_failure;
pub(super) mod check;
pub(super) mod claim;
mod copy;
mod count;
pub(super) mod engine;
pub(super) mod folders;
pub(super) mod foreseen;
mod foreseen_claims;
pub(super) mod plan;
mod planning;
mod protected;
pub(super) mod remove;
pub(super) mod staged;
pub(super) mod undo;

pub use batch_failure::BatchFailure;
pub use claim::Claim;
pub use copy::{CopyTotals, check_size};
pub use count::EntryCount;
pub use foreseen::{ContentSource, ForeseenChanges};
pub use plan::ChangePlan;
pub use planning::{PlanMode, Planning};
pub use staged::{FileProperties, Staged};
