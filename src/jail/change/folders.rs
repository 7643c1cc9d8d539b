//! Runs in the worker: folders that the supervisor resolved for the running call, by their roots and real paths. The steps of a
//! plan find their folders here and ask the supervisor only about those that are missing.
//! Trusts the supervisor's answers. Never gives a step a folder of another root that has the same path there, never keeps a folder
//! whose path a step has changed, and holds at most `MAX_FOLDERS` descriptors.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::claim::stat_in;
use crate::{
    broker::{Lease, Parent},
    jail::{BATCH_PARENTS, Claim, state::workspace::TemporaryName},
    sys::{
        Errno,
        fs::{FileStat, OpenRules},
    },
};

/// One answer of the supervisor brings at most as many descriptors.
const MAX_FOLDERS: usize = BATCH_PARENTS;

#[derive(Debug, Default)]
pub struct ResolvedFolders(Vec<ResolvedFolder>);

#[derive(Debug)]
struct ResolvedFolder {
    root: u16,
    path: Vec<u8>,
    dir: Arc<OwnedFd>,
}

/// A name in a folder that is open.
#[derive(Debug, Clone)]
pub(in crate::jail) struct NameInFolder {
    pub(in crate::jail) dir: Arc<OwnedFd>,
    pub(in crate::jail) leaf: Vec<u8>,
    pub(in crate::jail) open_rules: OpenRules,
    /// The lease of a name that a step asked the supervisor for. It is released with this value.
    pub(in crate::jail) _lease: Option<Arc<Lease>>,
}

impl From<Claim> for NameInFolder {
    fn from(claim: Claim) -> Self {
        let (parent, how) = (claim.parent, claim.open_rules);
        Self { dir: parent.dir, leaf: parent.leaf, open_rules: how, _lease: parent.lease }
    }
}

impl From<&TemporaryName> for NameInFolder {
    fn from(spot: &TemporaryName) -> Self {
        Self { dir: Arc::clone(&spot.dir), leaf: spot.name.clone(), open_rules: spot.open_rules, _lease: None }
    }
}

impl NameInFolder {
    pub(in crate::jail) fn dir_and_leaf(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.dir.as_fd(), &self.leaf)
    }

    /// Stats the name; None if it is free.
    pub(in crate::jail) fn stat(&self) -> Result<Option<FileStat>, Errno> {
        stat_in(self.dir.as_fd(), &self.leaf, self.open_rules)
    }
}

/// `a/b/c` → `a/b` and `c`; `c` → `` and `c`.
pub(in crate::jail) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    memchr::memrchr(b'/', path).map_or((&[], path), |slash| (&path[..slash], &path[slash + 1..]))
}

impl ResolvedFolders {
    pub(in crate::jail) fn add(&mut self, root: u16, path: &[u8], dir: &Arc<OwnedFd>) {
        if self.find(root, path).is_some() {
            return;
        }
        if self.0.len() == MAX_FOLDERS {
            self.0.remove(0);
        }
        self.0.push(ResolvedFolder { root, path: path.to_vec(), dir: Arc::clone(dir) });
    }

    pub(in crate::jail) fn add_claimed(&mut self, claim: &Claim) {
        self.add(claim.path().root(), claim.folder_path(), &claim.parent.dir);
    }

    /// Adds the folder of an answer: the parent of the name, or of the first missing folder above it.
    pub(in crate::jail) fn add_answered(&mut self, root: u16, parent: &Parent) {
        let mut folder = split(&parent.path).0;
        for _ in 0..parent.missing {
            folder = split(folder).0;
        }
        self.add(root, folder, &parent.dir);
    }

    pub(in crate::jail) fn find(&self, root: u16, path: &[u8]) -> Option<&Arc<OwnedFd>> {
        self.0.iter().find(|folder| folder.root == root && folder.path == path).map(|folder| &folder.dir)
    }

    /// Drops the folders at and below this path, because a step has changed what lies there.
    pub(in crate::jail) fn forget(&mut self, root: u16, path: &[u8]) {
        let is_below = |folder: &ResolvedFolder| {
            let rest = folder.path.strip_prefix(path).filter(|_| folder.root == root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.0.retain(|folder| !is_below(folder));
    }
}
