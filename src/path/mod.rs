//! Runs in the supervisor (which re-checks) and in the worker (which checks first and words the error).
//! Pure: never touches the disk. Trusts: the root table, made from the validated policy.
//! Trusts no path: not the client's (`RawPath`), and in the supervisor not the worker's either (`is_normalised`).
//!
//! `RawPath` (as sent) → `RootTable::locate` → `JailPath` (normalised, beneath a root). Nothing past `locate`
//! looks at a client's spelling again.

mod denied;
mod deny;
mod fold;
mod glob_list;
mod jail_path;
mod lexical;
mod locate;
mod operands;
mod plain_glob;
mod protect;
mod relative;

pub use denied::{Denied, RootNames};
pub use deny::{DenyGlobs, is_private_name};
pub use fold::fold_path;
pub use jail_path::JailPath;
pub use locate::{RawPath, RootTable};
pub use operands::DeniedBy;
pub use protect::ProtectGlobs;
pub use relative::is_normalised;

pub use crate::terms::{AccessTimes, Hardlinks, Mode, Root, Symlinks};

/// Longest file name the kernel takes.
pub const MAX_COMPONENT_BYTES: usize = 255;
/// Longest path we take, as sent and as normalised.
pub const MAX_PATH_BYTES: usize = 4096;
/// Folder at the top of a root where earlier versions kept the service's state, in one folder for each uid. Today's state is
/// in `.stockade-` followed by `PRIVATE_DIGITS` hex digits. No function ever shows or changes either, see `is_private_name`.
pub const PRIVATE_FOLDER: &str = ".stockade";
/// Random hex digits at the end of the name of a state folder.
pub const PRIVATE_DIGITS: usize = 16;
/// Folder in the state of one uid with the journals of running workers. Removed by the last worker.
pub const PRIVATE_WORK: &str = "work";
