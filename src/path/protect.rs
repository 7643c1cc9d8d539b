//! Protect globs: names that clients can read but not change, because programs of the user (git, editors) run what these files
//! name. Tested like deny globs, but only for changes, so that reads cost nothing.

use std::sync::OnceLock;

use globset::{Candidate, GlobSet};
use serde::{Deserialize, Serialize};

use super::{
    fold,
    glob_list::{GlobsExcept, folded, folded_below, glob},
};

/// An exception applies to the name that it matches and everything below it, also inside a protected folder. The folder itself
/// stays protected: the service does not make it in order to create an excepted name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtectGlobs(
    GlobsExcept,
    /// For `rule_of_link`, made when first needed: the folders that patterns name before their last name, each with the
    /// number of its pattern.
    #[serde(skip)]
    OnceLock<(Option<GlobSet>, Vec<u32>)>,
);

impl ProtectGlobs {
    /// The error is the pattern and what is wrong with it.
    pub fn new(globs: &[String], except: &[String]) -> Result<Self, (String, String)> {
        GlobsExcept::new(globs, except).map(|globs| Self(globs, OnceLock::new()))
    }

    pub fn patterns(&self) -> &[String] {
        self.0.globs.patterns()
    }

    pub fn exceptions(&self) -> &[String] {
        self.0.except.patterns()
    }

    /// The number of the first pattern that protects the path, or a folder above it. The root itself never is protected.
    pub fn rule(&self, rel: &[u8]) -> Option<u32> {
        self.first(&fold::fold_path(rel))
    }

    /// Like `rule`, but also finds a pattern that protects all content of the folder. For a folder that is moved, deleted or
    /// replaced as a whole.
    pub fn rule_of_folder(&self, rel: &[u8]) -> Option<u32> {
        self.rule(rel).or_else(|| if rel.is_empty() { None } else { self.first(&folded_below(rel)) })
    }

    /// The same for a link that gets this name: also a pattern with this folder in it. What lies behind the link would then have
    /// a protected name, and could be changed under its own.
    pub fn rule_of_link(&self, rel: &[u8]) -> Option<u32> {
        let folded = fold::fold_path(rel);
        let behind = || {
            let (folders, rules) = self.1.get_or_init(|| folders_of(self.patterns()));
            // A list that could not be compiled may mean any name.
            let first_of = |folders: &GlobSet| {
                folders.matches_candidate(&Candidate::from_bytes(&folded)).first().copied()
            };
            let first = folders.as_ref().map_or(Some(0), first_of);
            first.filter(|_| self.0.excepted(&folded).is_none()).and_then(|index| rules.get(index).copied())
        };
        self.rule_of_folder(rel).or_else(behind)
    }

    fn first(&self, folded: &[u8]) -> Option<u32> {
        let globs = &self.0.globs;
        if !globs.hit(folded) || self.0.excepted(folded).is_some() {
            return None;
        }
        let first = globs.hits(folded).first().copied().unwrap_or_default();
        Some(u32::try_from(first).unwrap_or(u32::MAX))
    }
}

/// `**/.cargo/config*` → `**/.cargo`. Not `**`: what such a pattern names is protected wherever a link leads.
fn folders_of(patterns: &[String]) -> (Option<GlobSet>, Vec<u32>) {
    let (mut folders, mut rules) = (Vec::new(), Vec::new());
    for (rule, pattern) in (0u32..).zip(patterns) {
        for (slash, _) in pattern.match_indices('/') {
            let folder = &pattern[..slash];
            // Half of an alternative or of a class is no pattern.
            let glob = folded(folder).and_then(|folded| glob(&folded));
            if let Ok(glob) = glob
                && folder.split('/').any(|name| name != "**")
            {
                folders.push(glob);
                rules.push(rule);
            }
        }
    }
    (GlobSet::new(folders).ok(), rules)
}

#[cfg(test)]
#[path = "protect_tests.rs"]
mod tests;
