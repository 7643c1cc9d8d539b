//! Runs in the worker: claims and opens names of a batch whose earlier changes are only foreseen. A name that an earlier entry
//! moves is opened where it is on disk now, and the claim carries its later name.
//! Trusts `Foreseen`. Opens only what the supervisor granted.

use super::foreseen::{Name, View};
use crate::{
    broker::{Answer, Intent, Parent, Refusal},
    jail::{Call, Claim, Entry, Foreseen, Jail, Located, refusal},
    path::JailPath,
    wire::{Error, Result},
};

impl Jail {
    /// Corrects the supervisor's answer for a name whose folder an earlier entry removes or moves.
    pub fn foresee_answer(
        &self,
        name: &Located,
        intent: Intent,
        answer: Answer,
        foreseen: &Foreseen,
    ) -> Answer {
        let will_be_gone = |name: &Name| matches!(foreseen.view(name), View::Absent);
        let at = Name::from(&name.path);
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
        foreseen: &Foreseen,
    ) -> Result<Claim> {
        let real = self.real_or_sent(name, &answer)?;
        let at = Name::from(&real);
        if !foreseen.touches(&at) {
            return self.claim_answered(call, name, intent, answer);
        }
        let view = foreseen.view(&at);
        let is_elsewhere = matches!(&view, View::Disk(from) | View::CopyOf(from) if *from != at);
        let mut claim = match view {
            View::BelowFile => return Err(refusal::error(self, name, Refusal::NotDirectory)),
            View::Disk(from) if from == at => self.claim_answered(call, name, intent, answer)?,
            View::Disk(from) => self.claim_elsewhere(call, (name, real), intent, &from, false)?,
            View::CopyOf(from) => self.claim_elsewhere(call, (name, real), intent, &from, true)?,
            View::Made(node) => {
                let mut claim = self.claim_anyway(call, name, intent, answer, foreseen, &at)?;
                claim.set_foreseen(Some(node));
                claim
            }
            View::Absent => {
                let mut claim = match intent {
                    Intent::Create => self.claim_anyway(call, name, intent, answer, foreseen, &at)?,
                    _ => self.claim_answered(call, name, intent, answer)?,
                };
                claim.set_foreseen(None);
                claim
            }
        };
        claim.parents = missing_folders(&claim, &at, is_elsewhere, foreseen);
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
        foreseen: &Foreseen,
    ) -> Result<Option<Entry>> {
        let real = self.real_or_sent(name, &answer)?;
        let at = Name::from(&real);
        match foreseen.view(&at) {
            View::Disk(from) if from == at => self.open_answered(call, name, intent, answer).map(Some),
            View::Disk(from) | View::CopyOf(from) => {
                let source = self.located(name, &from)?;
                let mut entry = self.open(call, &source, intent)?;
                check_no_link_moved(entry.path(), &source)?;
                entry.stand_for(name.clone(), real);
                Ok(Some(entry))
            }
            View::Made(_) => Ok(None),
            View::Absent => Err(Error::not_found(&name.sent)),
            View::BelowFile => Err(refusal::error(self, name, Refusal::NotDirectory)),
        }
    }

    /// Claims what is `from` on disk now, under the name that it, or a copy of it, will have.
    fn claim_elsewhere(
        &self,
        call: &mut Call,
        (name, real): (&Located, JailPath),
        intent: Intent,
        from: &Name,
        is_copy: bool,
    ) -> Result<Claim> {
        let source = self.located(name, from)?;
        let mut claim = self.claim(call, &source, intent)?;
        check_no_link_moved(claim.path(), &source)?;
        claim.stand_for(name.clone(), real, is_copy);
        Ok(claim)
    }

    fn real_or_sent(&self, name: &Located, answer: &Answer) -> Result<JailPath> {
        match answer {
            Ok(parent) => self.real_path(name, parent),
            Err(_) => Ok(name.path.clone()),
        }
    }

    /// `name` with another path; errors keep the path as the caller sent it.
    fn located(&self, name: &Located, at: &Name) -> Result<Located> {
        let path = self.roots.check(at.root, &at.rel).map_err(|wrong| Error::io(&name.sent, wrong))?;
        Ok(Located::new(self, path, &*name.sent)?.below(name.base.clone()))
    }

    /// Claims a free name whose folders will differ from those on disk. The supervisor then answers for the outermost name that the
    /// plan changes, and the rest of the path counts as missing.
    fn claim_anyway(
        &self,
        call: &mut Call,
        name: &Located,
        intent: Intent,
        answer: Answer,
        foreseen: &Foreseen,
        at: &Name,
    ) -> Result<Claim> {
        let refused = match answer {
            Err(refused @ (Refusal::NotFound | Refusal::NotDirectory | Refusal::Escape)) => refused,
            answer => return self.claim_answered(call, name, intent, answer),
        };
        let is_changed =
            |above: &Name| !matches!(foreseen.view(above), View::Disk(on_disk) if on_disk == *above);
        let Some(above) = at.above().chain([at.clone()]).find(is_changed) else {
            return Err(refusal::error(self, name, refused));
        };
        let top = self.located(name, &above)?;
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
fn missing_folders(claim: &Claim, at: &Name, is_elsewhere: bool, foreseen: &Foreseen) -> Vec<Vec<u8>> {
    let above: Vec<Name> = at.above().collect();
    let on_disk = above.len().saturating_sub(claim.missing.len());
    let is_missing = |(index, folder): &(usize, Name)| match foreseen.view(folder) {
        View::Disk(from) | View::CopyOf(from) if is_elsewhere || from == *folder => *index >= on_disk,
        View::Disk(_) | View::CopyOf(_) | View::Made(_) => false,
        View::Absent | View::BelowFile => true,
    };
    above.into_iter().enumerate().filter(is_missing).map(|(_, folder)| folder.rel).collect()
}
