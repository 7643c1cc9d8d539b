//! Runs in the worker: checks every entry of a folder that is moved, copied, restored or deleted as a whole, under its old and its
//! new path. Also holds the checks that only an atomic batch makes. Trusts the policy's globs, not the names on disk. Changes
//! nothing.

use super::foreseen::RootedPath;
use crate::{
    jail::{
        Call, Claim, Dir, ForeseenChanges, Jail, Located, refusal,
        walk::{self, WholeTreeVisitor},
    },
    path::JailPath,
    sys::fs::FileKind,
    wire::{Error, Result},
};

impl Claim {
    /// C210 for a FIFO, socket or device. It can only be deleted where it is: a move would make a name for it, and the worker's
    /// Landlock rights do not allow it to make names of these kinds.
    pub(in crate::jail) fn check_movable(&self) -> Result<()> {
        match self.kind() {
            None | Some(FileKind::File | FileKind::Dir | FileKind::Symlink) => Ok(()),
            Some(_) => Err(Error::bad_input(format!(
                "{}: a FIFO, socket or device can only be deleted for good and by itself; send it without atomic and trash",
                self.name.sent
            ))),
        }
    }

    /// C216 unless the folder that lies there is empty.
    pub fn check_empty(&self, call: &Call) -> Result<()> {
        if self.is_empty(call)? { Ok(()) } else { Err(refusal::not_empty(&self.name.sent)) }
    }

    pub fn is_empty(&self, call: &Call) -> Result<bool> {
        if !self.foreseen.added_below(&RootedPath::from(&self.real_path)).is_empty() {
            return Ok(false);
        }
        if self.is_only_foreseen() {
            return Ok(true);
        }
        let will_be_gone = |name: &[u8]| !self.foreseen.is_empty() && self.foreseen.is_gone(&self.real_path.join(name));
        let mut is_empty = true;
        self.open_dir()?.for_each(call, |entry| match will_be_gone(entry.name) {
            true => std::ops::ControlFlow::Continue(()),
            false => {
                is_empty = false;
                std::ops::ControlFlow::Break(())
            }
        })?;
        Ok(is_empty)
    }

    /// C211 if the folder holds an entry that is denied here or would be at `to`, C221 if one is protected, C215 if something
    /// is mounted in it.
    /// Returns how many entries it holds, without those that will be gone by then.
    pub fn check_tree(&self, jail: &Jail, call: &Call, verb: &'static str, to: Option<&Claim>) -> Result<u64> {
        if self.is_only_foreseen() {
            return Ok(0);
        }
        let to = to.map(|to| (&to.real_path, to.name.sent.as_str()));
        let foreseen = Some(&self.foreseen).filter(|foreseen| !foreseen.is_empty());
        self.open_dir()?.check_tree(EntryRule { jail, call, name: &self.name, verb, to, is_copy: false }, foreseen)
    }
}

/// The rule for the entries of a folder that is moved, copied, deleted or restored as a whole: no entry may be denied under its
/// old or its new path, nor protected under its new path or, unless it `is_copy`, its old one.
#[derive(Clone, Copy)]
pub(in crate::jail) struct EntryRule<'a> {
    pub(in crate::jail) jail: &'a Jail,
    pub(in crate::jail) call: &'a Call,
    /// The folder, as the caller named it.
    pub(in crate::jail) name: &'a Located,
    /// For the error text: what cannot be done.
    pub(in crate::jail) verb: &'static str,
    /// The folder's new path and how the caller named that. None if nothing gets a new name.
    pub(in crate::jail) to: Option<(&'a JailPath, &'a str)>,
    /// The folder is copied, so its old entries do not change.
    pub(in crate::jail) is_copy: bool,
}

impl EntryRule<'_> {
    /// `folder` is the path of `dir` below the folder that is walked.
    pub(in crate::jail) fn check(&self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        let Self { jail, verb, .. } = *self;
        let sent = &self.name.sent;
        let here = dir.path().join(name);
        if jail.denied.is_denied_in_tree(&here) {
            return Err(self.reported(refusal::holds_denied(sent, verb)));
        }
        let below = || walk::join_path(folder, name);
        if let Some(rule) = jail.protected_by(&here).filter(|_| !self.is_copy) {
            return Err(self.reported(refusal::holds_protected(sent, &below(), rule, verb)));
        }
        match self.to {
            Some((to, to_sent)) => {
                jail.check_new_entry((sent, to_sent), to, &below(), verb).map_err(|error| self.reported(error))
            }
            None => Ok(()),
        }
    }

    /// C221 for a link in a moved or copied folder whose new name has something protected below it.
    pub(in crate::jail) fn check_link(&self, folder: &[u8], name: &[u8]) -> Result<()> {
        let Some((to, _)) = self.to else { return Ok(()) };
        self.jail.check_new_link(self.call, self.name, &to.join(&walk::join_path(folder, name)))
    }

    fn reported(&self, error: Error) -> Error {
        self.jail.broker.report_refusal(self.call.caller(), error.code, self.name.sent.as_bytes());
        error
    }
}

impl Jail {
    /// C211 or C221 for an entry `below` a folder that would get a denied or protected name. `sent` and `to_sent` are the
    /// folder's names as the caller wrote them.
    pub(in crate::jail) fn check_new_entry(
        &self,
        (sent, to_sent): (&str, &str),
        to: &JailPath,
        below: &[u8],
        verb: &str,
    ) -> Result<()> {
        let there = to.join(below);
        if self.denied.is_denied_in_tree(&there) {
            return Err(refusal::would_be_denied(sent, to_sent, verb));
        }
        match self.protected_by(&there) {
            Some(rule) => Err(refusal::would_be_protected(sent, to_sent, below, rule, verb)),
            None => Ok(()),
        }
    }
}

impl Dir {
    /// Tests everything in this folder. Returns how many entries it holds that are not `foreseen` to be gone.
    pub(in crate::jail) fn check_tree(&self, rule: EntryRule<'_>, foreseen: Option<&ForeseenChanges>) -> Result<u64> {
        let mut check = TreeCheck { rule, foreseen, entries: 0 };
        walk::walk_whole_tree(self, rule.call, &mut check)
            .inspect_err(|error| rule.jail.report_escape(rule.call, rule.name, error))?;
        Ok(check.entries)
    }
}

struct TreeCheck<'a> {
    rule: EntryRule<'a>,
    foreseen: Option<&'a ForeseenChanges>,
    entries: u64,
}

impl TreeCheck<'_> {
    fn check(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        let is_gone = |foreseen: &ForeseenChanges| foreseen.is_gone(&dir.path().join(name));
        self.entries += u64::from(!self.foreseen.is_some_and(is_gone));
        self.rule.check(dir, folder, name)
    }
}

impl WholeTreeVisitor for TreeCheck<'_> {
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: FileKind) -> Result<()> {
        self.check(dir, folder, name)?;
        if kind == FileKind::Symlink { self.rule.check_link(folder, name) } else { Ok(()) }
    }

    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool> {
        self.check(dir, folder, name).map(|()| true)
    }
}

/// C210 for an entry of an atomic batch in another root than those before it: steps are undone within one root.
pub(super) fn other_root(claim: &Claim) -> Error {
    Error::bad_input(format!(
        "{}: lies in another root than the entries before it; an atomic batch stays in one root: make one call for each root, or \
         send the entries without atomic",
        claim.name().sent
    ))
}

/// C210 for something that an earlier entry of the same atomic batch makes: a step can only be undone for what is known
/// before the first step.
pub(super) fn check_on_disk(claim: &Claim) -> Result<()> {
    if !claim.is_new() {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{}: an earlier entry of this atomic batch makes it, so the same batch cannot replace or move it; create it with its \
         final name and content, or send the entries without atomic",
        claim.name().sent
    )))
}

/// C210 for a file or folder that gets back a name that it had before in the same atomic batch.
pub(super) fn check_does_not_return(foreseen: &ForeseenChanges, from: &Claim, to: &Claim) -> Result<()> {
    if !foreseen.returns_to(from.path(), to.path()) {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{}: is moved back to a name that it had before in this atomic batch; leave out the moves in between, or send the \
         entries without atomic",
        to.name().sent
    )))
}

/// C210 for a folder that is moved or copied after an earlier entry of the same atomic batch has put something into it: what
/// it will hold then cannot be checked before the first step.
pub(super) fn check_nothing_added_below(foreseen: &ForeseenChanges, sent: &str, folder: &JailPath) -> Result<()> {
    if foreseen.added_below(&folder.into()).is_empty() {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{sent}: an earlier entry of this atomic batch puts something into this folder, so it cannot be moved or copied after \
         that; reorder the two entries, or send them without atomic"
    )))
}
