//! The audit: who connected, and what the supervisor decided. One JSON object per line, written here and only here;
//! a client can appear in it, but can neither forge nor split a record.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;

use super::{attend::is_denial, peer::Peer};
use crate::{
    broker::{Intent, Refusal, codec::Asked},
    policy::{AuditLevel, AuditPath},
    sys::{Errno, host},
    wire::{function::FUNCTIONS, types::info::Level},
};

#[derive(Debug)]
pub struct Audit {
    to: Option<RwLock<OwnedFd>>,
    file: Option<File>,
    level: AuditLevel,
    confinement: Level,
    /// Records that could not be written since the last one that could.
    lost: AtomicU64,
}

/// Where the records lie, so that the name can be opened again when the file was renamed.
#[derive(Debug)]
struct File {
    folder: OwnedFd,
    name: PathBuf,
}

impl File {
    fn open(path: &Path) -> Result<(Self, OwnedFd), Errno> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::ISDIR) };
        let file = Self { folder: host::open_directory(folder)?, name: name.into() };
        let fd = host::open_log(&file.folder, &file.name)?;
        Ok((file, fd))
    }
}

/// What every record of one connection says.
#[derive(Debug, Clone)]
pub struct Connection {
    pub id: u64,
    pub peer: Peer,
    /// Root paths by number.
    pub roots: Vec<String>,
}

#[derive(Serialize)]
struct Record<'a> {
    time_ms: u128,
    event: &'a str,
    level: Level,
    connection: u64,
    uid: u32,
    pid: i32,
    /// Where the kernel gives a pidfd: whether `pid` still is the process that connected. It may have handed the
    /// connection on and ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_alive: Option<bool>,
    #[serde(flatten)]
    decision: Option<Decision<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    lost_before: u64,
}

#[derive(Serialize)]
struct Decision<'a> {
    root: &'a str,
    path: String,
    intent: Intent,
    /// As the worker says; a hostile worker can say anything.
    reported_function: &'a str,
    decision: &'a str,
}

/// Characters of a path in a record. Escaped they are at most six bytes each: a record stays below the 4096 bytes that
/// a pipe takes without waiting.
const SHOWN_CHARS: usize = 500;

fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Audit {
    /// Opened before the supervisor confines itself. `quiet`: nothing is written (a private supervisor of one command).
    pub fn open(
        path: &AuditPath,
        level: AuditLevel,
        confinement: Level,
        quiet: bool,
    ) -> Result<Self, String> {
        let (file, to) = match path {
            _ if quiet => (None, None),
            AuditPath::Stderr => {
                (None, Some(host::duplicate_stderr().map_err(|errno| format!("stderr: {errno}"))?))
            }
            AuditPath::File(path) => {
                let opened = File::open(path);
                let (file, to) = opened.map_err(|errno| format!("audit.path {}: {errno}", path.display()))?;
                (Some(file), Some(to))
            }
        };
        Ok(Self { to: to.map(RwLock::new), file, level, confinement, lost: AtomicU64::default() })
    }

    /// What a confined supervisor needs for `reopen`.
    pub fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.folder.as_fd())
    }

    /// After a rotation: from now on into whatever has the name, which is made if need be.
    pub fn reopen(&self) -> Result<(), String> {
        let (Some(file), Some(to)) = (&self.file, &self.to) else { return Ok(()) };
        let fd = host::open_log(&file.folder, &file.name).map_err(|errno| {
            format!("audit.path: {}: {errno}; the old file is still written to", file.name.display())
        })?;
        *to.write().unwrap_or_else(PoisonError::into_inner) = fd;
        Ok(())
    }

    pub fn connected(&self, about: &Connection) {
        self.event("connected", about, None);
    }

    pub fn refused(&self, about: &Connection, reason: &str) {
        self.write(&self.record("refused", about, None, Some(reason)));
    }

    pub fn disconnected(&self, about: &Connection, reason: &str) {
        self.event("disconnected", about, Some(reason));
    }

    fn event(&self, event: &str, about: &Connection, reason: Option<&str>) {
        if self.level >= AuditLevel::Decisions {
            self.write(&self.record(event, about, None, reason));
        }
    }

    /// Denials always; what was granted or merely missing only at level `all`.
    pub fn decided(&self, about: &Connection, asked: &Asked, refusal: Option<Refusal>) {
        if self.to.is_none() || (self.level < AuditLevel::All && !refusal.is_some_and(is_denial)) {
            return;
        }
        let decision = Decision {
            root: about.roots.get(usize::from(asked.question.root)).map_or("?", String::as_str),
            path: shown(&asked.question.path),
            intent: asked.question.intent,
            reported_function: FUNCTIONS
                .get(usize::from(asked.function))
                .map_or("?", |function| function.name),
            decision: match refusal {
                None => "granted",
                Some(Refusal::Denied) => "denied",
                Some(Refusal::Escape) => "escape",
                Some(Refusal::Mount) => "mount",
                Some(Refusal::ReadOnly) => "read-only",
                Some(Refusal::NotFound | Refusal::NotDirectory) => "missing",
                Some(Refusal::Busy) => "busy",
                Some(Refusal::Io(_)) => "error",
            },
        };
        self.write(&self.record("resolve", about, Some(decision), None));
    }

    fn record<'a>(
        &self,
        event: &'a str,
        about: &Connection,
        decision: Option<Decision<'a>>,
        reason: Option<&'a str>,
    ) -> Record<'a> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Record {
            time_ms: now.map_or(0, |since| since.as_millis()),
            event,
            level: self.confinement,
            connection: about.id,
            uid: about.peer.uid,
            pid: about.peer.pid,
            peer_alive: about.peer.is_alive(),
            decision,
            reason,
            lost_before: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Never waits, never fails a call: a record that cannot be written is counted, and the next one says so.
    fn write(&self, record: &Record<'_>) {
        let Some(to) = &self.to else { return };
        let line = serde_json::to_string(record).map(|line| line + "\n");
        let to = to.read().unwrap_or_else(PoisonError::into_inner);
        let written = line.is_ok_and(|line| host::append(&*to, line.as_bytes()));
        if written {
            self.lost.fetch_sub(record.lost_before, Ordering::Relaxed);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
