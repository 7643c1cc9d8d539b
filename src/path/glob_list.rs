//! Lists of globs that match paths below a root and ignore case. Pure. `DenyGlobs` and `ProtectGlobs` define what a match
//! means.
//!
//! globset's dialect with its defaults: `*` and `?` cross `/`, `?` is one byte of a character that is not ASCII.

use globset::{Candidate, Glob, GlobSet};
use serde::{Deserialize, Serialize};

use super::fold;

/// Compiled once per policy. Sent to the worker as the list of its patterns.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub(super) struct GlobList {
    pub(super) patterns: Vec<String>,
    /// Two for each pattern: itself, and everything below what it names.
    pub(super) folded: GlobSet,
}

/// Globs, and the globs of their exceptions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GlobsExcept {
    pub(super) globs: GlobList,
    pub(super) except: GlobList,
}

impl GlobList {
    /// The error is the pattern and what is wrong with it.
    pub(super) fn new(patterns: &[String]) -> Result<Self, (String, String)> {
        let mut globs = Vec::with_capacity(2 * patterns.len());
        for pattern in patterns {
            globs.extend(compile(pattern).map_err(|error| (pattern.clone(), error))?);
        }
        // Each pattern compiled alone; together they may still be too big for the regex engine.
        let folded = GlobSet::new(globs).map_err(|error| (patterns.join(", "), error.kind().to_string()))?;
        Ok(Self { patterns: patterns.to_vec(), folded })
    }

    /// By number, the patterns that name this folded path or a folder above it.
    pub(super) fn hits(&self, folded: &[u8]) -> Vec<usize> {
        let matches = self.folded.matches_candidate(&Candidate::from_bytes(folded));
        matches.into_iter().map(|index| index / 2).collect()
    }

    /// Whether any pattern names this folded path or a folder above it. The root itself is never named.
    // One pass over the path: testing every ancestor separately took quadratic time, so a client that asks for paths of two
    // thousand components could have delayed all others.
    pub(super) fn hit(&self, folded: &[u8]) -> bool {
        !folded.is_empty() && self.folded.is_match_candidate(&Candidate::from_bytes(folded))
    }
}

impl GlobsExcept {
    pub(super) fn new(globs: &[String], except: &[String]) -> Result<Self, (String, String)> {
        Ok(Self { globs: GlobList::new(globs)?, except: GlobList::new(except)? })
    }

    /// The end of the shortest prefix of a folded path that an exception matches. Everything below that prefix is excepted.
    pub(super) fn excepted(&self, folded: &[u8]) -> Option<usize> {
        if !self.except.hit(folded) {
            return None;
        }
        // An exception that matches a folder matches everything below it, so binary search works: eleven tests for a path of two
        // thousand components.
        let ends: Vec<usize> = memchr::memchr_iter(b'/', folded).chain([folded.len()]).collect();
        let first = ends.partition_point(|end| !self.except.hit(&folded[..*end]));
        ends.get(first).copied()
    }
}

/// The folded path of a folder with a final `/`, which `X/**` and `X/*` match.
pub(super) fn folded_below(rel: &[u8]) -> Vec<u8> {
    let mut below = fold::fold_path(rel).into_owned();
    below.push(b'/');
    below
}

fn compile(pattern: &str) -> Result<[Glob; 2], String> {
    // Such a pattern is valid but can never match, so the operator would believe that names are denied which are not.
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

impl TryFrom<Vec<String>> for GlobList {
    type Error = String;

    fn try_from(patterns: Vec<String>) -> Result<Self, String> {
        Self::new(&patterns).map_err(|(pattern, error)| format!("{pattern}: {error}"))
    }
}

impl From<GlobList> for Vec<String> {
    fn from(globs: GlobList) -> Self {
        globs.patterns
    }
}
