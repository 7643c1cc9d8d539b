//! Runs in the supervisor (which re-checks) and in the worker (which checks first and words the error).
//! Pure: never touches the disk. Trusts: the root table, made from the validated policy.
//! Trusts no path: not the client's (`RawPath`), and in the supervisor not the worker's either (`RootTable::check`).
//!
//! `RawPath` (as sent) → `RootTable::locate` → `JailPath` (normalised, beneath a root). Nothing past `locate`
//! looks at a client's spelling again.

mod denied;
mod deny;
mod fold;
mod glob_list;
mod jail_path;
mod protect;
mod raw;
mod table;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use denied::{Denied, DeniedBy, RootNames};
pub use deny::{DenyGlobs, is_private_name};
pub use fold::fold_path;
pub use jail_path::{BadRelative, JailPath, check_relative};
pub use protect::ProtectGlobs;
pub use raw::RawPath;
pub use table::RootTable;

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

/// What may be done below a root. Landlock lacks every write right for `Ro`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Ro,
    Rw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Symlinks {
    /// Any link on the way, or as the leaf of a content operation, is C215.
    Refuse,
    /// Links that stay beneath the same root are followed by the supervisor.
    Beneath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hardlinks {
    Allow,
    /// Content of files with several links is refused.
    Refuse,
}

/// Whether reading changes the access times of files and folders below a root. The access times of symbolic links change except
/// with `kept`, because readlink always changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessTimes {
    /// It does not: the root is mounted read-only or with `noatime`.
    Kept,
    /// Only of files and folders that the service's user does not own.
    OwnerOnly,
    /// It does, as for any other reader.
    Updated,
}

/// One allowed directory, as every process sees it: canonical absolute path and its rules. The first is primary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    pub path: PathBuf,
    pub mode: Mode,
    pub symlinks: Symlinks,
    pub cross_mounts: bool,
    pub hardlinks: Hardlinks,
    pub access_times: AccessTimes,
}
