//! Runs in the worker: `Located`, the type of a path that was checked by its text. Trusts the rules of the set-up, and no name.
//! Pure: no disk.

use std::ops::Deref;

use super::Jail;
use crate::{
    broker::{Intent, Question},
    path::JailPath,
    wire::{Error, Result},
};

/// A path that is lexically inside a root and not denied, with the text that the caller sent, for errors. Only `new` makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located(Parts);

/// The fields of a `Located`, for reading: only this module can make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    pub path: JailPath,
    pub sent: String,
    /// Real path of the call's `base_dir`, in a root that follows links; no link may lead out of it. None elsewhere: there
    /// the path as sent was already checked.
    pub(super) base: Option<JailPath>,
}

impl Located {
    /// C211 if the path is denied. Tested before any system call on the path, so that the answer for a denied name cannot depend on
    /// whether it exists.
    pub fn new(jail: &Jail, path: JailPath, sent: impl Into<String>) -> Result<Self> {
        let sent = sent.into();
        let is_denied = jail.denied.is_denied(&path);
        #[cfg(feature = "weakened")]
        let is_denied = is_denied && !crate::sys::weakened::is_off(crate::sys::weakened::WORKER_GLOBS);
        if is_denied {
            return Err(Error::denied(&sent));
        }
        Ok(Self(Parts { path, sent, base: None }))
    }

    /// The same name with the rule that no link may lead out of `base`.
    pub(super) fn within_base(self, base: Option<JailPath>) -> Self {
        Self(Parts { base, ..self.0 })
    }

    pub(super) fn into_sent(self) -> String {
        self.0.sent
    }

    pub fn question(&self, intent: Intent) -> Question {
        Question { root: self.path.root(), path: self.path.rel().to_vec(), intent }
    }
}

impl Deref for Located {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
