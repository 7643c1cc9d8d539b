//! Deny globs. An application-level layer, tested lexically before any kernel resolution: by the supervisor on every
//! question, by the worker on every entry of a walk.
//!
//! globset's dialect with its defaults: `*` and `?` cross `/`, `?` is one byte of a character that is not ASCII.

use globset::{Candidate, Glob, GlobSet};
use serde::{Deserialize, Serialize};

use super::{PRIVATE_DIGITS, PRIVATE_FOLDER, fold};

/// Compiled once per policy; crosses to the worker as its patterns.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct DenyGlobs {
    patterns: Vec<String>,
    /// Two for each pattern: itself, and everything below what it names.
    folded: GlobSet,
}

impl DenyGlobs {
    /// The error is the pattern and what is wrong with it.
    pub fn new(patterns: &[String]) -> Result<Self, (String, String)> {
        let mut globs = Vec::with_capacity(2 * patterns.len());
        for pattern in patterns {
            globs.extend(compile(pattern).map_err(|error| (pattern.clone(), error))?);
        }
        // Each pattern compiled alone; together they may still be too big for the regex engine.
        let folded = GlobSet::new(globs).map_err(|error| (patterns.join(", "), error.kind().to_string()))?;
        Ok(Self { patterns: patterns.to_vec(), folded })
    }

    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The path or any folder above it is denied. The root itself never is.
    // One pass over the path: testing every ancestor by itself took quadratic time, and a client that asks for paths of
    // two thousand components would have kept the supervisor from everybody else.
    pub fn matches(&self, rel: &[u8]) -> bool {
        let path = fold::fold_path(rel);
        is_private(&path) || self.hit(&path)
    }

    /// The folder is denied as operand of move, copy or delete: `X/**` hides everything below `X`, and a renamed
    /// `X` would show it.
    pub fn covers_folder(&self, rel: &[u8]) -> bool {
        if self.matches(rel) {
            return true;
        }
        // What every name below the folder begins with; `X/**` and `X/*` match it.
        let mut below = fold::fold_path(rel).into_owned();
        below.push(b'/');
        !rel.is_empty() && self.hit(&below)
    }

    /// The pattern that decides about this path, for `policy explain`.
    pub fn deciding(&self, rel: &[u8]) -> Option<&str> {
        if is_private(&fold::fold_path(rel)) {
            return Some(PRIVATE_FOLDER);
        }
        self.matching(rel, false).next().map(|index| self.patterns[index].as_str())
    }

    /// Which patterns, by number, cover this name; of a folder also those that cover only what is in it.
    pub fn matching(&self, rel: &[u8], is_folder: bool) -> impl Iterator<Item = usize> {
        let mut path = fold::fold_path(rel).into_owned();
        let mut found = if path.is_empty() { Vec::new() } else { self.hits(&path) };
        if is_folder {
            path.push(b'/');
            found.extend(self.hits(&path));
        }
        found.into_iter()
    }

    fn hits(&self, folded: &[u8]) -> Vec<usize> {
        let matches = self.folded.matches_candidate(&Candidate::from_bytes(folded));
        matches.into_iter().map(|index| index / 2).collect()
    }

    fn hit(&self, folded: &[u8]) -> bool {
        !folded.is_empty() && self.folded.is_match_candidate(&Candidate::from_bytes(folded))
    }
}

fn compile(pattern: &str) -> Result<[Glob; 2], String> {
    // Such a pattern would be valid and match nothing, ever: a hole that looks like a lock.
    if pattern.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err("patterns are relative to a root: no leading, trailing or double `/`, no `.` or `..` \
                    (a pattern that names a folder covers everything below it)"
            .into());
    }
    Glob::new(pattern).map_err(|error| error.kind().to_string())?;
    let folded = fold::fold_pattern(pattern)?;
    let glob = |pattern: &str| Glob::new(pattern).map_err(|error| error.kind().to_string());
    Ok([glob(&folded)?, glob(&format!("{folded}/**"))?])
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

impl TryFrom<Vec<String>> for DenyGlobs {
    type Error = String;

    fn try_from(patterns: Vec<String>) -> Result<Self, String> {
        Self::new(&patterns).map_err(|(pattern, error)| format!("{pattern}: {error}"))
    }
}

impl From<DenyGlobs> for Vec<String> {
    fn from(globs: DenyGlobs) -> Self {
        globs.patterns
    }
}

#[cfg(test)]
#[path = "deny_tests.rs"]
mod tests;
