//! Finds what exists on disk on the way to a name, and whether the mode bits let the service's identity reach it. The
//! resolver decides where a path leads; this module names what the resolver met, and adds what only the identity would meet.
//! Names can change at any time, and access control lists are not read.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
};

use super::IdentityView;
use crate::path::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathOnDisk {
    Present {
        kind: DiskKind,
        readable: bool,
        has_several_names: bool,
        /// For a file: whether names in its folder may be made and removed, which is how a file is replaced. For a folder:
        /// the same for names in it.
        writable: bool,
    },
    /// The first name that does not exist, and whether it could be made.
    Missing {
        name: PathBuf,
        writable: bool,
    },
    Link {
        name: PathBuf,
        is_last: bool,
    },
    Mount(PathBuf),
    NotFolder(PathBuf),
    /// The service may not search this folder.
    Unsearchable(PathBuf),
    /// This user may not read it.
    Unknown(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskKind {
    File,
    Folder,
    /// FIFO, socket, device.
    Other,
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// A file's owner, group and mode.
struct DiskAccess {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl DiskAccess {
    fn from_metadata(metadata: &impl MetadataExt) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() }
    }

    /// Uid 0 has no special rights here, because the service drops every capability.
    fn allows(&self, identity: &IdentityView, wanted: u32) -> bool {
        let bits = match () {
            () if self.uid == identity.uid => self.mode >> 6,
            () if self.gid == identity.gid => self.mode >> 3,
            () => self.mode,
        };
        bits & wanted == wanted
    }
}

pub(super) fn examine(root: &Root, rel: &[u8], identity: &IdentityView) -> PathOnDisk {
    let mut path = root.path.clone();
    let Ok(top) = path.symlink_metadata() else { return PathOnDisk::Unknown(path) };
    let mut folder = DiskAccess::from_metadata(&top);
    let mut names = rel.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return present(&top, &folder, identity);
    }
    while let Some(name) = names.next() {
        if !folder.allows(identity, SEARCH) {
            return PathOnDisk::Unsearchable(path);
        }
        let writable = folder.allows(identity, WRITE | SEARCH);
        path.push(OsStr::from_bytes(name));
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return PathOnDisk::Missing { name: path, writable };
            }
            Err(_) => return PathOnDisk::Unknown(path),
        };
        let is_last = names.peek().is_none();
        match metadata.file_type() {
            kind if kind.is_symlink() => return PathOnDisk::Link { name: path, is_last },
            _ if metadata.dev() != top.dev() && !root.cross_mounts => return PathOnDisk::Mount(path),
            _ if is_last => return present(&metadata, &folder, identity),
            kind if !kind.is_dir() => return PathOnDisk::NotFolder(path),
            _ => folder = DiskAccess::from_metadata(&metadata),
        }
    }
    PathOnDisk::Unknown(path)
}

fn present(metadata: &impl MetadataExt, folder: &DiskAccess, identity: &IdentityView) -> PathOnDisk {
    // Not with `FileType`, which is part of std::fs, and clients may not name that module.
    let kind = match metadata.mode() & 0o170_000 {
        0o100_000 => DiskKind::File,
        0o040_000 => DiskKind::Folder,
        _ => DiskKind::Other,
    };
    let own = DiskAccess::from_metadata(metadata);
    PathOnDisk::Present {
        kind,
        readable: own.allows(identity, READ),
        has_several_names: kind == DiskKind::File && metadata.nlink() > 1,
        writable: if kind == DiskKind::Folder { &own } else { folder }.allows(identity, WRITE | SEARCH),
    }
}
