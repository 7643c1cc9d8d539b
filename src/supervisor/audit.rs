//! The audit: who connected, and what the supervisor decided. One JSON object per line, written here and only here;
//! a client can appear in it, but can neither forge nor split a record.

mod record;

use std::{
    ffi::OsString,
    io::IsTerminal,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use record::AuditRecord;

use super::{
    line_writer::{LineSink, LineWriter},
    peer::ConnectedPeer,
    rotation::{self, Rotation},
};
use crate::{
    broker::{
        EntryOutcome, OutcomeKind, Question, Refusal,
        codec::{ChannelQuestion, REPORTABLE_CODES},
    },
    policy::{AuditLevel, AuditPath, Starter},
    sys::{
        Errno, host,
        lookup::{self, LookupResult},
        process,
    },
    terms::{Code, Level},
    wire::function::FUNCTIONS,
};

/// Time that a starting service waits while another process rotates the file.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct AuditWriter {
    lines: Option<LineWriter>,
    file: Option<AuditFile>,
    level: AuditLevel,
    confinement: Level,
    /// Records that could not be queued since the last one that could.
    lost_records: AtomicU64,
    /// Records are text for a person, because they go to a terminal.
    is_text: bool,
}

/// The audit file, its folder and its name, so that the name can be opened again when the file was renamed.
#[derive(Debug)]
struct AuditFile {
    folder: OwnedFd,
    name: OsString,
    /// Absolute and without links.
    path: PathBuf,
    /// Uid that the service runs as.
    uid: u32,
    /// See [`AuditTarget`].
    is_shared: bool,
    /// Device and inode of the open file.
    current_id: Mutex<(u64, u64)>,
}

/// The audit file that a service is started with.
#[derive(Debug, Clone)]
pub struct AuditTarget {
    pub path: AuditPath,
    /// The file of this user, which several supervisors share and rotate. If it cannot be used, the service starts without an
    /// audit.
    pub is_shared: bool,
}

/// An audit file that was opened before the service changed to its identity.
#[derive(Debug)]
pub struct PreopenedAuditFile(AuditFile, LineSink);

impl PreopenedAuditFile {
    /// Opens the audit file as root if only root can change its folder, because the identity could not create it there.
    /// `None` otherwise: the identity opens it later, so that no other user can choose a file for root to write.
    pub fn open(target: &AuditTarget, starter: &Starter, uid: u32) -> Result<Option<Self>, String> {
        let (true, AuditPath::File(path)) = (starter.is_privileged, &target.path) else { return Ok(None) };
        let named = |reason: String| format!("audit.path {}: {reason}", path.display());
        let mut found = lookup::look_up(path).map_err(|errno| named(errno.to_string()))?;
        match found.writer_beside_root(&starter.accounts) {
            None => {
                if target.is_shared {
                    found = make_folders(found).map_err(|errno| named(errno.to_string()))?;
                }
                let opened = AuditFile::open(found, uid, target.is_shared);
                opened.map(|(file, sink)| Some(Self(file, sink))).map_err(named)
            }
            Some(writer) if uid == 0 => Err(named(format!(
                "{writer}, so another user could choose which file the service writes as uid 0; use a folder that only root can change"
            ))),
            Some(_) => match found.foreign_chooser(&[uid], &starter.accounts) {
                None => Ok(None),
                Some(chooser) => Err(named(format!(
                    "{chooser}, so another user could choose which file the service writes; use a folder that only root or \
                     uid {uid} can change"
                ))),
            },
        }
    }
}

/// Makes the folders that are missing on the way to a file, for their owner alone.
fn make_folders(mut found: LookupResult) -> Result<LookupResult, Errno> {
    while found.is_missing
        && let Some(name) = found.rest.iter().next()
        && found.rest.iter().nth(1).is_some()
    {
        // Another command may have made it meanwhile.
        if let Err(errno) = host::make_directory(&found.folder, name, 0o700)
            && errno != Errno::EXIST
        {
            return Err(errno);
        }
        found = lookup::look_up(&found.path)?;
    }
    Ok(found)
}

impl AuditFile {
    fn open(found: LookupResult, uid: u32, is_shared: bool) -> Result<(Self, LineSink), String> {
        let name = found.file_name().map_err(|errno| errno.to_string())?.into();
        if is_shared
            && (![0, uid, process::effective_uid()].contains(&found.facts.uid) || found.facts.mode & 0o022 != 0)
        {
            return Err("others may write to its folder".into());
        }
        let file = Self { folder: found.folder, name, path: found.path, uid, is_shared, current_id: Mutex::default() };
        let sink = file.reopen()?;
        Ok((file, sink))
    }

    fn reopen(&self) -> Result<LineSink, String> {
        let failed = |errno: Errno| errno.to_string();
        let (fd, torn) = host::open_log(&self.folder, &self.name).map_err(failed)?;
        let host::FileFacts { kind, uid, mode, .. } = host::facts(&fd).map_err(failed)?;
        // A process that can write to the file can forge a record. A pipe or a terminal is not checked, because it keeps no
        // records.
        let is_foreign = ![0, self.uid, process::effective_uid()].contains(&uid);
        if kind == host::HostFileKind::RegularFile && (is_foreign || mode & 0o002 != 0) {
            return Err(format!("others may write to it (owner {uid}, mode {mode:04o}); move it away"));
        }
        *self.current_id.lock().unwrap_or_else(PoisonError::into_inner) = host::identity(&fd).map_err(failed)?;
        let mut sink = LineSink { ends_mid_line: torn, ..fd.into() };
        if self.is_shared {
            let folder = self.folder.try_clone().map_err(|error| error.to_string())?;
            let rotation = Rotation::new(folder, self.name.clone(), rotation::MAX_AUDIT_FILE_BYTES).map_err(failed)?;
            // Rotates now, with the uid that opens the file: the service's later uid may not be allowed to rename it.
            drop(rotation.lock_current_file(&mut sink.fd, &mut sink.ends_mid_line, LOCK_TIMEOUT));
            sink.rotation = Some(rotation);
        }
        Ok(sink)
    }
}

/// The fields that every record of one connection has.
#[derive(Debug, Clone)]
pub struct ClientConnection {
    pub id: u64,
    pub peer: ConnectedPeer,
    /// Root paths by number.
    pub roots: Vec<String>,
}

/// The name of the function with this index. The index comes from the worker, which may be hostile.
fn function_name(index: u8) -> &'static str {
    FUNCTIONS.get(usize::from(index)).map_or("unknown", |function| function.name)
}

/// The lowest audit level at which an answer is recorded.
fn level_of_decision(refusal: Option<Refusal>) -> AuditLevel {
    match refusal {
        // The client tried something that the policy forbids.
        Some(Refusal::Denied | Refusal::Escape | Refusal::Mount | Refusal::ReadOnly | Refusal::Protected(_)) => {
            AuditLevel::Denials
        }
        None => AuditLevel::Decisions,
        // Not a decision of the policy.
        Some(Refusal::NotFound | Refusal::NotDirectory | Refusal::Busy | Refusal::Unsettled | Refusal::Io(_)) => {
            AuditLevel::All
        }
    }
}

/// Like `level_of_decision`, for an outcome: an attempt that the policy forbids counts as a denial.
fn level_of_outcome(became: OutcomeKind) -> AuditLevel {
    match became {
        OutcomeKind::Refused { code: Code::NotFound, denied } if !denied => AuditLevel::Decisions,
        OutcomeKind::Refused { code, .. } if REPORTABLE_CODES.contains(&code) => AuditLevel::Denials,
        _ => AuditLevel::Decisions,
    }
}

impl AuditWriter {
    /// Opens the audit as the service's identity, unless root has opened it already. Follows the links that the operator
    /// named, once. `None`: nothing is written. Records for standard error join the log, which goes there, too.
    pub fn open(
        target: Option<&AuditTarget>,
        opened: Option<PreopenedAuditFile>,
        log: &LineWriter,
        level: AuditLevel,
        confinement: Level,
        uid: u32,
    ) -> Result<Self, String> {
        let (to, file) = match (target, opened) {
            (None, _) => (None, None),
            (Some(AuditTarget { path: AuditPath::Stderr, .. }), _) => (Some(log.clone()), None),
            (Some(_), Some(PreopenedAuditFile(file, sink))) => (Some(LineWriter::new(sink)), Some(file)),
            (Some(AuditTarget { path: AuditPath::File(path), is_shared }), None) => {
                let found = lookup::look_up(path);
                let found = if *is_shared { found.and_then(make_folders) } else { found };
                let opened = found.map_err(|errno| errno.to_string());
                match opened.and_then(|found| AuditFile::open(found, uid, *is_shared)) {
                    Ok((file, sink)) => (Some(LineWriter::new(sink)), Some(file)),
                    Err(reason) => {
                        let reason = format!("audit.path {}: {reason} (opened as uid {uid})", path.display());
                        if !is_shared {
                            return Err(reason);
                        }
                        tracing::warn!(%reason, "no audit is written");
                        (None, None)
                    }
                }
            }
        };
        let is_stderr = target.is_some_and(|target| target.path == AuditPath::Stderr);
        let is_text = is_stderr && std::io::stderr().is_terminal();
        Ok(Self { lines: to, file, level, confinement, lost_records: AtomicU64::default(), is_text })
    }

    pub fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Real paths of the audit file and of its rotated files.
    pub fn file_paths(&self) -> Vec<PathBuf> {
        self.file.as_ref().map_or_else(Vec::new, |file| AuditPath::names(&file.path).collect())
    }

    pub fn rotates_file(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_shared)
    }

    pub fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.folder.as_fd())
    }

    /// Starts the writer thread. Call this after the process has confined itself. From here on no record waits for a disk or
    /// a reader.
    pub fn start_writer(&self) -> std::io::Result<()> {
        self.lines.as_ref().map_or(Ok(()), LineWriter::start_writer)
    }

    /// Opens the name of the audit file again after a rotation, and creates the file if it is missing. If that fails, records
    /// go to the old file.
    pub fn reopen(&self) -> Result<(), String> {
        let (Some(file), Some(to)) = (&self.file, &self.lines) else { return Ok(()) };
        // An unchanged file is not opened again, because it may have been opened by root and be closed to the identity of the
        // service.
        let current = *file.current_id.lock().unwrap_or_else(PoisonError::into_inner);
        if host::facts_at(&file.folder, &file.name).is_ok_and(|now| now.id == current) {
            return Ok(());
        }
        let sink = file.reopen().map_err(|reason| {
            format!("audit.path: {}: {reason}; the old file is still written to", file.name.display())
        })?;
        to.replace_sink(sink);
        Ok(())
    }

    /// Call this at the end of the service: waits a short time until the queued records are written.
    pub fn finish(&self) {
        let written = self.lines.as_ref().is_none_or(LineWriter::finish);
        let records = self.lost_records.load(Ordering::Relaxed);
        if !written || records > 0 {
            tracing::error!(records, "the end of the audit could not be written");
        }
    }

    pub fn record_accepted(&self, about: &ClientConnection) {
        self.write_record(AuditLevel::Decisions, about, AuditRecord::accepted);
    }

    /// The client was sent `code` and also `reason`, unless the reason is about the state of the service.
    pub fn record_refused(&self, about: &ClientConnection, code: Code, reason: &str) {
        self.write_record(AuditLevel::Denials, about, |record| record.refused(code, reason));
    }

    pub fn record_ended(&self, about: &ClientConnection, reason: &str) {
        self.write_record(AuditLevel::Decisions, about, |record| record.ended(reason));
    }

    /// One answer for each question.
    pub fn record_decisions(&self, about: &ClientConnection, asked: &[ChannelQuestion], refusals: &[Option<Refusal>]) {
        for (one, refusal) in asked.iter().zip(refusals) {
            self.write_record(level_of_decision(*refusal), about, |record| {
                let Question { root, path, intent } = &one.question;
                let root = about.roots.get(usize::from(*root)).map_or("", String::as_str);
                record.decided(*refusal, *intent, root, path, function_name(one.function))
            });
        }
    }

    /// Records a refusal that a worker reports and about which it did not ask the supervisor.
    pub fn record_worker_refusal(&self, about: &ClientConnection, function: u8, code: Code, path: &[u8]) {
        self.write_record(AuditLevel::Denials, about, |record| record.reported(code, path, function_name(function)));
    }

    /// Records the outcomes that a worker reports for a call that changes something.
    pub fn record_outcomes(&self, about: &ClientConnection, function: u8, outcomes: &[EntryOutcome]) {
        for outcome in outcomes {
            self.write_record(level_of_outcome(outcome.kind), about, |record| {
                record.outcome(outcome, function_name(function))
            });
        }
    }

    /// Never waits and never fails a call. A record that does not fit into the queue is lost; the next record states how many
    /// were.
    fn write_record(
        &self,
        level: AuditLevel,
        about: &ClientConnection,
        event: impl FnOnce(AuditRecord) -> AuditRecord,
    ) {
        let Some(to) = self.lines.as_ref().filter(|_| level <= self.level) else { return };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Swapped to 0, so that only one of several records written at the same time reports the loss.
        let lost_before = self.lost_records.swap(0, Ordering::Relaxed);
        // Only for denials: the check costs a system call, and granted questions are recorded, too, one for every read.
        let peer_alive = if level == AuditLevel::Denials { about.peer.is_alive() } else { None };
        let record = event(AuditRecord::with_time(now.map_or(0, |since| since.as_millis() as u64)))
            .with_field("level", self.confinement)
            .with_field("connection", about.id)
            .with_field("uid", about.peer.uid)
            .with_field("gid", about.peer.gid)
            .with_field("pid", about.peer.pid)
            .with_field("peer_alive", peer_alive)
            .with_field("lost_before", (lost_before > 0).then_some(lost_before));
        let encoded = if self.is_text { record.encode_text() } else { record.encode_line() };
        if encoded.is_some_and(|line| to.push(&line)) {
            return;
        }
        if self.lost_records.fetch_add(lost_before + 1, Ordering::Relaxed) + lost_before == 0 {
            tracing::error!("the audit takes no more records; what is lost is counted in its next one");
        }
    }
}

#[cfg(test)]
mod tests;
