//! Roots as the operator wrote them, turned into real directories. The only part of a policy that looks at the disk.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use super::{Policy, PolicyError, RootEntry};
use crate::path::{Hardlinks, Mode, Root, Symlinks};

/// `--root DIR[:ro|:rw]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootArg {
    pub path: PathBuf,
    pub mode: Mode,
}

impl RootArg {
    /// Only the exact suffixes count: `a:b` and `a:RO` are directories of that name.
    pub fn parse(argument: &OsStr) -> Result<Self, PolicyError> {
        let bytes = argument.as_bytes();
        let (path, mode) = match bytes.strip_suffix(b":ro") {
            Some(path) => (path, Mode::Ro),
            None => (bytes.strip_suffix(b":rw").unwrap_or(bytes), Mode::Rw),
        };
        if path.is_empty() {
            return Err(PolicyError::new("--root", "names no directory; expected DIR, DIR:ro or DIR:rw"));
        }
        Ok(Self { path: OsStr::from_bytes(path).into(), mode })
    }

    pub(super) fn entry(&self) -> RootEntry {
        RootEntry {
            path: self.path.clone(),
            mode: self.mode,
            symlinks: Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: Hardlinks::Allow,
            optional: false,
            allow_nested: false,
            allow_world_writable: false,
            origin: "--root".into(),
        }
    }
}

/// A root that exists, under its real path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRoot {
    pub root: Root,
    /// Owner, for `run_as = "root-owner"`.
    pub uid: u32,
    pub gid: u32,
    /// As the operator wrote it.
    pub given: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRoots {
    /// In the policy's order; the first is primary.
    pub roots: Vec<PreparedRoot>,
    /// For the log: optional roots that are not there.
    pub warnings: Vec<String>,
}

struct Candidate<'p> {
    entry: &'p RootEntry,
    root: PreparedRoot,
    inode: (u64, u64),
}

impl Policy {
    /// Follows a symlink that the operator named, once; from here on only the real path counts.
    pub fn prepare_roots(&self) -> Result<PreparedRoots, PolicyError> {
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        let mut warnings = Vec::new();
        for entry in &self.roots {
            let Some(candidate) = prepare(entry)? else {
                warnings.push(format!(
                    "{}: optional root {} does not exist; left out",
                    entry.origin,
                    entry.path.display()
                ));
                continue;
            };
            for other in &candidates {
                check_pair(other, &candidate)?;
                check_pair(&candidate, other)?;
            }
            candidates.push(candidate);
        }
        if candidates.is_empty() {
            let what = if self.roots.is_empty() {
                "no root is named; add a [[root]] with a `path`, or --root DIR"
            } else {
                "no root is left: all are optional and none exists"
            };
            return Err(PolicyError::new(&self.source, what));
        }
        if candidates.len() > usize::from(u16::MAX) {
            return Err(PolicyError::new(&self.source, format!("more than {} roots", u16::MAX)));
        }
        Ok(PreparedRoots {
            roots: candidates.into_iter().map(|candidate| candidate.root).collect(),
            warnings,
        })
    }
}

/// None for an optional root that is not there.
fn prepare(entry: &RootEntry) -> Result<Option<Candidate<'_>>, PolicyError> {
    let given = entry.path.display();
    let fail = |what: String| PolicyError::new(&entry.origin, format!("root {given}: {what}"));
    let path = match fs::canonicalize(&entry.path) {
        Ok(path) => path,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && entry.optional => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(fail("does not exist; create it or say optional = true in a policy file".into()));
        }
        Err(error) => return Err(fail(format!("cannot be resolved: {error}"))),
    };
    let metadata = fs::metadata(&path).map_err(|error| fail(format!("cannot be examined: {error}")))?;
    if !metadata.is_dir() {
        return Err(fail("not a directory".into()));
    }
    if path == Path::new("/") {
        return Err(fail("the whole file system cannot be a root; name a directory below it".into()));
    }
    if path.to_str().is_none() {
        return Err(fail("its real path is not UTF-8, so no reply could name it".into()));
    }
    // The sticky bit protects entries, not the directory: anybody may still plant names in it.
    if metadata.permissions().mode() & 0o002 != 0 && !entry.allow_world_writable {
        return Err(fail(
            "everybody may write to it; `chmod o-w` it or say allow_world_writable = true in a policy file"
                .into(),
        ));
    }
    let root = Root {
        path,
        mode: entry.mode,
        symlinks: entry.symlinks,
        cross_mounts: entry.cross_mounts,
        hardlinks: entry.hardlinks,
    };
    let root = PreparedRoot { root, uid: metadata.uid(), gid: metadata.gid(), given: entry.path.clone() };
    Ok(Some(Candidate { entry, root, inode: (metadata.dev(), metadata.ino()) }))
}

/// What two roots may not be to each other; called both ways round.
fn check_pair(outer: &Candidate<'_>, inner: &Candidate<'_>) -> Result<(), PolicyError> {
    let fail = |what: String| Err(PolicyError::new(&inner.entry.origin, what));
    let names = (inner.root.root.path.display(), outer.root.root.path.display());
    if outer.inode == inner.inode {
        return fail(format!("root {}: the same directory as root {}", names.0, names.1));
    }
    if !inner.root.root.path.starts_with(&outer.root.root.path) {
        return Ok(());
    }
    if !inner.entry.allow_nested {
        return fail(format!(
            "root {} lies inside root {}; say allow_nested = true on the inner one if that is meant",
            names.0, names.1
        ));
    }
    // Landlock rights of a folder hold for all below it and cannot be taken away further down.
    if inner.root.root.mode < outer.root.root.mode {
        return fail(format!(
            "read-only root {} lies inside writable root {}; the kernel cannot protect it there",
            names.0, names.1
        ));
    }
    Ok(())
}
