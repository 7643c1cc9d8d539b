//! Runs in the supervisor at start and on reload, and in `stockade policy check`.
//! Trusts the operator's intent, never the spelling: an unknown key, a value out of range or a root that cannot be
//! jailed stops the start. A policy is taken whole or not at all.
//! Reads the policy file and looks at the roots; changes nothing on disk.

mod error;
mod identity;
mod keys;
mod parse;
mod peers;
mod roots;
#[cfg(feature = "frontends")]
mod unused;

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::LazyLock,
};

pub use error::PolicyError;
pub use identity::{ServiceIdentity, Starter};
#[cfg(feature = "frontends")]
pub use parse::DEFAULT_TEXT;
pub use peers::{PeerEntry, PeerName, PolicyProfile, select_profile};
pub use roots::{PreparedRoot, PreparedRoots, RootArg};
#[cfg(feature = "frontends")]
pub use unused::{SearchBound, UnusedGlobs};

use serde::Deserialize;

use crate::{
    path::{DenyGlobs, Hardlinks, Mode, ProtectGlobs, Symlinks},
    terms::{Level, Limits, Trash, WireVersion},
};

/// The default policy, which applies where a policy leaves a key out. Its one root has the default rules of a root.
static DEFAULT: LazyLock<Policy> =
    LazyLock::new(|| parse::parse_default().expect("policy/default.toml is valid; a test reads it"));
/// Largest policy file read.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// A valid policy: every value is in range. Names of roots and users are not looked up yet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The file or option that the policy comes from, for error texts.
    #[serde(skip)]
    pub source: String,
    pub confinement: Level,
    pub min_landlock_abi: u32,
    pub run_as: RunAs,
    pub durability: Durability,
    #[serde(rename = "wire_compat")]
    pub wire: WireVersion,
    /// The first is primary.
    #[serde(rename = "root")]
    pub roots: Vec<RootEntry>,
    pub deny: Deny,
    pub protect: Protect,
    pub exclude: Exclude,
    pub limits: Limits,
    pub workers: WorkersPolicy,
    pub trash: Trash,
    pub audit: AuditPolicy,
    pub socket: SocketPolicy,
    #[serde(rename = "peer", default)]
    pub peers: Vec<PeerEntry>,
}

/// The user that a daemon started as root becomes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum RunAs {
    /// The uid and gid that own the primary root.
    RootOwner,
    User(String),
}

impl TryFrom<String> for RunAs {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.strip_prefix("user:")) {
            ("root-owner", _) => Ok(Self::RootOwner),
            (_, Some(name)) if !name.is_empty() => Ok(Self::User(name.into())),
            ("peer", _) => Err("\"peer\" is not supported by this version".into()),
            _ => Err(format!("\"{text}\" is not allowed; allowed: \"root-owner\", \"user:NAME\"")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// File before the rename, directory after it.
    Fsync,
    None,
}

/// One `[[root]]` or `--root`, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootEntry {
    pub path: PathBuf,
    pub mode: Mode,
    pub symlinks: Symlinks,
    pub cross_mounts: bool,
    pub hardlinks: Hardlinks,
    /// Missing at start is a warning, not an error.
    pub optional: bool,
    /// The root may be inside another root.
    pub allow_nested: bool,
    pub allow_world_writable: bool,
    /// Accept a file system that finds one file under several spellings of its name.
    pub allow_casefold: bool,
    /// `policy.toml:3:1` or `--root`, for error texts.
    #[serde(skip)]
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    pub non_accessible_globs: Vec<String>,
    /// Globs of names that are not denied even if a deny glob matches them.
    pub except_globs: Vec<String>,
    pub list_denied: ListDeniedPolicy,
}

/// Names that clients can read but not change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protect {
    pub read_only_globs: Vec<String>,
    /// Names that can be changed although a glob protects them.
    pub except_globs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListDeniedPolicy {
    /// Listed and flagged `non_accessible`.
    Show,
    /// Left out of list and tree.
    Hide,
}

/// Names that walks leave out unless a call asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    pub default_exclude_globs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkersPolicy {
    pub threads: u32,
    /// Warm workers per profile.
    pub pool: u32,
    /// Address space of one worker.
    pub max_memory_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditPolicy {
    pub path: AuditPath,
    pub level: AuditLevel,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AuditPath {
    Stderr,
    File(PathBuf),
}

impl TryFrom<String> for AuditPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "stderr" {
            return Ok(Self::Stderr);
        }
        keys::check_absolute(&text).map(|()| Self::File(text.into()))
    }
}

/// Old files of an audit, `NAME.1` being the newest of them.
const MAX_OLD_AUDITS: usize = 99;

impl AuditPath {
    /// The file in the user's state folder that all commands with a supervisor of their own share. None without such a folder.
    pub fn for_user(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    Denials,
    Decisions,
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenSocket")]
pub struct SocketPolicy {
    pub group: Option<String>,
    pub mode: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSocket {
    group: Option<String>,
    mode: Option<String>,
}

/// Mode of a socket without a group: its owner alone connects.
const PRIVATE_SOCKET: u32 = 0o600;

impl TryFrom<WrittenSocket> for SocketPolicy {
    type Error = String;

    /// 0600, or 0660 for a group, unless the mode is given.
    fn try_from(WrittenSocket { group, mode }: WrittenSocket) -> Result<Self, String> {
        let default = if group.is_some() { 0o660 } else { PRIVATE_SOCKET };
        let mode = mode.map_or(Ok(default), |mode| parse_socket_mode(&mode))?;
        Ok(Self { group, mode })
    }
}

fn parse_socket_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').filter(|digits| digits.len() == 3);
    let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    mode.filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| format!("\"{text}\" is not allowed; allowed: octal \"0600\" to \"0666\", no execute bits"))
}

impl Policy {
    /// The policy of a program that is started with `--root` alone.
    pub fn embedded(roots: &[RootArg]) -> Self {
        let roots = roots.iter().map(RootArg::entry).collect();
        Self { source: "--root".into(), roots, ..DEFAULT.clone() }
    }

    /// Compiles both lists of globs. The error names the wrong key.
    pub fn globs(&self) -> Result<(DenyGlobs, ProtectGlobs), String> {
        let (deny, protect) = (&self.deny, &self.protect);
        let wrong = |section: &str, (glob, error)| format!("{section}: {glob}: {error}");
        let deny =
            DenyGlobs::new(&deny.non_accessible_globs, &deny.except_globs).map_err(|error| wrong("deny", error))?;
        let protect = ProtectGlobs::new(&protect.read_only_globs, &protect.except_globs)
            .map_err(|error| wrong("protect", error))?;
        Ok((deny, protect))
    }

    pub fn parse(text: &str, source: &str) -> Result<Self, PolicyError> {
        parse::parse_policy(text, source)
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
