//! Protect globs: names that clients can read but not change, because programs of the user (git, editors) run what these files
//! name. Tested like deny globs, but only for changes, so that reads cost nothing.

use std::sync::OnceLock;

use globset::GlobSet;
use serde::{Deserialize, Serialize};

use super::{fold, glob_list::GlobsExcept};

/// An exception applies to the name that it matches and everything below it, also inside a protected folder. The folder itself
/// stays protected: the service does not make it in order to create an excepted name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtectGlobs(
    pub(super) GlobsExcept,
    /// For `rule_of_link`, made when first needed: the folders that patterns name before their last name, each with the
    /// number of its pattern.
    #[serde(skip)]
    pub(super) OnceLock<(Option<GlobSet>, Vec<u32>)>,
);

impl ProtectGlobs {
    /// The error is the pattern and what is wrong with it.
    pub fn new(globs: &[String], except: &[String]) -> Result<Self, (String, String)> {
        GlobsExcept::new(globs, except).map(|globs| Self(globs, OnceLock::new()))
    }

    /// The number of the first pattern that protects the path, or a folder above it. The root itself never is protected.
    pub fn rule(&self, rel: &[u8]) -> Option<u32> {
        self.first(&fold::fold_path(rel))
    }

    pub(super) fn first(&self, folded: &[u8]) -> Option<u32> {
        let globs = &self.0.globs;
        if !globs.hit(folded) || self.0.excepted_end(folded).is_some() {
            return None;
        }
        let first = globs.hits(folded).first().copied().unwrap_or_default();
        Some(u32::try_from(first).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
#[path = "protect_tests.rs"]
mod tests;
