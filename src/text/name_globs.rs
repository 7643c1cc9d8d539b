//! Which globs can be decided by an entry's name alone. A walk asks about every entry it meets; the path and the regex
//! behind a general glob would cost more than the listing itself.
//!
//! Only shapes for which the name decides *exactly* what the whole glob would, given that no folder above is a hit:
//! `**/NAME`, `**/START*`, `**/*END`, `*END` and `**/FOLDER/**`, all of plain characters. In globset's dialect a star crosses
//! slashes, so `**/a*b` is not among them: it hits `a/b`, where neither name is.

use std::collections::HashSet;

#[derive(Debug, Default)]
pub struct NameGlobs {
    names: NameSet,
    starts: Vec<Box<[u8]>>,
    ends: Vec<Box<[u8]>>,
    folders: NameSet,
    /// Globs of other shapes: only the path decides.
    others: Vec<String>,
}

/// Most names are not in it, and nearly all of those have a length that none in it has.
#[derive(Debug, Default)]
struct NameSet {
    /// Bit n: one has n bytes, or so many more that it leaves the same rest.
    lengths: u64,
    names: HashSet<Box<[u8]>>,
}

impl NameSet {
    fn length_bit(name: &[u8]) -> u64 {
        1 << (name.len() % 64)
    }

    fn insert(&mut self, name: Box<[u8]>) {
        self.lengths |= Self::length_bit(&name);
        self.names.insert(name);
    }

    fn contains(&self, name: &[u8]) -> bool {
        self.lengths & Self::length_bit(name) != 0 && self.names.contains(name)
    }
}

impl NameGlobs {
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sorted = Self::default();
        globs.into_iter().for_each(|glob| sorted.add(glob));
        sorted
    }

    fn add(&mut self, glob: &str) {
        let owned = |text: &str| Box::from(text.as_bytes());
        match glob.strip_prefix("**/") {
            Some(name) if is_plain(name) => self.names.insert(owned(name)),
            Some(rest) => match (rest.strip_suffix("/**"), rest.strip_suffix('*'), rest.strip_prefix('*')) {
                (Some(folder), ..) if is_plain(folder) => self.folders.insert(owned(folder)),
                (_, Some(start), _) if is_plain(start) => self.starts.push(owned(start)),
                (.., Some(end)) if is_plain(end) => self.ends.push(owned(end)),
                _ => self.others.push(glob.to_owned()),
            },
            // A star crosses slashes: any path with this end, and the end is in its last name.
            None => match glob.strip_prefix('*') {
                Some(end) if is_plain(end) => self.ends.push(owned(end)),
                _ => self.others.push(glob.to_owned()),
            },
        }
    }

    /// Whether some globs need the whole path, because the name alone does not decide. For callers that do not walk from the
    /// top down.
    pub fn needs_path(&self) -> bool {
        !self.others.is_empty() || !self.folders.names.is_empty()
    }

    /// Whether an entry of this name matches in every folder.
    pub fn has_name(&self, name: &[u8]) -> bool {
        // The byte first: it decides nearly always, without a call.
        self.names.contains(name)
            || self.starts.iter().any(|start| name.first() == start.first() && name.starts_with(start))
            || self.ends.iter().any(|end| name.last() == end.last() && name.ends_with(end))
    }

    /// True if the globs match everything inside a folder of this name, but not the folder itself.
    pub fn has_folder(&self, name: &[u8]) -> bool {
        self.folders.contains(name)
    }

    /// Globs that have to be tested with the whole path.
    pub fn others(&self) -> &[String] {
        &self.others
    }
}

/// Whether a part of a glob means exactly one name.
pub fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '/', '!'])
}

#[cfg(test)]
mod tests {
    use globset::{Glob, GlobSet};
    use proptest::prelude::*;

    use super::*;

    /// Asks like a walk: from the top down, and not below a match.
    fn hits(globs: &NameGlobs, path: &str) -> bool {
        let mut above: Option<&str> = None;
        for name in path.split('/') {
            if above.is_some_and(|folder| globs.has_folder(folder.as_bytes())) || globs.has_name(name.as_bytes()) {
                return true;
            }
            above = Some(name);
        }
        false
    }

    proptest! {
        #[test]
        fn names_decide_what_the_globs_decide(
            globs in proptest::collection::vec("\\*\\*/[ab.]{0,2}[*]?[ab.]{0,2}(/\\*\\*)?|[ab*/]{1,4}", 1..4),
            path in "[ab][ab.]{0,2}(/[ab][ab.]{0,2}){0,3}",
        ) {
            let sorted = NameGlobs::new(globs.iter().map(String::as_str));
            let simple: Vec<_> = globs.iter().filter(|glob| !sorted.others().contains(glob)).collect();
            let set = GlobSet::new(simple.iter().filter_map(|glob| Glob::new(glob).ok())).unwrap();
            // The path, or a folder above it, as deny and exclude globs have it.
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            let expected = ends.into_iter().any(|end| set.is_match(&path[..end]));
            prop_assert_eq!(hits(&sorted, &path), expected, "{:?} {}", simple, path);
        }
    }

    #[test]
    fn the_usual_globs_need_no_path() {
        let usual = ["**/.env", "**/.env.*", "**/*.pem", "**/secrets/**"];
        let globs = NameGlobs::new(usual);
        assert!(globs.others().is_empty());
        assert!(globs.has_name(b".env") && globs.has_name(b".env.local") && globs.has_name(b"a.pem"));
        assert!(globs.has_folder(b"secrets") && !globs.has_name(b"secrets"));
    }

    #[test]
    fn shapes_that_reach_over_slashes_are_left_to_the_path() {
        for glob in ["**/a*b", "*.r?", "a/**", "**/[ab]", "**/a/b", "**/{a,b}", "**", "**/*", "**/a\\b"] {
            assert_eq!(NameGlobs::new([glob]).others(), [glob]);
        }
    }
}
