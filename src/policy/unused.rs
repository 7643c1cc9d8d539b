//! Finds deny globs that match nothing: the operator may have misspelt them and rely on them.
//!
//! Runs in `stockade policy check`, never in the supervisor. Does not trust what is on disk: reads names only, follows no
//! link, enters no other file system, and stops at a bound.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{DEFAULT, Policy, PreparedRoot};
use crate::{
    path::{DenyGlobs, is_private_name},
    sys::{file, host::HostFileKind},
};

/// How much is looked at before the answer is "unknown".
#[derive(Debug, Clone, Copy)]
pub struct SearchBound {
    pub names: usize,
    pub time: Duration,
}

/// The operator's deny globs that matched nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusedGlobs {
    /// Every name was compared; these globs matched none.
    Known(Vec<String>),
    /// Not every name was compared; these globs matched none of those that were.
    Unknown(Vec<String>),
}

impl Policy {
    /// Never about the built-in globs: they are for what may come.
    pub fn unused_globs(&self, roots: &[PreparedRoot], bound: SearchBound) -> UnusedGlobs {
        let own = self.deny.non_accessible_globs.iter();
        let own: Vec<String> = own.filter(|glob| !DEFAULT.deny.non_accessible_globs.contains(glob)).cloned().collect();
        // They compiled when the policy was read.
        let Ok(globs) = DenyGlobs::new(&own, &[]) else { return UnusedGlobs::Unknown(own) };
        let mut search = UnusedGlobSearch { unseen_globs: own.iter().map(Some).collect(), globs, names_examined: 0 };
        let until = Instant::now() + bound.time;
        let complete = roots.iter().all(|root| search.search_root(root, bound.names, until));
        let unseen = search.unseen_globs.into_iter().flatten().cloned().collect();
        if complete { UnusedGlobs::Known(unseen) } else { UnusedGlobs::Unknown(unseen) }
    }
}

struct UnusedGlobSearch<'p> {
    globs: DenyGlobs,
    /// By their place in `globs`; taken out when seen.
    unseen_globs: Vec<Option<&'p String>>,
    names_examined: usize,
}

impl UnusedGlobSearch<'_> {
    /// Returns false if a name was not compared that could match.
    fn search_root(&mut self, root: &PreparedRoot, most: usize, until: Instant) -> bool {
        let root = &root.root;
        let device = fs::symlink_metadata(&root.path).map(|metadata| metadata.dev());
        let mut folders: Vec<(PathBuf, Vec<u8>)> = vec![(root.path.clone(), Vec::new())];
        let mut complete = device.is_ok();
        while let Some((path, rel)) = folders.pop() {
            if self.has_seen_all() {
                return true;
            }
            let Ok(entries) = file::entries(&path) else {
                complete = false;
                continue;
            };
            for (name, kind) in entries {
                self.names_examined += 1;
                if self.names_examined > most || Instant::now() >= until {
                    return self.has_seen_all();
                }
                if rel.is_empty() && is_private_name(name.as_bytes()) {
                    continue;
                }
                let below = [&rel[..], if rel.is_empty() { b"" } else { b"/" }, name.as_bytes()].concat();
                let path = path.join(&name);
                let is_folder = match kind {
                    Some(kind) => kind == HostFileKind::Directory,
                    None => fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()),
                };
                for index in self.globs.matching(&below, is_folder) {
                    self.unseen_globs[index] = None;
                }
                let here = |metadata: fs::Metadata| root.cross_mounts || device.as_ref().ok() == Some(&metadata.dev());
                if is_folder && fs::symlink_metadata(&path).is_ok_and(here) {
                    folders.push((path, below));
                }
            }
        }
        complete
    }

    fn has_seen_all(&self) -> bool {
        self.unseen_globs.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::RootArg;

    const WIDE: SearchBound = SearchBound { names: 1000, time: Duration::from_secs(60) };

    /// A root with a few names, and globs of the operator's.
    fn unused(globs: &[&str], bound: SearchBound) -> UnusedGlobs {
        let dir = tempfile::tempdir().expect("a folder");
        for folder in ["src/deep", "Geheim", "empty", ".stockade", ".stockade-0123456789abcdef"] {
            fs::create_dir_all(dir.path().join(folder)).expect("made");
        }
        let own = [".stockade/journal", ".stockade-0123456789abcdef/journal"];
        for file in ["a.txt", "src/b.txt", "src/deep/KEY.pem", "Geheim/x"].into_iter().chain(own) {
            fs::write(dir.path().join(file), "").expect("written");
        }
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).expect("linked");
        let mut policy = Policy::embedded(&[RootArg { path: dir.path().into(), mode: crate::path::Mode::Ro }]);
        policy.deny.non_accessible_globs = globs.iter().map(|glob| glob.to_string()).collect();
        let roots = policy.prepare_roots().expect("a good root");
        policy.unused_globs(&roots.roots, bound)
    }

    fn known(globs: &[&str]) -> UnusedGlobs {
        UnusedGlobs::Known(globs.iter().map(|glob| glob.to_string()).collect())
    }

    #[test]
    fn only_globs_that_match_no_name_are_told_in_their_order() {
        let globs = ["src/b.txt", "**/*.pme", "geheim/**", "SRC/DEEP/*.PEM", "scr/**", "empty/**", "a.txt"];
        assert_eq!(unused(&globs, WIDE), known(&["**/*.pme", "scr/**"]));
        assert_eq!(unused(&[], WIDE), known(&[]));
    }

    #[test]
    fn a_name_behind_a_link_or_of_our_own_state_does_not_count() {
        assert_eq!(unused(&["**/passwd", "**/journal"], WIDE), known(&["**/passwd", "**/journal"]));
        assert_eq!(unused(&["link"], WIDE), known(&[]), "the link itself does");
    }

    #[test]
    fn built_in_globs_are_never_told() {
        let built_in = DEFAULT.deny.non_accessible_globs.iter().map(String::as_str);
        let globs: Vec<&str> = built_in.chain(["**/nothing"]).collect();
        assert_eq!(unused(&globs, WIDE), known(&["**/nothing"]));
    }

    #[test]
    fn at_the_bound_the_answer_is_unknown_unless_all_were_seen() {
        let few = SearchBound { names: 3, ..WIDE };
        let no_time = SearchBound { time: Duration::ZERO, ..WIDE };
        for bound in [few, no_time] {
            assert_eq!(unused(&["**/nothing"], bound), UnusedGlobs::Unknown(vec!["**/nothing".into()]));
            assert_eq!(unused(&[], bound), known(&[]));
        }
        assert_eq!(unused(&["**"], SearchBound { names: 1, ..WIDE }), known(&[]));
    }
}
