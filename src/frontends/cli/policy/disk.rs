//! What lies on disk on the way to a name, and whether the mode bits let the service's identity get there. The resolver decides
//! where a path leads; this names what it met, and adds what only the identity would meet. Names can change at any time, and
//! access control lists are not seen.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
};

use super::Identity;
use crate::path::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    There {
        kind: Kind,
        readable: bool,
        several_names: bool,
        /// Of a file: whether names beside it may be made and removed, which is how it is replaced. Of a folder: names in it.
        writable: bool,
    },
    /// The first name that is not there, and whether it could be made.
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
    /// We ourselves may not look.
    Unknown(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    /// FIFO, socket, device.
    Other,
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// A file's owner, group and mode.
struct Access {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Access {
    fn of(metadata: &impl MetadataExt) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() }
    }

    /// Uid 0 is nobody special: the service gives up every capability.
    fn allows(&self, identity: &Identity, wanted: u32) -> bool {
        let bits = match () {
            () if self.uid == identity.uid => self.mode >> 6,
            () if self.gid == identity.gid => self.mode >> 3,
            () => self.mode,
        };
        bits & wanted == wanted
    }
}

pub(super) fn look(root: &Root, rel: &[u8], identity: &Identity) -> Found {
    let mut path = root.path.clone();
    let Ok(top) = path.symlink_metadata() else { return Found::Unknown(path) };
    let mut folder = Access::of(&top);
    let mut names = rel.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return there(&top, &folder, identity);
    }
    while let Some(name) = names.next() {
        if !folder.allows(identity, SEARCH) {
            return Found::Unsearchable(path);
        }
        let writable = folder.allows(identity, WRITE | SEARCH);
        path.push(OsStr::from_bytes(name));
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Found::Missing { name: path, writable };
            }
            Err(_) => return Found::Unknown(path),
        };
        let is_last = names.peek().is_none();
        match metadata.file_type() {
            kind if kind.is_symlink() => return Found::Link { name: path, is_last },
            _ if metadata.dev() != top.dev() && !root.cross_mounts => return Found::Mount(path),
            _ if is_last => return there(&metadata, &folder, identity),
            kind if !kind.is_dir() => return Found::NotFolder(path),
            _ => folder = Access::of(&metadata),
        }
    }
    Found::Unknown(path)
}

fn there(metadata: &impl MetadataExt, folder: &Access, identity: &Identity) -> Found {
    // Not through `FileType`: that is std::fs, whose name has no place in a client.
    let kind = match metadata.mode() & 0o170_000 {
        0o100_000 => Kind::File,
        0o040_000 => Kind::Folder,
        _ => Kind::Other,
    };
    let own = Access::of(metadata);
    Found::There {
        kind,
        readable: own.allows(identity, READ),
        several_names: kind == Kind::File && metadata.nlink() > 1,
        writable: if kind == Kind::Folder { &own } else { folder }.allows(identity, WRITE | SEARCH),
    }
}
