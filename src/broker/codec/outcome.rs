//! Outcomes in a message. Each optional part has a bit in front.

use super::{MAX_MESSAGE_BYTES, Malformed, MessageReader};
use crate::{
    broker::{Effect, EntryOutcome, OutcomeKind, OutcomePaths},
    terms::Code,
};

/// Bytes of an etag or of an id in the trash.
pub const MAX_ETAG_OR_ID_BYTES: usize = 128;

pub(super) const CHANGED: u8 = 0;
pub(super) const UNCHANGED: u8 = 1;
pub(super) const DRY_RUN: u8 = 2;
pub(super) const REFUSED: u8 = 3;

impl MessageReader<'_> {
    pub(super) fn read_outcome(&mut self) -> Result<EntryOutcome, Malformed> {
        let became = match self.u8()? {
            CHANGED => OutcomeKind::Changed,
            UNCHANGED => OutcomeKind::Unchanged,
            DRY_RUN => OutcomeKind::DryRun,
            REFUSED => {
                let byte = self.u8()?;
                let code = Code::ALL.into_iter().find(|code| *code as u8 == byte).ok_or(Malformed)?;
                OutcomeKind::Refused { code, denied: self.bool()? }
            }
            _ => return Err(Malformed),
        };
        let path = self.bytes(MAX_MESSAGE_BYTES)?.to_vec();
        let to = self.read_optional(|input| Ok(input.bytes(MAX_MESSAGE_BYTES)?.to_vec()))?;
        let effect = Effect {
            bytes: self.read_optional(Self::u64)?,
            entries: self.read_optional(Self::u64)?,
            etag_before: self.read_optional(|input| input.text(MAX_ETAG_OR_ID_BYTES))?,
            etag_after: self.read_optional(|input| input.text(MAX_ETAG_OR_ID_BYTES))?,
            trash_id: self.read_optional(|input| input.text(MAX_ETAG_OR_ID_BYTES))?,
        };
        Ok(EntryOutcome { kind: became, paths: OutcomePaths { path, to }, effect })
    }

    fn read_optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }
}
