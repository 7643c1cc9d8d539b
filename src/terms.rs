//! The vocabulary of all processes: codes, limits, rules of a root, levels of confinement. Plain values without behaviour.
//! Runs everywhere; imports nothing of this crate, so that `path` and `wire` need not know each other.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// A name in the sources, a number on the wire: `C210` in JSON, the byte 210 on the channel.
/// Every way a call can fail. The numbers are the public contract; the gaps are historical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[repr(u8)]
pub enum Code {
    /// bad input
    #[serde(rename = "C210")]
    BadInput = 210,
    /// missing or denied: one code, one text, on purpose
    #[serde(rename = "C211")]
    NotFound = 211,
    /// too large, or over a budget
    #[serde(rename = "C213")]
    TooLarge = 213,
    /// leaves the roots
    #[serde(rename = "C215")]
    OutsideRoots = 215,
    /// any other I/O error
    #[serde(rename = "C216")]
    Io = 216,
    /// exists already
    #[serde(rename = "C217")]
    Exists = 217,
    /// inside a root but outside the call's `base_dir`
    #[serde(rename = "C218")]
    OutsideBaseDir = 218,
    /// stale: `if_match` or a tag does not match
    #[serde(rename = "C219")]
    Stale = 219,
    /// deadline passed, or cancelled
    #[serde(rename = "C220")]
    Deadline = 220,
    /// read-only root, or protected name
    #[serde(rename = "C221")]
    ReadOnly = 221,
    /// busy, retry
    #[serde(rename = "C222")]
    Busy = 222,
}

impl Code {
    pub const ALL: [Self; 11] = [
        Self::BadInput,
        Self::NotFound,
        Self::TooLarge,
        Self::OutsideRoots,
        Self::Io,
        Self::Exists,
        Self::OutsideBaseDir,
        Self::Stale,
        Self::Deadline,
        Self::ReadOnly,
        Self::Busy,
    ];
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C{}", *self as u8)
    }
}

// Every number that a client can run into, under its name in the policy. The defaults are in policy/default.toml.
/// Units are in the names. The first block is the public contract's, the second ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_read_bytes: u64,
    pub max_write_bytes: u64,
    pub tree_default_depth: u32,
    pub tree_per_folder_limit: u32,
    pub list_default_page_size: u32,
    pub list_max_page_size: u32,
    pub search_default_max_matches: u32,
    pub search_default_max_line_bytes: u32,
    pub batch_read_budget_bytes: u64,
    pub max_output_bytes: u64,
    pub search_response_budget_bytes: u64,

    /// A `tree` reply never grows beyond this.
    pub tree_response_budget_bytes: u64,
    /// Levels one `tree` call descends at most.
    pub tree_max_depth: u32,
    /// Longest line a regex is matched against whole.
    pub search_max_line_buffer: u64,
    /// Deadline of a call that names none.
    pub call_timeout_ms: u64,
    /// Longest deadline a call may ask for.
    pub call_timeout_max_ms: u64,
    /// Longest line (frame) of the wire.
    pub max_frame_bytes: u64,
    /// Memory for all lines of one uid that are longer than 1 MiB, while they are received.
    pub max_frame_bytes_per_uid: u64,
    /// Entries of one batch.
    pub max_batch_entries: u32,
    /// Calls of one connection in flight; more wait in the socket.
    pub max_calls_in_flight: u32,
    /// Connections of one uid.
    pub max_connections_per_uid: u32,
}

/// What may be done below a root. Landlock lacks every write right for `Ro`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Ro,
    Rw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Symlinks {
    /// Any link on the way, or as the leaf of a content operation, is C215.
    Refuse,
    /// Links that stay beneath the same root are followed by the supervisor.
    Beneath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hardlinks {
    Allow,
    /// Content of files with several links is refused.
    Refuse,
}

/// Whether reading changes the access times of files and folders below a root. The access times of symbolic links change except
/// with `kept`, because readlink always changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Landlock and seccomp hold the process; openat2 resolves the names.
    Kernel,
    /// The operator chose to go without: only the service's own checks hold.
    Userspace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resolver {
    Openat2,
    Stepwise,
}

/// What confines a worker, as the supervisor measured and decided it at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedConfinement {
    pub level: Level,
    /// Version of the Landlock interface that is enforced; absent without Landlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landlock_abi: Option<u32>,
    pub resolver: Resolver,
}

/// The trash of each writable root. The policy's `[trash]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trash {
    pub enabled: bool,
    /// Whether a delete that does not say goes into it.
    pub default: bool,
    /// What it holds at most; the oldest is dropped first.
    pub max_bytes: u64,
}

/// Lines up to this length need no reservation of memory; longer lines need one for each further step of this length.
pub const FRAME_STEP_BYTES: usize = 1 << 20;

/// `wire_compat` of the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireVersion {
    #[default]
    Current,
    /// Relative paths only, errors of entries as text, whole bodies in results.
    #[serde(rename = "0.2")]
    V02,
}
