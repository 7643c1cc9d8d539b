//! Outcomes in a message. Each optional part has a bit in front.

use super::{MAX_MESSAGE, Malformed, Reader};
use crate::{
    broker::{Became, Effect, Names, Outcome},
    terms::Code,
};

/// Bytes of an etag or of an id in the trash.
pub const MAX_WORD_BYTES: usize = 128;

pub(super) const CHANGED: u8 = 0;
pub(super) const UNCHANGED: u8 = 1;
pub(super) const DRY_RUN: u8 = 2;
pub(super) const REFUSED: u8 = 3;

impl Reader<'_> {
    pub(super) fn outcome(&mut self) -> Result<Outcome, Malformed> {
        let became = match self.u8()? {
            CHANGED => Became::Changed,
            UNCHANGED => Became::Unchanged,
            DRY_RUN => Became::DryRun,
            REFUSED => {
                let byte = self.u8()?;
                let code = Code::ALL.into_iter().find(|code| *code as u8 == byte).ok_or(Malformed)?;
                Became::Refused { code, denied: self.bool()? }
            }
            _ => return Err(Malformed),
        };
        let path = self.bytes(MAX_MESSAGE)?.to_vec();
        let to = self.part(|input| Ok(input.bytes(MAX_MESSAGE)?.to_vec()))?;
        let effect = Effect {
            bytes: self.part(Self::u64)?,
            entries: self.part(Self::u64)?,
            etag_before: self.part(|input| input.text(MAX_WORD_BYTES))?,
            etag_after: self.part(|input| input.text(MAX_WORD_BYTES))?,
            trash_id: self.part(|input| input.text(MAX_WORD_BYTES))?,
        };
        Ok(Outcome { became, names: Names { path, to }, effect })
    }

    fn part<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }
}
