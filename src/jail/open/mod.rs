//! Runs in the worker: a name beneath a parent that the supervisor resolved becomes an `Entry`, and the entry a `File` or a `Dir`.
//! Trusts the parent's descriptor, but not what lies under the name: its kind is examined before it is opened.
//! Never follows a link, and never opens anything but regular files and folders.

mod dir;
pub(in crate::jail) mod entry;
mod file;
pub(in crate::jail) mod filter;
mod names;
pub(in crate::jail) mod refusal;
mod stat_page;

pub use dir::{Dir, DirEntry, EntryOpenError, EntryStat, folder_list_error};
pub use entry::JailEntry;
pub use file::{CHUNK_BYTES, JailFile, ReadControl, ReadIntoError};
pub use names::NameList;
pub use stat_page::stat_all;
