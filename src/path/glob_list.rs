//! Lists of globs that match paths below a root and ignore case. Pure. `DenyGlobs` and `ProtectGlobs` define what a match
//! means.
//!
//! globset's dialect with its defaults: `*` and `?` cross `/`, `?` is one byte of a character that is not ASCII.

use globset::{Candidate, Glob, GlobSet};
use serde::{Deserialize, Serialize};

use super::{
    fold,
    plain_glob::{PlainGlob, names},
};

/// Compiled once per policy. Sent to the worker as the list of its patterns.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub(super) struct GlobList {
    pub(super) patterns: Vec<String>,
    /// The patterns that need no regex, each with its number.
    plain: Vec<(usize, PlainGlob)>,
    /// Two for each other pattern: itself, and everything below what it names.
    others: GlobSet,
    /// The numbers of these patterns.
    other_numbers: Vec<usize>,
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
        let (mut plain, mut others, mut other_numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, pattern) in patterns.iter().enumerate() {
            let wrong = |error| (pattern.clone(), error);
            let folded = folded(pattern).map_err(wrong)?;
            if let Some(glob) = PlainGlob::new(&folded) {
                plain.push((number, glob));
                continue;
            }
            for pattern in [&folded, &format!("{folded}/**")] {
                others.push(glob(pattern).map_err(wrong)?);
            }
            other_numbers.push(number);
        }
        // Each pattern compiled alone; together they may still be too big for the regex engine.
        let others = GlobSet::new(others).map_err(|error| (patterns.join(", "), error.kind().to_string()))?;
        Ok(Self { patterns: patterns.to_vec(), plain, others, other_numbers })
    }

    /// By number, the patterns that name this folded path or a folder above it. The lowest number comes first.
    pub(super) fn hits(&self, folded: &[u8]) -> Vec<usize> {
        let others = self.others.matches_candidate(&Candidate::from_bytes(folded)).into_iter();
        let others = others.map(|index| self.other_numbers[index / 2]);
        let mut numbers: Vec<usize> = self.plain_hits(folded).chain(others).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether any pattern names this folded path or a folder above it. The root itself is never named.
    // One pass over the path: testing every ancestor separately took quadratic time, so a client that asks for paths of two
    // thousand components could have delayed all others.
    pub(super) fn hit(&self, folded: &[u8]) -> bool {
        let is_other = || self.others.is_match_candidate(&Candidate::from_bytes(folded));
        !folded.is_empty() && (self.plain_hits(folded).next().is_some() || is_other())
    }

    fn plain_hits(&self, folded: &[u8]) -> impl Iterator<Item = usize> {
        let plain = self.plain.iter();
        names(folded).flat_map(move |name| {
            plain.clone().filter(move |(_, glob)| glob.hits(folded, &name)).map(|(number, _)| *number)
        })
    }
}

impl GlobsExcept {
    pub(super) fn new(globs: &[String], except: &[String]) -> Result<Self, (String, String)> {
        Ok(Self { globs: GlobList::new(globs)?, except: GlobList::new(except)? })
    }

    /// The end of the shortest prefix of a folded path that an exception matches. Everything below that prefix is excepted.
    pub(super) fn excepted_end(&self, folded: &[u8]) -> Option<usize> {
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

/// A valid pattern, for folded paths.
pub(super) fn folded(pattern: &str) -> Result<String, String> {
    // Such a pattern is valid but can never match, so the operator would believe that names are denied which are not.
    if pattern.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err("patterns are relative to a root: no leading, trailing or double `/`, no `.` or `..` \
                    (a pattern that names a folder covers everything below it)"
            .into());
    }
    glob(pattern)?;
    fold::fold_pattern(pattern)
}

pub(super) fn glob(pattern: &str) -> Result<Glob, String> {
    Glob::new(pattern).map_err(|error| error.kind().to_string())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::fold_path;

    /// globset's own answer, with a regex for every pattern: which ones name the path or a folder above it.
    fn oracle(patterns: &[String], path: &[u8]) -> Vec<usize> {
        let is_hit = |(_, pattern): &(usize, &String)| {
            let folded = folded(pattern).unwrap();
            let set = GlobSet::new([glob(&folded).unwrap(), glob(&format!("{folded}/**")).unwrap()]).unwrap();
            set.is_match_candidate(&Candidate::from_bytes(path))
        };
        patterns.iter().enumerate().filter(is_hit).map(|(number, _)| number).collect()
    }

    /// Few letters, so that many patterns match. ſ and the Kelvin sign fold to letters of ASCII. No `.` or `..`: no checked path
    /// has such a name.
    const PATH: &str = "[aAbké.\u{212a}ſ]{0,2}[abKÉs](/[aAbké.\u{212a}ſ]{0,2}[abKÉs]){0,4}/?";
    const PATTERN: &str = "(\\*\\*/|\\*)?\\*?[aAbBkKéÉ.sS]{0,2}(/[aAb.]{1,2}|/\\*|[?]|\\[ab\\]|[{]a,b[}]|\\*)?[a.s]{0,2}(\\*|/\\*\\*|/\\*)?";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_list_decides_what_globset_decides(
            patterns in proptest::collection::vec(PATTERN, 1..5),
            path in PATH,
        ) {
            let valid = |pattern: &String| GlobList::new(std::slice::from_ref(pattern)).is_ok();
            let patterns: Vec<String> = patterns.into_iter().filter(valid).collect();
            let list = GlobList::new(&patterns).unwrap();
            let folded = fold_path(path.as_bytes());
            let hits = oracle(&patterns, &folded);
            prop_assert_eq!(list.hit(&folded), !hits.is_empty(), "{:?} {}", patterns, path);
            let mut found = list.hits(&folded);
            found.dedup();
            prop_assert_eq!(found, hits, "{:?} {}", patterns, path);
        }
    }

    /// Each compiled regex makes every process of the service larger.
    #[cfg(feature = "policy")]
    #[test]
    fn no_default_glob_needs_a_regex() {
        let crate::policy::Policy { deny, protect, .. } = crate::policy::Policy::embedded(&[]);
        let patterns = [deny.non_accessible_globs, deny.except_globs, protect.read_only_globs].concat();
        assert!(patterns.len() >= 40);
        assert!(GlobList::new(&patterns).unwrap().others.is_empty());
    }

    #[test]
    fn patterns_of_other_forms_are_left_to_globset() {
        for pattern in ["*a*", "**/*a*", "a*b", "**/a?", "[ab]", "{a,b}", "a\\b", "**", "*", "**/*", "a/**/b"] {
            assert!(PlainGlob::new(pattern).is_none(), "{pattern}");
        }
    }
}
