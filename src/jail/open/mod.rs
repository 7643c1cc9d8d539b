//! Runs in the worker: a name beneath a parent that the supervisor resolved becomes an `Entry`, and the entry a `File` or a `Dir`.
//! Trusts the parent's descriptor, but not what lies under the name: its kind is examined before it is opened.
//! Never follows a link, and never opens anything but regular files and folders.

mod dir;
pub(in crate::jail) mod entry;
mod file;
pub(in crate::jail) mod filter;
mod looks;
mod names;
pub(in crate::jail) mod refusal;

pub use dir::{Dir, DirEntry, Seen, Unopened, unlisted};
pub use entry::Entry;
pub use file::{CHUNK_BYTES, File, Unread, Want};
pub use looks::look_at_all;
pub use names::Names;
