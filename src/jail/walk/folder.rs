//! Runs in the worker: a folder of a walk, with its path and the ignore rules for its entries. Reads
//! the folder's own ignore files for visitors that need the rules while the folder is listed.

use std::sync::{Arc, OnceLock};

use super::ignore::{self, IgnoreLevel};
use crate::{
    jail::{Dir, Jail},
    path::JailPath,
    text::{ignore::IgnoreRules, order},
};

#[derive(Debug)]
pub struct WalkFolder {
    path: JailPath,
    depth: u32,
    /// Rules of the folders above.
    above: Option<Arc<IgnoreLevel>>,
    /// The rules above and its own. The first listing finds and sets them.
    rules: OnceLock<Option<Arc<IgnoreLevel>>>,
}

impl WalkFolder {
    pub(super) fn new(path: JailPath, depth: u32, above: Option<Arc<IgnoreLevel>>) -> Self {
        Self { path, depth, above, rules: OnceLock::new() }
    }

    pub fn path(&self) -> &JailPath {
        &self.path
    }

    /// Levels below the walk's own folder.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    pub(super) fn child(&self, name: &[u8]) -> Self {
        Self::new(self.path.join(name), self.depth + 1, self.rules().cloned())
    }

    /// Whether its own ignore files were read. This happens once, even if a large folder is listed in several passes.
    pub(super) fn knows_rules(&self) -> bool {
        self.rules.get().is_some()
    }

    pub(super) fn set_rules(&self, own: [Option<IgnoreRules>; 2]) {
        self.rules.get_or_init(|| {
            let has_own = own.iter().flatten().any(|rules| !rules.is_empty());
            let above = self.above.clone();
            if has_own { Some(Arc::new(IgnoreLevel::new(above, &self.path, own))) } else { above }
        });
    }

    fn rules(&self) -> Option<&Arc<IgnoreLevel>> {
        self.rules.get().unwrap_or(&self.above).as_ref()
    }

    /// Whether the rules ignore an entry, given by its path below the root.
    pub(super) fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        self.rules().is_some_and(|rules| rules.ignores(path, is_dir))
    }

    /// Whether ignore files hide an entry. Reads the folder's own ones first, because a listing may meet them after the entry.
    pub fn hides_entry(&self, jail: &Jail, dir: &Dir, name: &[u8], is_dir: bool) -> bool {
        if !self.knows_rules() {
            self.set_rules(ignore::read_own(jail, self, dir, [true; 2]));
        }
        self.rules().is_some() && self.ignores(self.path.join(name).rel(), is_dir)
    }

    /// The first name here that a walk from the path `from` has to visit; None if it has to visit all.
    pub(super) fn first_name<'f>(&self, from: &'f [u8]) -> Option<&'f [u8]> {
        order::below(from, self.path.rel())?.split(|&byte| byte == b'/').next()
    }

    /// The path of the entry `name`, or of the folder itself if `name` is None. A cursor continues after this path.
    pub(super) fn path_of(&self, name: Option<&[u8]>) -> Vec<u8> {
        name.map_or_else(|| self.path.rel().to_vec(), |name| self.path.join(name).rel().to_vec())
    }
}
