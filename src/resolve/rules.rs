//! The rules that a question has to pass besides the resolver's own. Runs in the supervisor, for every question of a worker, and in
//! `stockade policy explain`, which asks the same functions instead of predicting what they say. Pure.
//! Trusts: the profile. Does not trust: the worker, whose checks may have been talked away.

use super::LeafLinkRule;
use crate::{
    broker::{Intent, Question, Refusal},
    path::{Denied, Mode, Root, is_normalised},
};

impl LeafLinkRule {
    /// Decides by the intent of a question whether a link at the end of its path is followed.
    pub fn of(intent: Intent) -> Self {
        if matches!(intent, Intent::Read | Intent::Edit) { Self::Follow } else { Self::Keep }
    }
}

/// The path as sent. Needs no disk: the same answer whether the name exists or not.
pub fn check_question(denied: &Denied, root: &Root, question: &Question) -> Result<(), Refusal> {
    #[cfg(feature = "weakened")]
    if crate::sys::weakened::is_off(crate::sys::weakened::CHECKS) {
        return Ok(());
    }
    if !is_normalised(&question.path) {
        return Err(Refusal::Escape);
    }
    if denied.is_denied_at(question.root, &question.path) {
        return Err(Refusal::Denied);
    }
    check_root_names(denied, question, &question.path)?;
    let is_refused = question.intent.changes() && root.mode == Mode::Ro;
    #[cfg(feature = "weakened")]
    let is_refused = is_refused && !crate::sys::weakened::is_off(crate::sys::weakened::READ_ONLY);
    if is_refused {
        return Err(Refusal::ReadOnly);
    }
    check_unprotected(denied, question, &question.path)
}

/// The path that `follow` found: links may have led to other names. `follow` has tested the deny globs.
pub fn check_real_path(denied: &Denied, question: &Question, path: &[u8]) -> Result<(), Refusal> {
    check_root_names(denied, question, path)?;
    check_unprotected(denied, question, path)
}

/// No change may touch a name that protect globs let clients only read.
fn check_unprotected(denied: &Denied, question: &Question, path: &[u8]) -> Result<(), Refusal> {
    if !question.intent.changes() {
        return Ok(());
    }
    denied.protected_by(question.root, path).map_or(Ok(()), |rule| Err(Refusal::Protected(rule)))
}

/// Refuses a link that leads into an inner root, which has rules of its own, and a change of the name of a root.
fn check_root_names(denied: &Denied, question: &Question, path: &[u8]) -> Result<(), Refusal> {
    if denied.is_in_inner_root(question.root, path) {
        return Err(Refusal::Escape);
    }
    let is_name = question.intent.changes() && denied.is_root_name(question.root, path);
    if is_name { Err(Refusal::Denied) } else { Ok(()) }
}
