//! The outcome of an entry of a call that changes something, as the worker reports it. For the audit only: the supervisor takes
//! no decision from it.

use crate::terms::Code;

/// The outcome of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryOutcome {
    pub kind: OutcomeKind,
    pub paths: OutcomePaths,
    pub effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    Changed,
    /// It was as the entry wanted it.
    Unchanged,
    /// Everything was checked, nothing was changed.
    DryRun,
    /// `denied`: a rule of the policy refused it, although the client got the code of a missing file.
    Refused {
        code: Code,
        denied: bool,
    },
}

/// The absolute paths of an entry; as the client sent them if they could not be resolved to a root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutcomePaths {
    pub path: Vec<u8>,
    /// The other end of a move or copy.
    pub to: Option<Vec<u8>>,
}

/// Facts about the change that cost no extra work to collect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// Bytes written.
    pub bytes: Option<u64>,
    /// How many entries a folder had that was deleted or copied as a whole.
    pub entries: Option<u64>,
    pub etag_before: Option<String>,
    pub etag_after: Option<String>,
    /// The id in the trash, of a delete into it or a restore.
    pub trash_id: Option<String>,
}

impl EntryOutcome {
    pub fn refused(names: OutcomePaths, code: Code, denied: bool) -> Self {
        Self { kind: OutcomeKind::Refused { code, denied }, paths: names, effect: Effect::default() }
    }
}
