//! Deny globs. An application-level layer, tested lexically before any kernel resolution: by the supervisor on every
//! question, by the worker on every entry of a walk.

use serde::{Deserialize, Serialize};

use super::{
    PRIVATE_DIGITS, PRIVATE_FOLDER, fold,
    glob_list::{GlobsExcept, folded_below},
};

/// An exception applies to the name that it matches and everything below it, but never below a folder that is denied or whose
/// whole content is denied: such a glob means the folder as a whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DenyGlobs(pub(super) GlobsExcept);

impl DenyGlobs {
    /// The error is the pattern and what is wrong with it.
    pub fn new(globs: &[String], except: &[String]) -> Result<Self, (String, String)> {
        GlobsExcept::new(globs, except).map(Self)
    }

    /// The path or any folder above it is denied. The root itself never is.
    pub fn matches(&self, rel: &[u8]) -> bool {
        let path = fold::fold_path(rel);
        is_private(&path) || self.hit(&path)
    }

    pub(super) fn hit(&self, folded: &[u8]) -> bool {
        let globs = &self.0.globs;
        if !globs.hit(folded) {
            return false;
        }
        let Some(end) = self.0.excepted_end(folded) else { return true };
        let parent = memchr::memrchr(b'/', &folded[..end]).map_or(&[][..], |slash| &folded[..slash]);
        globs.hit(parent) || (!parent.is_empty() && globs.hit(&folded_below(parent)))
    }
}

/// Whether a name at the top of a root is reserved for the service's state: `.stockade`, and `.stockade-` followed by 16 hex
/// digits, whoever made it.
pub fn is_private_name(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && is_private(&fold::fold_path(name))
}

/// Whether a folded path is such a name, or lies below one.
pub(super) fn is_private(folded: &[u8]) -> bool {
    let Some(rest) = folded.strip_prefix(PRIVATE_FOLDER.as_bytes()) else { return false };
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    match &rest[..end] {
        [] => true,
        [b'-', digits @ ..] => digits.len() == PRIVATE_DIGITS && digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    }
}

#[cfg(test)]
#[path = "deny_tests.rs"]
mod tests;
