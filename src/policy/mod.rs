//! Runs in the supervisor at start and on reload, and in `stockade policy check`.
//! Trusts the operator's intent, never the spelling: an unknown key, a value out of range or a root that cannot be
//! jailed stops the start. A policy is taken whole or not at all.
//! Reads the policy file and looks at the roots; changes nothing on disk.

mod error;
mod identity;
mod parse;
mod peers;
mod reader;
mod roots;
mod unused;

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

pub use error::PolicyError;
pub use identity::{Identity, Starter};
pub use peers::{Accounts, Peer, PeerName, Profile, Who, pick};
pub use roots::{PreparedRoot, PreparedRoots, RootArg};
pub use unused::{Bound, Unused};

use crate::{
    path::{DenyGlobs, Hardlinks, Mode, ProtectGlobs, Symlinks},
    terms::{Limits, Trash, Wire},
};

/// Largest policy file read.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Hidden unless the policy names its own list: names that hold secrets.
pub const DEFAULT_DENY_GLOBS: [&str; 20] = [
    "**/.env",
    "**/.env.*",
    "**/.envrc",
    "**/*.pem",
    "**/*.key",
    "**/*.p12",
    "**/*.pfx",
    "**/*.keystore",
    "**/id_rsa*",
    "**/id_ed25519*",
    "**/.ssh/**",
    "**/.gnupg/**",
    "**/.aws/credentials",
    "**/.npmrc",
    "**/.netrc",
    "**/.pypirc",
    "**/.git-credentials",
    "**/credentials.json",
    "**/terraform.tfstate*",
    "**/secrets/**",
];

/// Exceptions from these: templates without secrets.
pub const DEFAULT_DENY_EXCEPT_GLOBS: [&str; 3] = ["**/.env.example", "**/.env.sample", "**/.env.template"];

/// Protected unless the policy has its own list: names of files that programs of the user run or obey, even if the user does not
/// run the project.
pub const DEFAULT_PROTECT_GLOBS: [&str; 17] = [
    "**/.git",
    "**/.githooks",
    "**/.husky",
    "**/.claude",
    "**/.codex",
    "**/.cursor",
    "**/.gemini",
    "**/.agents",
    "**/.mcp.json",
    "**/.vscode",
    "**/.idea",
    "**/.zed",
    "**/.devcontainer",
    "**/.cargo/config*",
    "**/.yarnrc*",
    "**/.dir-locals.el",
    "**/.exrc",
];

/// Left out of tree and search unless a call asks for them.
pub const DEFAULT_EXCLUDE_GLOBS: [&str; 6] =
    ["**/.git/**", "**/node_modules/**", "**/target/**", "**/dist/**", "**/.venv/**", "**/__pycache__/**"];

/// A valid policy: every value is in range, names of roots and users are not looked up yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Where it came from, for error texts.
    pub source: String,
    pub confinement: Confinement,
    pub min_landlock_abi: u32,
    pub run_as: RunAs,
    pub durability: Durability,
    pub wire: Wire,
    /// The first is primary.
    pub roots: Vec<RootEntry>,
    pub deny: Deny,
    pub protect: Protect,
    pub default_exclude_globs: Vec<String>,
    pub limits: Limits,
    pub workers: Workers,
    pub trash: Trash,
    pub audit: Audit,
    pub socket: Socket,
    pub peers: Vec<Peer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Landlock, seccomp and openat2, or no start.
    Kernel,
    /// A conscious downgrade, named in `coder::info`, the log and every audit record.
    Userspace,
}

/// Who a daemon started as root becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAs {
    /// The uid and gid that own the primary root.
    RootOwner,
    User(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// File before the rename, directory after it.
    Fsync,
    None,
}

/// One `[[root]]` or `--root`, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootEntry {
    pub path: PathBuf,
    pub mode: Mode,
    pub symlinks: Symlinks,
    pub cross_mounts: bool,
    pub hardlinks: Hardlinks,
    /// Missing at start is a warning, not an error.
    pub optional: bool,
    /// May lie inside another root.
    pub allow_nested: bool,
    pub allow_world_writable: bool,
    /// Accept a file system that finds one file under several spellings of its name.
    pub allow_casefold: bool,
    /// `policy.toml:3:1` or `--root`, for error texts.
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deny {
    pub non_accessible_globs: Vec<String>,
    /// Names that are not denied although a glob says so.
    pub except_globs: Vec<String>,
    pub list_denied: ListDenied,
}

/// Names that clients can read but not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protect {
    pub read_only_globs: Vec<String>,
    /// Names that can be changed although a glob protects them.
    pub except_globs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListDenied {
    /// Listed and flagged `non_accessible`.
    Show,
    /// Left out of list and tree.
    Hide,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    pub threads: u32,
    /// Warm workers per profile.
    pub pool: u32,
    /// Address space of one worker.
    pub max_memory_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub path: AuditPath,
    pub level: AuditLevel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditPath {
    Stderr,
    File(PathBuf),
}

/// Old files of an audit, `NAME.1` being the newest of them.
const MAX_OLD_AUDITS: usize = 99;

impl AuditPath {
    /// The file in the user's state folder that all commands with a supervisor of their own share. None without such a folder.
    pub fn of_user(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let folder = |name: &str| env(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
        state.map(|state| state.join("stockade/audit.jsonl"))
    }

    /// The names of a file and of its old ones, the newest first: all that `stockade audit` may read, so no client may make
    /// one of them.
    pub fn names(file: &Path) -> impl Iterator<Item = PathBuf> {
        let old = move |number: usize| {
            let mut name = file.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        std::iter::once(file.to_owned()).chain((1..=MAX_OLD_AUDITS).map(old))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    Denials,
    Decisions,
    All,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub group: Option<String>,
    pub mode: u32,
}

impl Policy {
    /// What a program started with `--root` alone runs under.
    pub fn embedded(roots: &[RootArg]) -> Self {
        let strings = |globs: &[&str]| globs.iter().map(|glob| glob.to_string()).collect();
        Self {
            source: "--root".into(),
            confinement: Confinement::Kernel,
            min_landlock_abi: 3,
            run_as: RunAs::RootOwner,
            durability: Durability::Fsync,
            wire: Wire::Current,
            roots: roots.iter().map(RootArg::entry).collect(),
            deny: Deny {
                non_accessible_globs: strings(&DEFAULT_DENY_GLOBS),
                except_globs: strings(&DEFAULT_DENY_EXCEPT_GLOBS),
                list_denied: ListDenied::Show,
            },
            protect: Protect { read_only_globs: strings(&DEFAULT_PROTECT_GLOBS), except_globs: Vec::new() },
            default_exclude_globs: strings(&DEFAULT_EXCLUDE_GLOBS),
            limits: Limits::default(),
            workers: Workers { threads: 4, pool: 2, max_memory_bytes: 1 << 30 },
            trash: Trash::default(),
            audit: Audit { path: AuditPath::Stderr, level: AuditLevel::Decisions },
            socket: Socket { group: None, mode: 0o600 },
            peers: Vec::new(),
        }
    }

    /// Both lists of globs, compiled. The error says which key is wrong.
    pub fn globs(&self) -> Result<(DenyGlobs, ProtectGlobs), String> {
        let (deny, protect) = (&self.deny, &self.protect);
        let wrong = |section: &str, (glob, error)| format!("{section}: {glob}: {error}");
        let deny = DenyGlobs::new(&deny.non_accessible_globs, &deny.except_globs)
            .map_err(|error| wrong("deny", error))?;
        let protect = ProtectGlobs::new(&protect.read_only_globs, &protect.except_globs)
            .map_err(|error| wrong("protect", error))?;
        Ok((deny, protect))
    }

    pub fn parse(text: &str, source: &str) -> Result<Self, PolicyError> {
        parse::policy(text, source)
    }

    pub fn load(path: &Path, starter: &Starter) -> Result<Self, PolicyError> {
        let (file, _) = starter.open_policy(path)?;
        Self::read(file, &path.display().to_string(), starter)
    }

    /// From a file that was opened already.
    pub fn read(file: OwnedFd, source: &str, starter: &Starter) -> Result<Self, PolicyError> {
        let fail = |what: String| PolicyError::new(source, what);
        starter.check_policy(&file).map_err(fail)?;
        let file = File::from(file);
        let mut text = String::new();
        let read = file.take(MAX_POLICY_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| fail(format!("cannot be read: {error}")))?;
        if text.len() as u64 > MAX_POLICY_BYTES {
            return Err(fail(format!("longer than {MAX_POLICY_BYTES} bytes")));
        }
        Self::parse(&text, source)
    }
}

#[cfg(test)]
mod tests;
