//! Runs in the worker: refuses changes of names that protect globs let clients only read. Trusts the policy's globs. The supervisor
//! refuses the same names again, but it never sees the entries of a folder that is moved, copied, deleted or restored as a whole:
//! only this code protects those.

use super::super::{Call, Claim, Jail, Located, refusal};
use crate::{
    broker::Intent,
    path::{JailPath, Mode},
    wire::{Code, Error, Result},
};

/// Only test builds can switch the worker's own check off.
fn is_off() -> bool {
    #[cfg(feature = "weakened")]
    return crate::sys::weakened::is_off(crate::sys::weakened::WORKER_GLOBS);
    #[cfg(not(feature = "weakened"))]
    false
}

impl Jail {
    /// The glob that protects a path, as the policy writes it.
    pub(in crate::jail) fn protected_by(&self, path: &JailPath) -> Option<&str> {
        let rule = if is_off() { None } else { self.denied.protected_by(path.root(), path.rel()) };
        rule.map(|rule| self.protect_glob(rule))
    }

    /// The glob with this number, which may come from the supervisor.
    pub(in crate::jail) fn protect_glob(&self, rule: u32) -> &str {
        self.denied.protect().patterns().get(rule as usize).map_or("?", String::as_str)
    }

    /// C221 for a name that may only be read and is to be changed. Asks nothing of the disk. A root that is read-only as a
    /// whole is refused later, with its own text.
    pub fn check_unprotected(&self, call: &Call, name: &Located, intent: Intent) -> Result<()> {
        if !intent.changes() || self.roots.root(&name.path).mode == Mode::Ro {
            return Ok(());
        }
        match self.protected_by(&name.path) {
            Some(rule) => Err(self.protected_error(call, name, rule)),
            None => Ok(()),
        }
    }

    /// Like `check_unprotected`, for a folder that is changed as a whole: also C221 if all its content is protected.
    pub(in crate::jail) fn check_unprotected_operand(
        &self,
        call: &Call,
        name: &Located,
        path: &JailPath,
    ) -> Result<()> {
        if is_off() || self.roots.root(path).mode == Mode::Ro {
            return Ok(());
        }
        match self.denied.operand_protected_by(path) {
            Some(rule) => Err(self.protected_error(call, name, self.protect_glob(rule))),
            None => Ok(()),
        }
    }

    /// C221 for the new name of a link if a glob protects something below that name: the link would lead there.
    pub fn check_new_link(&self, call: &Call, name: &Located, to: &JailPath) -> Result<()> {
        match self.denied.link_protected_by(to).filter(|_| !is_off()) {
            Some(rule) => {
                self.broker.report_refusal(call.caller(), Code::ReadOnly, name.sent.as_bytes());
                Err(refusal::protected_behind_link(&name.sent, self.protect_glob(rule)))
            }
            None => Ok(()),
        }
    }

    fn protected_error(&self, call: &Call, name: &Located, rule: &str) -> Error {
        self.broker.report_refusal(call.caller(), Code::ReadOnly, name.sent.as_bytes());
        refusal::protected(&name.sent, rule)
    }
}

impl Claim {
    /// C221 if a folder that would have to be made for the name is protected, which happens where the name itself is an
    /// exception.
    pub(in crate::jail) fn check_parents_unprotected(&self, jail: &Jail) -> Result<()> {
        for folder in &self.folders_to_make {
            let path = jail.roots.check(self.real_path.root(), folder);
            let path = path.map_err(|wrong| Error::io(&self.name.sent, wrong))?;
            if let Some(rule) = jail.protected_by(&path) {
                let folder = String::from_utf8_lossy(folder);
                return Err(refusal::needs_protected(&self.name.sent, &folder, rule));
            }
        }
        Ok(())
    }
}
