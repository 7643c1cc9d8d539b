//! A walk through a path without O_PATH. A folder on the way is opened for reading, so it has to be readable. A handle only
//! remembers a name here, so its inode number may be given to another file meanwhile (APFS never reuses a number).

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{FileType, Mode, OFlags};

use super::entries::stat_name;
use crate::sys::{
    Errno,
    fs::{FileKind, FileStat, OpenRules, ResolveMethod, open_name, read_link, stat},
};

pub const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY;
/// There is no such flag here.
pub(in crate::sys) const KEEP_ATIME: OFlags = OFlags::empty();

/// One name, and never through a link.
pub(in crate::sys) fn open_with_mode(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
    OpenRules { method: walk, mounts }: OpenRules,
) -> Result<OwnedFd, Errno> {
    if walk == ResolveMethod::Openat2 {
        return Err(Errno::NOSYS);
    }
    open_name(dir, name, flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, mode, mounts)
}

/// The device number identifies the mount, because there are no bind mounts. This asks the file system: a dead mount hangs
/// the call.
pub(in crate::sys) fn mount_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    stat(fd).map(|stat| stat.dev)
}

/// Access lists are not read here: a file that its group may write counts as having one.
pub fn has_acl(_fd: BorrowedFd<'_>) -> bool {
    true
}

/// What had a name when it was examined. This system cannot hold a file without opening it.
#[derive(Debug, Clone)]
pub struct NameHandle(HandleState);

#[derive(Debug, Clone)]
enum HandleState {
    Folder(Arc<OwnedFd>),
    Name { stat: FileStat, target: Option<Vec<u8>> },
}

/// Without opening it: no device acts, no FIFO waits, no link is followed.
pub fn open_handle(dir: BorrowedFd<'_>, name: &[u8], how: OpenRules) -> Result<NameHandle, Errno> {
    let found = stat_name(dir, name, how.mounts)?;
    let target = match found.kind {
        FileKind::Symlink => Some(read_link(dir, name).map_err(map_link_errno)?),
        _ => None,
    };
    // These are two calls, so check that the target belongs to the link that was examined.
    if target.is_some() && !stat_name(dir, name, how.mounts)?.is_same_file(&found) {
        return Err(Errno::AGAIN);
    }
    Ok(NameHandle(HandleState::Name { stat: found, target }))
}

/// A link that is none any more.
fn map_link_errno(errno: Errno) -> Errno {
    if errno == Errno::INVAL { Errno::AGAIN } else { errno }
}

impl NameHandle {
    pub fn of_folder(fd: &Arc<OwnedFd>) -> Self {
        Self(HandleState::Folder(Arc::clone(fd)))
    }

    pub fn stat(&self) -> Result<FileStat, Errno> {
        match &self.0 {
            HandleState::Folder(fd) => stat(&**fd),
            HandleState::Name { stat, .. } => Ok(*stat),
        }
    }

    pub fn is_folder(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.kind == FileKind::Dir)
    }

    /// The target of exactly the link that was examined; EINVAL for anything else.
    pub fn link_target(&self) -> Result<Vec<u8>, Errno> {
        match &self.0 {
            HandleState::Name { target: Some(target), .. } => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }
}

/// True if `fd` is a directory, open for reading alone: the nearest there is to O_PATH. It can be listed,
/// so what crosses carries that right; without Landlock there is no border that it could undermine.
pub fn is_path_directory(fd: BorrowedFd<'_>) -> bool {
    let is_directory =
        rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    is_directory && rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDONLY)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::fs::symlink};

    use super::*;
    use crate::sys::{fs::Mounts, host};

    fn open_beneath(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags, how: OpenRules) -> Result<OwnedFd, Errno> {
        open_with_mode(dir, name, flags, Mode::empty(), how)
    }

    const HOW: OpenRules = OpenRules { method: ResolveMethod::Stepwise, mounts: Mounts::Refuse };

    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        std::fs::write(dir.path().join("file"), b"abc").unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let fd = host::open_directory(dir.path()).unwrap();
        (dir, fd)
    }

    #[test]
    fn a_name_is_told_without_opening_it() {
        let (_dir, fd) = tree();
        let kind = |name: &[u8]| open_handle(fd.as_fd(), name, HOW).and_then(|held| held.stat()).map(|s| s.kind);
        assert_eq!(kind(b"folder"), Ok(FileKind::Dir));
        assert_eq!(kind(b"file"), Ok(FileKind::File));
        assert_eq!(kind(b"link"), Ok(FileKind::Symlink));
        assert_eq!(kind(b"fifo"), Ok(FileKind::Fifo), "and did not wait for a writer");
        assert_eq!(kind(b"missing"), Err(Errno::NOENT));
    }

    #[test]
    fn only_a_link_has_a_target() {
        let (_dir, fd) = tree();
        let target = |name: &[u8]| open_handle(fd.as_fd(), name, HOW).unwrap().link_target();
        assert_eq!(target(b"link").unwrap(), b"file");
        assert_eq!(target(b"file"), Err(Errno::INVAL));
        assert_eq!(NameHandle::of_folder(&Arc::new(fd)).link_target(), Err(Errno::INVAL));
    }

    #[test]
    fn a_name_is_one_name_and_never_a_link() {
        let (_dir, fd) = tree();
        for name in [&b".."[..], b"folder/..", b"folder/x", b"/etc"] {
            assert_eq!(open_handle(fd.as_fd(), name, HOW).unwrap_err(), Errno::LOOP);
            assert_eq!(open_beneath(fd.as_fd(), name, OFlags::RDONLY, HOW).unwrap_err(), Errno::LOOP);
        }
        assert_eq!(open_beneath(fd.as_fd(), b"link", OFlags::RDONLY, HOW).unwrap_err(), Errno::LOOP);
        assert!(open_beneath(fd.as_fd(), b"folder", FOLDER_FLAGS, HOW).is_ok());
    }

    #[test]
    fn only_a_folder_that_cannot_be_written_may_cross() {
        let (dir, fd) = tree();
        let open = |name: &[u8], flags| open_beneath(fd.as_fd(), name, flags, HOW).unwrap();
        assert!(is_path_directory(open(b"folder", FOLDER_FLAGS).as_fd()));
        assert!(!is_path_directory(open(b"file", OFlags::RDONLY).as_fd()));
        assert!(!is_path_directory(open(b"file", OFlags::RDWR).as_fd()));
        drop(dir);
    }

    #[test]
    fn nobody_walks_for_the_kernel() {
        let (_dir, fd) = tree();
        let how = OpenRules { method: ResolveMethod::Openat2, ..HOW };
        assert_eq!(open_beneath(fd.as_fd(), b"file", OFlags::RDONLY, how).unwrap_err(), Errno::NOSYS);
    }

    #[test]
    fn a_mount_point_is_refused_and_crossed_where_that_is_allowed() {
        let root = host::open_directory("/".as_ref()).unwrap();
        let cross = OpenRules { mounts: Mounts::Cross, ..HOW };
        assert_eq!(open_handle(root.as_fd(), b"proc", HOW).unwrap_err(), Errno::XDEV);
        assert!(open_handle(root.as_fd(), b"proc", cross).unwrap().is_folder());
    }
}
