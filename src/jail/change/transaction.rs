//! Changes that happen all or not at all. Each is staged first, in the worker's own folder; then every step is written
//! down; then they are done one after the other, each a change of names that can be undone. What fails undoes what was
//! done before it, and so does `recovery` for a worker that was killed, unless all were done.

use std::sync::Arc;

use super::{staged::Staged, steps::Steps};
use crate::{
    jail::{
        Bin, Call, Claim, Foreseen, Jail, Source, refusal,
        state::journal::{At, Bytes, Record, Step, Thing},
        state::workspace::{Note, Spot, Workspace, end_for_recovery},
    },
    path::JailPath,
    sys::fs::{Kind, Stat},
    wire::{Code, Error, Result},
};

#[derive(Debug, Default)]
pub struct Transaction {
    place: Option<Place>,
    steps: Vec<Planned>,
    /// What the steps so far will have changed, for the entries that come after them.
    foreseen: Foreseen,
    /// In our own folder: new content before, old content after.
    spots: Vec<Spot>,
    /// Places in the trash that are used once all is done.
    bins: Vec<Bin>,
}

#[derive(Debug)]
struct Place {
    root: u16,
    workspace: Arc<Workspace>,
}

#[derive(Debug)]
pub(in crate::jail) struct Planned {
    pub(in crate::jail) step: Step,
    /// Whose entry of the batch it serves, and how errors call it.
    pub(in crate::jail) entry: usize,
    pub(in crate::jail) sent: String,
    /// What must lie at `from` and at `to`, unchanged.
    pub(in crate::jail) expect: [Option<Stat>; 2],
    /// The folder that is taken away must be empty still.
    pub(in crate::jail) must_be_empty: bool,
}

/// Which entry failed, and how. Everything is as it was before unless `is_left`.
#[derive(Debug, PartialEq, Eq)]
pub struct RolledBack {
    pub entry: usize,
    pub error: Error,
    /// Another client has changed a name while the batch was planned, and every step was undone. A new plan may succeed.
    pub is_conflict: bool,
    /// A step could not be undone, because another process has made its folder unreachable.
    pub is_left: bool,
}

impl Transaction {
    fn workspace(&mut self, jail: &Jail, call: &Call, claim: &Claim) -> Result<Arc<Workspace>> {
        let root = claim.path().root();
        if let Some(place) = &self.place {
            if place.root != root {
                return Err(other_root(claim));
            }
            return Ok(Arc::clone(&place.workspace));
        }
        let impossible = |what| Error::io(&claim.name().sent, what);
        let workspace = jail.workspaces.open(jail, call, root).ok_or_else(|| {
            impossible("the service cannot keep its own state in this root, which an atomic batch needs")
        })?;
        if !workspace.can_exchange() {
            return Err(impossible(
                "this file system cannot exchange names, which an atomic batch needs; send it without atomic",
            ));
        }
        self.place = Some(Place { root, workspace: Arc::clone(&workspace) });
        Ok(workspace)
    }

    fn push(&mut self, entry: usize, claim: &Claim, step: Step, expect: [Option<Stat>; 2]) {
        let sent = claim.name().sent.clone();
        self.steps.push(Planned { step, entry, sent, expect, must_be_empty: false });
    }

    fn push_parents(&mut self, entry: usize, claim: &Claim) {
        for path in &claim.parents {
            self.push_dir(entry, claim, path, super::parents::MODE);
        }
    }

    fn push_dir(&mut self, entry: usize, claim: &Claim, path: &[u8], mode: u32) {
        self.push(entry, claim, Step::MakeDir { path: path.into(), mode }, [None, None]);
    }

    pub(in crate::jail) fn foreseen(&self) -> &Foreseen {
        &self.foreseen
    }

    /// The staged file's name in our own folder; from here on this transaction owns it.
    fn own(&mut self, jail: &Jail, call: &Call, claim: &Claim, mut staged: Staged) -> Result<Bytes> {
        let workspace = self.workspace(jail, call, claim)?;
        staged.name(claim, jail, call).map_err(|errno| claim.change_error(jail, call, errno))?;
        match staged.spot.take() {
            Some(spot) if spot.note.is_none() && workspace.holds(&spot) => {
                let path = workspace.path_of(&spot)[..].into();
                self.spots.push(spot);
                Ok(path)
            }
            spot => {
                staged.spot = spot;
                Err(Error::io(
                    &claim.name().sent,
                    "lies on another file system than its root; an atomic batch stays on one",
                ))
            }
        }
    }

    fn new_spot(&mut self, workspace: &Workspace) -> Bytes {
        let spot = workspace.spot();
        let path = workspace.path_of(&spot)[..].into();
        self.spots.push(spot);
        path
    }

    pub(in crate::jail) fn place(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        claim: &Claim,
        staged: Staged,
        source: Source<'_>,
    ) -> Result<()> {
        let stat = staged.stat_now();
        let from = At::Own(self.own(jail, call, claim, staged)?);
        self.push_parents(entry, claim);
        let to = At::Path(claim.path().rel().into());
        let step = Step::Rename { from, to, moved: Thing::from(&stat), displaced: None };
        self.push(entry, claim, step, [None, None]);
        self.foreseen.write(claim, stat.mode, source, false);
        Ok(())
    }

    pub(in crate::jail) fn replace(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        claim: &Claim,
        (staged, source): (Staged, Source<'_>),
        read: &Stat,
    ) -> Result<()> {
        check_on_disk(claim)?;
        let stat = staged.stat_now();
        let (moved, displaced) = (Thing::from(&stat), Some(Thing::from(read)));
        let from = At::Own(self.own(jail, call, claim, staged)?);
        let to = At::Path(claim.path().rel().into());
        let expect = [None, claim.stat_on_disk(read)];
        self.push(entry, claim, Step::Rename { from, to, moved, displaced }, expect);
        self.foreseen.write(claim, stat.mode, source, false);
        Ok(())
    }

    pub(in crate::jail) fn make_dir(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        claim: &Claim,
        mode: u32,
    ) -> Result<()> {
        self.workspace(jail, call, claim)?;
        self.push_parents(entry, claim);
        self.push_dir(entry, claim, claim.path().rel(), mode & 0o777);
        self.foreseen.make_folder(claim, mode & 0o777);
        Ok(())
    }

    /// Anything; a folder that is not `empty` with all it holds.
    pub(in crate::jail) fn remove(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        claim: &Claim,
        expect: &Stat,
        empty: bool,
    ) -> Result<()> {
        let workspace = self.workspace(jail, call, claim)?;
        let to = At::Own(self.new_spot(&workspace));
        let from = At::Path(claim.path().rel().into());
        let step = Step::Rename { from, to, moved: Thing::from(expect), displaced: None };
        self.push(entry, claim, step, [Some(*expect), None]);
        if let Some(planned) = self.steps.last_mut() {
            planned.must_be_empty = empty && expect.kind == Kind::Dir;
        }
        self.foreseen.remove(claim);
        Ok(())
    }

    pub(in crate::jail) fn discard(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        claim: &Claim,
        bin: Bin,
        expect: &Stat,
    ) -> Result<String> {
        if !self.workspace(jail, call, claim)?.is_in(bin.own()) {
            return Err(Error::io(
                &claim.name().sent,
                "the service's state in this root was replaced since this connection began; connect again",
            ));
        }
        let (from, to) = (At::Path(claim.path().rel().into()), At::Own(bin.path()[..].into()));
        let step = Step::Rename { from, to, moved: Thing::from(expect), displaced: None };
        self.push(entry, claim, step, [Some(*expect), None]);
        let id = bin.id().to_owned();
        self.bins.push(bin);
        self.foreseen.remove(claim);
        Ok(id)
    }

    pub(in crate::jail) fn rename(
        &mut self,
        jail: &Jail,
        call: &Call,
        entry: usize,
        from: &Claim,
        to: &Claim,
        expect: &Stat,
    ) -> Result<()> {
        check_on_disk(from)?;
        check_on_disk(to)?;
        check_does_not_return(&self.foreseen, from, to)?;
        let workspace = self.workspace(jail, call, from)?;
        self.workspace(jail, call, to)?;
        self.push_parents(entry, to);
        let path = |claim: &Claim| At::Path(claim.path().rel().into());
        let displaced = to.stat().map(Thing::from);
        let moved = Thing::from(expect);
        let step = Step::Rename { from: path(from), to: path(to), moved, displaced };
        let replaced = to.stat().and_then(|there| to.stat_on_disk(there));
        self.push(entry, to, step, [from.stat_on_disk(expect), replaced]);
        if let (Some(moved), Some(old)) = (displaced, to.stat()) {
            // The two have changed places: what was at the destination now goes for good.
            let away = At::Own(self.new_spot(&workspace));
            let step = Step::Rename { from: path(from), to: away, moved, displaced: None };
            self.push(entry, to, step, [None, None]);
            if let Some(planned) = self.steps.last_mut() {
                planned.must_be_empty = old.kind == Kind::Dir;
            }
        }
        self.foreseen.rename(from, to);
        Ok(())
    }

    /// Does all of it, or none.
    pub fn commit(mut self, jail: &Jail, call: &Call) -> std::result::Result<(), RolledBack> {
        let Some(Place { workspace, .. }) = self.place.take() else { return Ok(()) };
        let _running = jail.workspaces.begin_change();
        let planned = std::mem::take(&mut self.steps);
        let first = planned.first().map_or(0, |planned| planned.entry);
        let before = |error| RolledBack::of(first, error);
        call.checkpoint().map_err(before)?;
        let failed = |errno| before(refusal::io("the service's own state", errno));
        let steps = planned.iter().map(|planned| planned.step.clone()).collect();
        let mut note = workspace.write_down(&Record::Batch { steps }).map_err(failed)?;
        if jail.settings.durable {
            workspace.sync(&note).map_err(failed)?;
        }
        let doing = Steps { jail, call, root: workspace.root(), own: workspace.own() };
        for (done, next) in planned.iter().enumerate() {
            if let Err(error) = doing.execute(next) {
                // The failed one, too: it may be half done.
                return Err(self.roll_back(&doing, &planned[..=done], note, next.entry, error));
            }
        }
        if let Err((entry, error)) = doing.seal(&planned, &mut note) {
            return Err(self.roll_back(&doing, &planned, note, entry, error));
        }
        self.bins.drain(..).for_each(Bin::keep);
        Ok(())
    }

    /// Undoes the steps that were done. If the disk refuses that, recovery does it, and the process ends.
    fn roll_back(
        &mut self,
        doing: &Steps<'_>,
        done: &[Planned],
        note: Note,
        entry: usize,
        error: Error,
    ) -> RolledBack {
        let steps: Vec<Step> = done.iter().map(|planned| planned.step.clone()).collect();
        let is_conflict = matches!(error.code, Code::C211 | Code::C217 | Code::C222);
        match doing.undo(&steps) {
            Ok(()) => RolledBack { entry, error, is_conflict, is_left: false },
            Err(failed) => {
                note.keep();
                if failed.is_disk {
                    end_for_recovery();
                }
                // Old content may still lie in our own folder: it stays for the recovery that tries again.
                self.spots.clear();
                self.bins.drain(..).for_each(Bin::keep);
                RolledBack { entry, error: refusal::left_over(error), is_conflict: false, is_left: true }
            }
        }
    }
}

/// C210 for an entry of an atomic batch in another root than those before it: steps are undone within one root.
pub(in crate::jail) fn other_root(claim: &Claim) -> Error {
    Error::bad_input(format!(
        "{}: lies in another root than the entries before it; an atomic batch stays in one root: make one call for each root, or \
         send the entries without atomic",
        claim.name().sent
    ))
}

/// C210 for something that an earlier entry of the same atomic batch makes: a step can only be undone for what is known
/// before the first step.
pub(in crate::jail) fn check_on_disk(claim: &Claim) -> Result<()> {
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
pub(in crate::jail) fn check_does_not_return(foreseen: &Foreseen, from: &Claim, to: &Claim) -> Result<()> {
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
pub(in crate::jail) fn check_nothing_added_below(
    foreseen: &Foreseen,
    sent: &str,
    folder: &JailPath,
) -> Result<()> {
    if foreseen.added_below(&folder.into()).is_empty() {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{sent}: an earlier entry of this atomic batch puts something into this folder, so it cannot be moved or copied after \
         that; reorder the two entries, or send them without atomic"
    )))
}

/// What a transaction leaves in our own folder is of no more use: new content that found no place, or old content.
impl Drop for Transaction {
    fn drop(&mut self) {
        self.spots.drain(..).for_each(Spot::remove);
    }
}

impl RolledBack {
    /// The batch failed for a reason that a new plan would not change.
    pub fn of(entry: usize, error: Error) -> Self {
        Self { entry, error, is_conflict: false, is_left: false }
    }

    /// What the other entries hear.
    pub fn error_for_others(&self, field: &str) -> Error {
        Error::new(
            Code::C216,
            format!(
                "the batch was rolled back because of entry {} ({field}[{}]); {}",
                self.entry,
                self.entry,
                if self.is_left { "not everything could be put back" } else { "nothing was changed" }
            ),
        )
    }
}
