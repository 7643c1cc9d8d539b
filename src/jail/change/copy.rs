//! Runs in the worker: copies folders and links. A copy is built under a name of our own, in the workspace where possible, and gets
//! its final name in one step.
//! Does not trust what lies in a folder: every entry is tested under its old and its new path. Never copies a denied entry, and
//! never follows a link.

use std::os::fd::AsFd;

use super::{
    check::{EntryRule, check_nothing_added_below},
    planning::{PlanMode, Planning},
    staged::Staged,
};
use crate::{
    jail::{
        Call, Claim, Dir, Jail, JailFile, Located, ReadControl, entry, refusal,
        state::workspace::{TemporaryName, retry_while_taken},
        walk::{self, WholeTreeVisitor},
    },
    path::{JailPath, Symlinks},
    sys::{
        Errno, change,
        fs::{self, FileKind, FileStat},
    },
    wire::{Code, Error, Result},
};

/// Added to the mode of every copied folder, because the worker has to fill it. The worker may not call chmod, so a folder keeps
/// the mode that it is made with.
const OWNER_ACCESS: u32 = 0o700;

/// How much was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyTotals {
    pub bytes: u64,
    /// Files, links and folders below the one that was copied.
    pub entries: u64,
}

impl Claim {
    /// Copies the folder `from` with all it holds; the copy is to be placed at this claim. C211 if an entry is denied or would be
    /// denied here, C221 if one would be protected here.
    pub fn stage_tree(&self, jail: &Jail, call: &Call, from: &Located, source: &Dir) -> Result<(Staged, CopyTotals)> {
        let failed = |errno| self.change_error(jail, call, errno);
        let mode = fs::stat(source.fd()).map_err(failed)?.mode | OWNER_ACCESS;
        let make = |spot: &TemporaryName| change::make_dir(spot.dir.as_fd(), &spot.name, mode);
        let spot = self.temporary_name(jail, call, make).map_err(failed)?;
        let mut staged = Staged::from_temporary_name(spot).map_err(failed)?;
        let top = staged.open_dir().map_err(failed)?;
        let copied = self.copy_tree(jail, call, from, source, Some(&top))?;
        if jail.settings.durable {
            change::sync(top.fd()).map_err(failed)?;
        }
        staged.stat = fs::stat(top.fd()).map_err(failed)?;
        Ok((staged, copied))
    }

    /// Counts what `stage_tree` would copy, with the same checks. Makes nothing.
    pub(in crate::jail) fn measure_tree(
        &self,
        jail: &Jail,
        call: &Call,
        from: &Located,
        source: &Dir,
    ) -> Result<CopyTotals> {
        self.copy_tree(jail, call, from, source, None)
    }

    fn copy_tree(
        &self,
        jail: &Jail,
        call: &Call,
        from: &Located,
        source: &Dir,
        top: Option<&Dir>,
    ) -> Result<CopyTotals> {
        let to = Some((&self.real_path, self.name.sent.as_str()));
        let rule = EntryRule { jail, call, name: from, verb: "copied", to, is_copy: true };
        let mut copy = TreeCopy { rule, to: self, source, current: None, top, copied: CopyTotals::default() };
        walk::walk_whole_tree(source, call, &mut copy).inspect_err(|error| jail.report_escape(call, from, error))?;
        Ok(copy.copied)
    }

    /// Makes a link with this target under a name of our own.
    pub fn stage_link(&self, jail: &Jail, call: &Call, target: &[u8]) -> Result<Staged> {
        let failed = |errno| self.change_error(jail, call, errno);
        let make = |spot: &TemporaryName| change::make_link(spot.dir.as_fd(), &spot.name, target);
        let spot = self.temporary_name(jail, call, make).map_err(failed)?;
        Staged::from_temporary_name(spot).map_err(failed)
    }

    /// C215 unless both roots follow links.
    pub fn check_link_copy(&self, jail: &Jail, from: &Located) -> Result<()> {
        let follows = |path| jail.roots.rules(path).symlinks == Symlinks::Beneath;
        let both = follows(&self.real_path) && follows(&from.path);
        if both { Ok(()) } else { Err(refusal::link(&jail.roots, from)) }
    }

    // Uses the workspace, unless the parent folder is setgid: what is built elsewhere would not get its group.
    fn temporary_name(
        &self,
        jail: &Jail,
        call: &Call,
        make: impl Fn(&TemporaryName) -> std::result::Result<(), Errno>,
    ) -> std::result::Result<TemporaryName, Errno> {
        let parent = fs::stat(self.dir())?;
        let workspace = match parent.is_setgid {
            true => None,
            false => jail.workspaces.open(jail, call, self.real_path.root()),
        };
        let workspace = workspace.filter(|workspace| workspace.is_on(&parent));
        retry_while_taken(|| {
            let spot = match &workspace {
                Some(workspace) => workspace.new_temporary_name(),
                None => TemporaryName::beside(self, jail, call)?,
            };
            make(&spot).map(|()| spot)
        })
    }
}

impl Planning {
    /// See `Claim::stage_tree`. `path` is where `source` will be once the foreseen changes are made.
    pub fn stage_tree(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        (from, path): (&Located, &JailPath),
        source: &Dir,
    ) -> Result<(Staged, CopyTotals)> {
        self.check_added_entries(jail, (&from.sent, path), claim, "copied")?;
        match self.mode {
            PlanMode::DryRun { .. } => {
                let copied = claim.measure_tree(jail, call, from, source)?;
                Ok((Staged::stage_dry_run(call, (FileKind::Dir, 0o755), |_| Ok(()))?, copied))
            }
            _ => claim.stage_tree(jail, call, from, source),
        }
    }

    /// Like `stage_tree`, for a folder that only earlier entries of the batch will make.
    pub fn stage_planned_tree(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        (from, path): (&Located, &JailPath),
    ) -> Result<Staged> {
        self.check_added_entries(jail, (&from.sent, path), claim, "copied")?;
        match self.mode {
            PlanMode::DryRun { .. } => Staged::stage_dry_run(call, (FileKind::Dir, 0o755), |_| Ok(())),
            _ => Err(Error::not_found(&from.sent)),
        }
    }

    /// Whether earlier entries of the batch put something into this folder that is not there yet.
    pub fn adds_below(&self, folder: &JailPath) -> bool {
        self.foreseen().is_some_and(|foreseen| !foreseen.added_below(&folder.into()).is_empty())
    }

    /// Checks entries that earlier entries of the batch put into a folder that is moved or copied with them: an atomic batch
    /// refuses it (C210), a dry run of single entries checks their new names.
    pub(super) fn check_added_entries(
        &self,
        jail: &Jail,
        from: (&str, &JailPath),
        to: &Claim,
        verb: &str,
    ) -> Result<()> {
        let (sent, path) = from;
        match self.mode {
            PlanMode::Single => Ok(()),
            PlanMode::Atomic | PlanMode::DryRun { atomic: true } => {
                check_nothing_added_below(&self.foreseen, sent, path)
            }
            PlanMode::DryRun { atomic: false } => {
                let added = self.foreseen.added_below(&path.into());
                let sent = (sent, to.name().sent.as_str());
                added.iter().try_for_each(|below| jail.check_new_entry(sent, to.path(), below, verb))
            }
        }
    }
}

struct TreeCopy<'a> {
    rule: EntryRule<'a>,
    to: &'a Claim,
    source: &'a Dir,
    /// The folder to fill; None in a dry run.
    top: Option<&'a Dir>,
    /// The copy of the folder that is being read; None for the one at the top.
    current: Option<Dir>,
    copied: CopyTotals,
}

impl TreeCopy<'_> {
    fn sent(&self) -> &str {
        &self.rule.name.sent
    }

    fn error_from_errno(&self) -> impl Fn(Errno) -> Error {
        let sent = self.sent().to_owned();
        move |errno| refusal::io_in_tree(&sent, errno)
    }

    /// None in a dry run.
    fn target(&self) -> Option<&Dir> {
        self.current.as_ref().or(self.top)
    }

    fn file(&self, dir: &Dir, name: &[u8]) -> Result<u64> {
        let failed = self.error_from_errno();
        let fd = fs::open_to_read(dir.fd(), name, dir.open_rules()).map_err(&failed)?;
        let stat = fs::stat(&fd).map_err(&failed)?;
        entry::check_content(self.rule.jail, self.rule.name, &stat)?;
        check_size(self.rule.call, self.sent(), &stat)?;
        let file = JailFile::new(fd, stat, self.sent().to_owned());
        let Some(target) = self.target() else { return Ok(stat.size_bytes) };
        let copy = change::create(target.fd(), name, stat.mode, self.to.open_rules).map_err(&failed)?;
        let mut offset = 0;
        file.read_chunks(self.rule.call, 0, u64::MAX, |chunk| {
            change::write_all_at(copy.as_fd(), chunk, offset).map_err(&failed)?;
            offset += chunk.len() as u64;
            Ok(ReadControl::Continue)
        })?;
        if self.rule.jail.settings.durable {
            change::sync(copy.as_fd()).map_err(&failed)?;
        }
        Ok(offset)
    }
}

impl WholeTreeVisitor for TreeCopy<'_> {
    fn enter(&mut self, folder: &[u8]) -> Result<()> {
        if let (Some(top), false) = (self.top, folder.is_empty()) {
            self.current = Some(top.open_dir(folder, self.sent().to_owned())?);
        }
        Ok(())
    }

    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: FileKind) -> Result<()> {
        self.rule.check(dir, folder, name)?;
        self.copied.entries += 1;
        match kind {
            FileKind::File => {
                self.copied.bytes += self.file(dir, name)?;
                Ok(())
            }
            FileKind::Symlink => {
                self.to.check_link_copy(self.rule.jail, self.rule.name)?;
                self.rule.check_link(folder, name)?;
                let link_target = fs::read_link(dir.fd(), name).map_err(self.error_from_errno())?;
                let Some(target) = self.target() else { return Ok(()) };
                change::make_link(target.fd(), name, &link_target).map_err(self.error_from_errno())
            }
            _ => Err(Error::bad_input(format!(
                "{}: holds a FIFO, socket or device, which cannot be copied",
                self.sent()
            ))),
        }
    }

    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool> {
        if self.rule.jail.is_private_entry(dir.path(), name) {
            return Ok(false);
        }
        self.rule.check(dir, folder, name)?;
        let mode = match self.source.open_dir(&walk::join_path(folder, name), self.sent().to_owned()) {
            Ok(opened) => fs::stat(opened.fd()).map_or(0o755, |stat| stat.mode),
            Err(error) => return Err(error),
        };
        if let Some(target) = self.target() {
            change::make_dir(target.fd(), name, mode | OWNER_ACCESS).map_err(self.error_from_errno())?;
        }
        self.copied.entries += 1;
        Ok(true)
    }

    fn leave(&mut self, folder: &[u8]) -> Result<()> {
        if let (Some(top), true) = (self.top, self.rule.jail.settings.durable) {
            let copy = top.open_dir(folder, self.sent().to_owned())?;
            change::sync(copy.fd()).map_err(self.error_from_errno())?;
        }
        Ok(())
    }
}

/// C213 for a file above `max_write_bytes`.
pub fn check_size(call: &Call, sent: &str, stat: &FileStat) -> Result<()> {
    let most = call.limits.max_write_bytes;
    if stat.size_bytes > most {
        let text = format!("{sent}: {} bytes, max_write_bytes is {most}", stat.size_bytes);
        return Err(Error::new(Code::TooLarge, text));
    }
    Ok(())
}
