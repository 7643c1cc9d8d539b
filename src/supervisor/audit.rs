//! The audit: who connected, and what the supervisor decided. One JSON object per line, written here and only here;
//! a client can appear in it, but can neither forge nor split a record.

use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    lines::{Lines, Sink},
    peer::Peer,
    serve::is_denial,
};
use crate::{
    broker::{Intent, Refusal, codec::Asked},
    policy::{self, AuditLevel, AuditPath},
    sys::{Errno, host},
    wire::{function::FUNCTIONS, types::info::Level},
};

#[derive(Debug)]
pub struct Audit {
    to: Option<Lines>,
    file: Option<File>,
    level: AuditLevel,
    confinement: Level,
    /// Records that could not be queued since the last one that could.
    lost: Cell<u64>,
}

/// Where the records lie, so that the name can be opened again when the file was renamed.
#[derive(Debug)]
struct File {
    folder: OwnedFd,
    name: PathBuf,
    /// Device and inode of what is written to.
    current: Cell<(u64, u64)>,
}

impl File {
    /// Links that the operator named are followed once, now.
    fn open(path: &Path) -> Result<(Self, Sink), Errno> {
        let real = policy::real_path(path).unwrap_or_else(|| path.to_path_buf());
        let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else { return Err(Errno::ISDIR) };
        let file =
            Self { folder: host::open_directory(folder)?, name: name.into(), current: Cell::default() };
        let sink = file.open_again()?;
        Ok((file, sink))
    }

    fn open_again(&self) -> Result<Sink, Errno> {
        let (fd, torn) = host::open_log(&self.folder, &self.name)?;
        self.current.set(host::identity(&fd)?);
        Ok(Sink { fd, torn })
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
    /// Opened before the supervisor confines itself. `None`: nothing is written (a private supervisor of one command).
    /// Records for standard error join the log, which goes there, too.
    pub fn open(
        path: Option<&AuditPath>,
        log: &Lines,
        level: AuditLevel,
        confinement: Level,
    ) -> Result<Self, String> {
        let (to, file) = match path {
            None => (None, None),
            Some(AuditPath::Stderr) => (Some(log.clone()), None),
            Some(AuditPath::File(path)) => {
                let (file, sink) =
                    File::open(path).map_err(|errno| format!("audit.path {}: {errno}", path.display()))?;
                (Some(Lines::new(sink)), Some(file))
            }
        };
        Ok(Self { to, file, level, confinement, lost: Cell::default() })
    }

    pub fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.folder.as_fd())
    }

    /// Once confined; from here on no record waits for its disk or reader.
    pub fn start_writer(&self) -> std::io::Result<()> {
        self.to.as_ref().map_or(Ok(()), Lines::start_writer)
    }

    /// After a rotation: goes on in whatever has the name now, made if nothing has. If that fails, in the old file.
    #[allow(dead_code, reason = "for the signal that tells of a rotation")]
    pub fn reopen(&self) -> Result<(), String> {
        let (Some(file), Some(to)) = (&self.file, &self.to) else { return Ok(()) };
        // Not merely spared: what was opened as root may be out of reach for the identity that serves.
        if host::identity_at(&file.folder, &file.name) == Ok(file.current.get()) {
            return Ok(());
        }
        let sink = file.open_again().map_err(|errno| {
            format!("audit.path: {}: {errno}; the old file is still written to", file.name.display())
        })?;
        to.replace(sink);
        Ok(())
    }

    /// At the end of the service: what is still queued is written, if it can be written soon.
    pub fn finish(&self) {
        let written = self.to.as_ref().is_none_or(Lines::finish);
        if !written || self.lost.get() > 0 {
            tracing::error!(records = self.lost.get(), "the end of the audit could not be written");
        }
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
            lost_before: self.lost.get(),
        }
    }

    /// Never waits, never fails a call: a record that finds no place is counted, and the next one says so.
    fn write(&self, record: &Record<'_>) {
        let Some(to) = &self.to else { return };
        let line = serde_json::to_string(record).map(|line| line + "\n");
        let queued = line.is_ok_and(|line| to.push(line.as_bytes()));
        if !queued && self.lost.get() == 0 {
            tracing::error!("the audit takes no more records; what is lost is counted in its next one");
        }
        self.lost.set(if queued { 0 } else { self.lost.get() + 1 });
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
