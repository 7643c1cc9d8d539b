//! Runs in the worker: default excludes, names that walks leave out because they are rarely wanted. Pure. Protects nothing: clients
//! can read every excluded name.

use globset::{Glob, GlobSet};

use crate::{path::JailPath, text::name_globs::NameGlobs};

/// The syntax of globset with its defaults, as for deny globs, but case-sensitive: a name that is missed here does no harm.
#[derive(Debug)]
pub struct Excludes {
    /// The globs that a name alone decides, for walks.
    quick: NameGlobs,
    names: GlobSet,
    /// The globs of `names` and, for `X/**`, the folder `X` itself, which then need not be opened.
    folders: GlobSet,
}

impl Excludes {
    /// The policy has already checked each pattern. A pattern that cannot be compiled excludes nothing.
    pub(in crate::jail) fn new(patterns: &[String]) -> Self {
        let set = |patterns: &[&str]| {
            GlobSet::new(patterns.iter().filter_map(|pattern| Glob::new(pattern).ok())).unwrap_or_default()
        };
        let names: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let stripped = names.iter().filter_map(|pattern| pattern.strip_suffix("/**"));
        let folders: Vec<&str> = names.iter().copied().chain(stripped).collect();
        let quick = NameGlobs::new(names.iter().copied());
        Self { quick, names: set(&names), folders: set(&folders) }
    }

    /// Like `has_name`, but faster. Only for an entry whose folders were all tested before.
    pub(in crate::jail) fn has_walked_name(&self, name: &[u8], path: &[u8]) -> bool {
        self.quick.has_name(name) || (!self.quick.others().is_empty() && matches(&self.names, path))
    }

    /// Like `has_folder`, but faster. Only for a folder whose parent folders were all tested before.
    pub(in crate::jail) fn has_walked_folder(&self, name: &[u8], path: &[u8]) -> bool {
        self.quick.has_name(name)
            || self.quick.has_folder(name)
            || (!self.quick.others().is_empty() && matches(&self.folders, path))
    }

    /// For anything but a folder. A file with the name of an excluded folder is not excluded.
    pub fn has_name(&self, path: &JailPath) -> bool {
        hits(&self.names, path)
    }

    pub fn has_folder(&self, path: &JailPath) -> bool {
        hits(&self.folders, path)
    }
}

/// A root itself is never excluded: the operator chose its name.
fn hits(set: &GlobSet, path: &JailPath) -> bool {
    !path.is_root() && matches(set, path.rel())
}

fn matches(set: &GlobSet, path: &[u8]) -> bool {
    set.is_match_candidate(&globset::Candidate::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jail::testing::TestJail;

    fn of(patterns: &[&str]) -> impl Fn(&str) -> (bool, bool) {
        let excludes = Excludes::new(&patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>());
        let test = TestJail::new();
        move |path| {
            let path = test.jail.roots().check(0, path.as_bytes()).unwrap();
            (excludes.has_name(&path), excludes.has_folder(&path))
        }
    }

    #[test]
    fn a_folder_is_excluded_with_what_it_holds_and_a_file_of_its_name_is_not() {
        let excludes = of(&["**/target/**"]);
        assert_eq!(excludes("target"), (false, true));
        assert_eq!(excludes("a/b/target"), (false, true));
        assert_eq!(excludes("a/target/x"), (true, true));
        assert_eq!(excludes("targets"), (false, false));
        assert_eq!(excludes("Target"), (false, false), "case-sensitive");
    }

    #[test]
    fn patterns_without_a_folder_exclude_both_kinds() {
        let excludes = of(&["**/*.pyc"]);
        assert_eq!(excludes("a/b.pyc"), (true, true));
        assert_eq!(excludes("a/b.py"), (false, false));
    }

    #[test]
    fn a_root_is_never_excluded_and_no_pattern_excludes_nothing() {
        assert_eq!(of(&["**", "**/**"])(""), (false, false));
        assert_eq!(of(&[])("target"), (false, false));
    }
}
