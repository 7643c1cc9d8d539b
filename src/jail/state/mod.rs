//! Runs in the worker: the service's own state at the top of a writable root. See "State" in docs/ARCHITECTURE.md.
//! Trusts a folder or note only if it names an inode that another process cannot have known.
//! Never destroys an entry of a user: what cannot go back stays until recovery can put it back.

pub(super) mod journal;
mod recovery;
pub(super) mod state_folder;
pub(super) mod trash;
mod trash_quota;
pub(super) mod workspace;

pub use recovery::UnsettledName;
pub use trash::TrashSlot;
