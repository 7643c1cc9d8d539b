//! Runs in the worker: claims and opens names of a batch whose earlier changes are only foreseen. A name that an earlier entry
//! moves is opened where it is on disk now, and the claim carries its later name.
//! Trusts `Foreseen`. Opens only what the supervisor granted.

use super::foreseen::{ForeseenView, RootedPath};
use crate::{
    broker::{Answer, Intent, Parent, Refusal},
    jail::{Call, Claim, ForeseenChanges, Jail, JailEntry, Located, refusal},
    path::JailPath,
    wire::{Error, Result},
};

impl Jail {
    /// Corrects the supervisor's answer for a name whose folder an earlier entry removes or moves.
    pub fn adjust_answer(&self, name: &Located, intent: Intent, answer: Answer, foreseen: &ForeseenChanges) -> Answer {
        let will_be_gone = |name: &RootedPath| matches!(foreseen.view(name), ForeseenView::Absent);
        let at = RootedPath::from(&name.path);
        if intent == Intent::Create || !will_be_gone(&at) {
            return answer;
        }
        match answer {
            Err(Refusal::NotDirectory | Refusal::Escape) => Err(Refusal::NotFound),
            Ok(_) if at.above().last().is_some_and(|folder| will_be_gone(&folder)) => Err(Refusal::NotFound),
            answer => answer,
        }
    }

    /// Like `claim_answered`, but for the state after the foreseen changes.
    pub fn claim_foreseen(
        &self,
        call: &mut Call,
        name: &Located,
        intent: Intent,
        answer: Answer,
        foreseen: &ForeseenChanges,
    ) -> Result<Claim> {
        let real = self.real_or_sent(name, &answer)?;
        let at = RootedPath::from(&real);
        if !foreseen.touches(&at) {
            return self.claim_answered(call, name, intent, answer);
        }
        let view = foreseen.view(&at);
        let is_elsewhere = matches!(&view, ForeseenView::OnDisk(from) | ForeseenView::CopyOf(from) if *from != at);
        let mut claim = match view {
            ForeseenView::BelowFile => return Err(refusal::error(self, name, Refusal::NotDirectory)),
            ForeseenView::OnDisk(from) if from == at => self.claim_answered(call, name, intent, answer)?,
            ForeseenView::OnDisk(from) => self.claim_under_other_name(call, (name, real), intent, &from, false)?,
            ForeseenView::CopyOf(from) => self.claim_under_other_name(call, (name, real), intent, &from, true)?,
            ForeseenView::Made(node) => {
                let mut claim = self.claim_free_name(call, name, intent, answer, foreseen, &at)?;
                claim.set_foreseen_entry(Some(node));
                claim
            }
            ForeseenView::Absent => {
                let mut claim = match intent {
                    Intent::Create => self.claim_free_name(call, name, intent, answer, foreseen, &at)?,
                    _ => self.claim_answered(call, name, intent, answer)?,
                };
                claim.set_foreseen_entry(None);
                claim
            }
        };
        claim.folders_to_make = missing_folders(&claim, &at, is_elsewhere, foreseen);
        claim.check_parents_unprotected(self)?;
        claim.foreseen = foreseen.clone();
        Ok(claim)
    }

    /// Like `open_answered`, but for the state after the foreseen changes. None for a folder that is only foreseen.
    pub fn open_foreseen(
        &self,
        call: &mut Call,
        name: &Located,
        intent: Intent,
        answer: Answer,
        foreseen: &ForeseenChanges,
    ) -> Result<Option<JailEntry>> {
        let real = self.real_or_sent(name, &answer)?;
        let at = RootedPath::from(&real);
        match foreseen.view(&at) {
            ForeseenView::OnDisk(from) if from == at => self.open_answered(call, name, intent, answer).map(Some),
            ForeseenView::OnDisk(from) | ForeseenView::CopyOf(from) => {
                let source = self.with_path(name, &from)?;
                let mut entry = self.open(call, &source, intent)?;
                check_no_link_moved(entry.path(), &source)?;
                entry.set_foreseen_name(name.clone(), real);
                Ok(Some(entry))
            }
            ForeseenView::Made(_) => Ok(None),
            ForeseenView::Absent => Err(Error::not_found(&name.sent)),
            ForeseenView::BelowFile => Err(refusal::error(self, name, Refusal::NotDirectory)),
        }
    }

    /// Claims what is `from` on disk now, under the name that it, or a copy of it, will have.
    fn claim_under_other_name(
        &self,
        call: &mut Call,
        (name, real): (&Located, JailPath),
        intent: Intent,
        from: &RootedPath,
        is_copy: bool,
    ) -> Result<Claim> {
        let source = self.with_path(name, from)?;
        let mut claim = self.claim(call, &source, intent)?;
        check_no_link_moved(claim.path(), &source)?;
        claim.set_foreseen_name(name.clone(), real, is_copy);
        Ok(claim)
    }

    fn real_or_sent(&self, name: &Located, answer: &Answer) -> Result<JailPath> {
        match answer {
            Ok(parent) => self.real_path(name, parent),
            Err(_) => Ok(name.path.clone()),
        }
    }

    /// `name` with another path; errors keep the path as the caller sent it.
    fn with_path(&self, name: &Located, at: &RootedPath) -> Result<Located> {
        let path = self.roots.check(at.root, &at.rel).map_err(|wrong| Error::io(&name.sent, wrong))?;
        Ok(Located::new(self, path, &*name.sent)?.within_base(name.base.clone()))
    }

    /// Claims a free name whose folders will differ from those on disk. The supervisor then answers for the outermost name that the
    /// plan changes, and the rest of the path counts as missing.
    fn claim_free_name(
        &self,
        call: &mut Call,
        name: &Located,
        intent: Intent,
        answer: Answer,
        foreseen: &ForeseenChanges,
        at: &RootedPath,
    ) -> Result<Claim> {
        let refused = match answer {
            Err(refused @ (Refusal::NotFound | Refusal::NotDirectory | Refusal::Escape)) => refused,
            answer => return self.claim_answered(call, name, intent, answer),
        };
        let is_changed =
            |above: &RootedPath| !matches!(foreseen.view(above), ForeseenView::OnDisk(on_disk) if on_disk == *above);
        let Some(above) = at.above().chain([at.clone()]).find(is_changed) else {
            return Err(refusal::error(self, name, refused));
        };
        let top = self.with_path(name, &above)?;
        let answer = self.ask(call, std::slice::from_ref(&top), Intent::Create).pop();
        let answer = answer.unwrap_or(Err(Refusal::Busy)).map(|parent| {
            let rest = at.rel[above.rel.len()..].iter().filter(|byte| **byte == b'/').count();
            let leaf = memchr::memrchr(b'/', &at.rel).map_or(&at.rel[..], |slash| &at.rel[slash + 1..]);
            Parent { missing: parent.missing + rest, path: at.rel.clone(), leaf: leaf.to_vec(), ..parent }
        });
        self.claim_answered(call, name, Intent::Create, answer)
    }
}

/// C210 for a path through a link that an earlier entry of the batch moves or copies: a relative link can have another target at
/// its new place, which cannot be checked before the link is there.
fn check_no_link_moved(real: &JailPath, source: &Located) -> Result<()> {
    if *real == source.path {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{}: goes through a link that an earlier entry of this batch moves or copies; send it in a call of its own",
        source.sent
    )))
}

/// The folders above a name that still have to be made, after the foreseen changes.
fn missing_folders(claim: &Claim, at: &RootedPath, is_elsewhere: bool, foreseen: &ForeseenChanges) -> Vec<Vec<u8>> {
    let above: Vec<RootedPath> = at.above().collect();
    let on_disk = above.len().saturating_sub(claim.missing_folders.len());
    let is_missing = |(index, folder): &(usize, RootedPath)| match foreseen.view(folder) {
        ForeseenView::OnDisk(from) | ForeseenView::CopyOf(from) if is_elsewhere || from == *folder => *index >= on_disk,
        ForeseenView::OnDisk(_) | ForeseenView::CopyOf(_) | ForeseenView::Made(_) => false,
        ForeseenView::Absent | ForeseenView::BelowFile => true,
    };
    above.into_iter().enumerate().filter(is_missing).map(|(_, folder)| folder.rel).collect()
}
