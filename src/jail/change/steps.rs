//! Doing and undoing the steps of a batch. Every name is resolved anew for its step, by the supervisor and under its
//! rules, whether the steps come from a call or from what a killed worker left.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{rename::rename_to_free, transaction::Planned};
use crate::{
    broker::Intent,
    jail::{
        Call, Claim, Jail, Located, refusal,
        state::journal::{At, Record, Step, Thing},
        state::private,
        state::workspace::{Note, Spot},
    },
    path::JailPath,
    sys::{
        Errno,
        change::{self, Taken},
        fs::{self, Kind, OFlags, Stat},
    },
    wire::{Code, Error, Result},
};

pub(in crate::jail) struct Steps<'a> {
    pub(in crate::jail) jail: &'a Jail,
    pub(in crate::jail) call: &'a Call,
    /// Of the names, and of the steps' own state.
    pub(in crate::jail) root: &'a JailPath,
    /// The folder of our own state in that root.
    pub(in crate::jail) own: BorrowedFd<'a>,
}

/// A name of a step, resolved.
enum End {
    Claim(Box<Claim>),
    Own(Spot),
}

impl End {
    fn at(&self) -> (BorrowedFd<'_>, &[u8]) {
        match self {
            Self::Claim(claim) => (claim.dir(), claim.leaf()),
            Self::Own(spot) => spot.at(),
        }
    }

    /// What lies there now.
    fn stat(&self) -> std::result::Result<Option<Stat>, Errno> {
        match self {
            Self::Claim(claim) => claim.stat_now(),
            Self::Own(spot) => spot.stat(),
        }
    }
}

impl Steps<'_> {
    fn claim(&self, path: &[u8], sent: &str) -> Result<Box<Claim>> {
        // A path that no client could have named: from a planted note, or from a worker without its checks.
        let bad = |_| Error::not_found(sent);
        let path = self.jail.roots.check(self.root.root(), path).map_err(bad)?;
        let name = Located::new(self.jail, path, sent)?;
        let answer = self.jail.ask_afresh(self.call, &name, Intent::Write);
        let claim = self.jail.claim_answered(self.call, &name, Intent::Write, answer)?;
        // Steps hold real paths. A link on the way has appeared since, and what it leads to was never checked.
        if *claim.path() != name.path {
            return Err(refusal::changed(sent));
        }
        Ok(Box::new(claim))
    }

    fn end(&self, at: &At, sent: &str) -> Result<End> {
        match at {
            At::Path(path) => self.claim(&path.0, sent).map(End::Claim),
            At::Own(path) => self.own(&path.0).map(End::Own).map_err(|errno| match errno {
                Errno::NOENT => Error::not_found(sent),
                errno => refusal::io(sent, errno),
            }),
        }
    }

    /// One name at a time, each a folder of ours.
    fn own(&self, path: &[u8]) -> std::result::Result<Spot, Errno> {
        let how = self.jail.how(self.root);
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let name = names.pop().unwrap_or_default().to_vec();
        let mut dir = None::<OwnedFd>;
        for folder in names {
            let above = dir.as_ref().map_or(self.own, AsFd::as_fd);
            let flags = fs::FOLDER | OFlags::NOFOLLOW;
            dir = Some(fs::open_beneath(above, folder, flags, how)?);
        }
        let dir = Arc::new(dir.ok_or(Errno::INVAL)?);
        Ok(Spot { dir, name, how, root: self.root.clone(), note: None })
    }

    pub(in crate::jail) fn execute(&self, planned: &Planned) -> Result<()> {
        self.call.checkpoint()?;
        let sent = &planned.sent;
        match &planned.step {
            Step::MakeDir { path, mode } => {
                let claim = self.claim(&path.0, sent)?;
                match change::make_dir(claim.dir(), claim.leaf(), *mode) {
                    Err(Errno::EXIST) if claim.stat_now().is_ok_and(is_folder) => Ok(()),
                    Err(Errno::EXIST) => Err(refusal::exists(sent)),
                    other => other.map_err(|errno| claim.change_error(self.jail, self.call, errno)),
                }
            }
            Step::Rename { from, to, moved, displaced } => {
                let (from, to) = (self.end(from, sent)?, self.end(to, sent)?);
                self.rename(planned, &from, &to, *moved, *displaced)
            }
        }
    }

    fn rename(
        &self,
        planned: &Planned,
        from: &End,
        to: &End,
        moved: Thing,
        displaced: Option<Thing>,
    ) -> Result<()> {
        let sent = &planned.sent;
        let io = |errno| refusal::io(sent, errno);
        let before = [from.stat().map_err(io)?, to.stat().map_err(io)?];
        if before[1].is_some() && displaced.is_none() && matches!(to, End::Claim(_)) {
            return Err(refusal::exists(sent));
        }
        let as_expected = before.iter().zip(&planned.expect).all(|(now, expect)| match (now, expect) {
            (Some(now), Some(expect)) if expect.kind == Kind::Dir => now.is_same_file(expect),
            (Some(now), Some(expect)) => now.is_unchanged(expect),
            (None, Some(_)) => false,
            (_, None) => true,
        });
        if !as_expected || !is(&before[0], Some(moved)) || !is(&before[1], displaced) {
            return Err(refusal::changed(sent));
        }
        let swap = |from: &End, to: &End| match displaced {
            Some(_) => change::rename(from.at(), to.at(), Taken::Exchange),
            None => rename_to_free(from.at(), to.at(), self.jail.how(self.root)),
        };
        swap(from, to).map_err(|errno| self.rename_error(from, to, sent, errno))?;
        // Between the look and the rename somebody may have been faster: then it goes back.
        let after = [to.stat(), from.stat()];
        let is_right = matches!(&after, [Ok(to), Ok(from)] if is(to, Some(moved)) && is(from, displaced));
        let is_empty = !planned.must_be_empty || self.is_empty(to);
        if is_right && is_empty {
            return Ok(());
        }
        swap(to, from).map_err(io)?;
        Err(if is_empty { refusal::changed(sent) } else { refusal::not_empty(sent) })
    }

    fn rename_error(&self, from: &End, to: &End, sent: &str, errno: Errno) -> Error {
        match (errno, from, to) {
            (Errno::EXIST, ..) => refusal::exists(sent),
            (_, _, End::Claim(claim)) | (_, End::Claim(claim), _) => {
                claim.change_error(self.jail, self.call, errno)
            }
            _ => refusal::io(sent, errno),
        }
    }

    fn is_empty(&self, end: &End) -> bool {
        let End::Own(spot) = end else { return false };
        let mut is_empty = true;
        let visited = spot.open_dir().map_err(|_| ()).and_then(|dir| {
            dir.for_each(self.call, |_| {
                is_empty = false;
                std::ops::ControlFlow::Break(())
            })
            .map_err(|_| ())
        });
        visited.is_ok() && is_empty
    }

    /// All steps are done: makes them last, and says so. An error names the entry whose folder failed.
    pub(in crate::jail) fn seal(
        &self,
        planned: &[Planned],
        note: &mut Note,
    ) -> std::result::Result<(), (usize, Error)> {
        let last = planned.last().map_or(0, |planned| planned.entry);
        let failed = |errno| (last, refusal::io("the service's own state", errno));
        if self.jail.settings.durable {
            self.sync_folders(planned)?;
        }
        note.add(&Record::Committed).map_err(failed)?;
        if self.jail.settings.durable { note.sync().map_err(failed) } else { Ok(()) }
    }

    /// Each folder once, however many of its names have changed.
    fn sync_folders(&self, planned: &[Planned]) -> std::result::Result<(), (usize, Error)> {
        let mut synced = std::collections::BTreeSet::new();
        for Planned { step, entry, sent, .. } in planned {
            let paths = match step {
                Step::MakeDir { path, .. } => [Some(path), None],
                Step::Rename { from, to, .. } => [from, to].map(|at| match at {
                    At::Path(path) => Some(path),
                    At::Own(_) => None,
                }),
            };
            for path in paths.into_iter().flatten() {
                let folder = memchr::memrchr(b'/', &path.0).map_or(&[][..], |slash| &path.0[..slash]);
                if synced.insert(folder.to_vec()) {
                    let claim = match self.claim(&path.0, sent) {
                        // A later step has moved or removed the folder, and its rename is synced with the folder above it.
                        Err(error) if matches!(error.code, Code::C211 | Code::C216) => continue,
                        claim => claim.map_err(|error| (*entry, error))?,
                    };
                    change::sync_folder(claim.dir(), claim.how)
                        .map_err(|errno| (*entry, refusal::io(sent, errno)))?;
                }
            }
        }
        Ok(())
    }

    /// Takes back what was done, the last first. Each step is looked at: what was not done, or what somebody else has
    /// changed since, is left as it is. The error is the first of all that could not be taken back; C211, which says that
    /// something has no folder to go back to, only if there is no other.
    pub(in crate::jail) fn undo(&self, steps: &[Step]) -> Result<(), UndoError> {
        let mut errors: Vec<UndoError> =
            steps.iter().rev().filter_map(|step| self.undo_step(step).err()).collect();
        // Stable: among equals the first stays the first.
        errors.sort_by_key(|failed| (!failed.is_disk, failed.is_out_of_reach()));
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    fn undo_step(&self, step: &Step) -> Result<(), UndoError> {
        match step {
            Step::MakeDir { path, .. } => self.undo_make_dir(&path.0),
            Step::Rename { from, to, moved, displaced } => {
                self.undo_rename(from, to, moved, displaced.as_ref())
            }
        }
    }

    /// Whether `old` lies at `at` in our own folder.
    fn keeps(&self, at: &At, old: &Thing) -> bool {
        let At::Own(path) = at else { return false };
        self.own(&path.0)
            .and_then(|spot| spot.stat())
            .is_ok_and(|found| found.is_some_and(|found| old.is(&found)))
    }

    fn undo_make_dir(&self, path: &[u8]) -> Result<(), UndoError> {
        let Some(claim) = found(self.claim(path, ""))? else { return Ok(()) };
        match change::remove_dir(claim.dir(), claim.leaf()) {
            // In use by now, or never made.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(undo_failed(errno)),
        }
    }

    fn undo_rename(
        &self,
        from: &At,
        to: &At,
        moved: &Thing,
        displaced: Option<&Thing>,
    ) -> Result<(), UndoError> {
        let io = undo_failed;
        let Some(to) = found(self.end(to, ""))? else {
            // Its folder was never made, is gone with what we put there, was renamed, or is denied by now. What lay there
            // before is not ours to destroy.
            let is_kept = displaced.is_some_and(|old| self.keeps(from, old));
            return if is_kept { Err(Error::not_found("").into()) } else { Ok(()) };
        };
        // Among a user's files only what we know again is ours. In our own folder all is what we put there.
        let was_done = match (&to, to.stat().map_err(io)?) {
            (_, None) => false,
            (End::Own(_), Some(_)) => true,
            (End::Claim(_), Some(there)) => moved.is(&there),
        };
        if !was_done {
            return Ok(());
        }
        let from = match (found(self.end(from, ""))?, &to) {
            (Some(from), _) => from,
            (None, End::Claim(_)) => return Ok(()),
            // What was taken away has no place to go back to. It is not ours to destroy.
            (None, End::Own(_)) => return Err(Error::not_found("").into()),
        };
        let exchanges = match (&from, from.stat().map_err(io)?, displaced) {
            (_, None, None) => false,
            (End::Own(_), Some(_), Some(_)) => true,
            (End::Claim(_), Some(here), Some(displaced)) if displaced.is(&here) => true,
            // A user has put something else there since: the newest stays. Never a file of the same batch, because no file
            // has one name twice in it.
            _ => return Ok(()),
        };
        let undone = match exchanges {
            true => change::rename(to.at(), from.at(), Taken::Exchange),
            false => rename_to_free(to.at(), from.at(), self.jail.how(self.root)),
        };
        match undone {
            // Somebody was faster: the newest stays.
            Err(Errno::EXIST) => Ok(()),
            other => other.map_err(io),
        }
    }
}

/// A step that could not be undone.
#[derive(Debug)]
pub(in crate::jail) struct UndoError {
    pub(in crate::jail) error: Error,
    /// The disk refused to change a name. False if the names could not be resolved, which recovery cannot help either.
    pub(in crate::jail) is_disk: bool,
}

impl From<Error> for UndoError {
    fn from(error: Error) -> Self {
        Self { error, is_disk: false }
    }
}

impl UndoError {
    /// The folder of a name is gone, has become a link, was moved out of the root, or is denied or protected by now.
    pub(in crate::jail) fn is_out_of_reach(&self) -> bool {
        matches!(self.error.code, Code::C211 | Code::C215 | Code::C221)
    }
}

fn undo_failed(errno: Errno) -> UndoError {
    let is_disk = !private::is_of_others(errno);
    UndoError { error: if is_disk { refusal::io("", errno) } else { Error::not_found("") }, is_disk }
}

/// None for what is not there.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.code == Code::C211 => Ok(None),
        other => other.map(Some),
    }
}

fn is(found: &Option<Stat>, expected: Option<Thing>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => expected.is(found),
        (None, None) => true,
        _ => false,
    }
}

fn is_folder(found: Option<Stat>) -> bool {
    found.is_some_and(|stat| stat.kind == Kind::Dir)
}

impl Spot {
    fn open_dir(&self) -> Result<crate::jail::Dir> {
        let fd = fs::open_to_list(self.dir.as_fd(), &self.name, self.how)
            .map_err(|errno| refusal::io("", errno))?;
        Ok(crate::jail::Dir::new(fd, String::new(), self.root.clone(), self.how))
    }
}
