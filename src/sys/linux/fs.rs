//! openat2, and O_PATH descriptors: handles on a name that give no right to read or write what has it.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::sys::{
    Errno,
    fs::{FileStat, Mounts, OpenRules, ResolveMethod, open_beneath, open_name, read_link, stat},
};

/// A folder to go on from, and nothing else: it can be neither listed nor written through its descriptor.
pub const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Open flag: reading does not change the access time. EPERM for files that another user owns.
pub(in crate::sys) const KEEP_ATIME: OFlags = OFlags::NOATIME;

// Bounded: the kernel answers EAGAIN when a rename anywhere on the host meets the walk. Unbounded retry would let a
// local user stall us; 32 proved too low for others who met rename storms.
const EAGAIN_RETRIES: usize = 128;
// EXDEV means a mount point, or a folder that another process moved out of the root during the kernel's walk. A mount point
// gives EXDEV again at the next try; a moved folder would have to move each time.
const EXDEV_RETRIES: usize = 3;

/// `mode` of a file that is made by the open, exactly: the worker has no umask.
pub(in crate::sys) fn open_with_mode(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    OpenRules { method: walk, mounts }: OpenRules,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if mounts == Mounts::Refuse {
        resolve |= ResolveFlags::NO_XDEV;
    }
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
    }
    if walk == ResolveMethod::Stepwise {
        return open_name(dir, path, flags, mode, mounts);
    }
    #[cfg(feature = "weakened")]
    if crate::sys::weakened::is_off(crate::sys::weakened::CHECKS) {
        // Links and `..` are followed to wherever they lead: Landlock must hold alone.
        resolve = ResolveFlags::empty();
        flags -= OFlags::NOFOLLOW;
    }
    let mut crossed = 0;
    for _ in 0..EAGAIN_RETRIES {
        match rustix::fs::openat2(dir, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV) if crossed < EXDEV_RETRIES => crossed += 1,
            // Mount points are crossed here, so EXDEV can only mean that a folder was moved.
            Err(Errno::XDEV) if mounts == Mounts::Cross => return Err(Errno::AGAIN),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Equal for two descriptors of one mount. The device is the second choice: bind mounts share it.
pub(in crate::sys) fn mount_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // Without asking the file system: a dead network or FUSE mount would never answer.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID) {
        // KERNEL(5.8): older kernels do not report the mount.
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        Ok(_) | Err(Errno::NOSYS) => Ok(rustix::fs::fstat(fd)?.st_dev),
        Err(errno) => Err(errno),
    }
}

/// Whether a file or folder has an access list beyond its mode. A list that cannot be read counts.
pub fn has_acl(fd: BorrowedFd<'_>) -> bool {
    let list = |fd: BorrowedFd<'_>| rustix::fs::fgetxattr(fd, "system.posix_acl_access", &mut [0u8; 0][..]);
    let found = match list(fd) {
        // The attributes of a folder cannot be read through an O_PATH descriptor.
        Err(Errno::BADF) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(fd, ".", flags, Mode::empty()).and_then(|folder| list(folder.as_fd()))
        }
        found => found,
    };
    !matches!(found, Err(Errno::NODATA | Errno::NOTSUP))
}

/// An O_PATH handle on a name, whatever its kind. While it is open, the kernel cannot give its inode number to another file.
#[derive(Debug, Clone)]
pub struct NameHandle(Arc<OwnedFd>);

/// Without opening it for anything: no device acts, no FIFO waits, no link is followed.
pub fn open_handle(dir: BorrowedFd<'_>, name: &[u8], how: OpenRules) -> Result<NameHandle, Errno> {
    open_beneath(dir, name, OFlags::PATH | OFlags::NOFOLLOW, how).map(|fd| NameHandle(Arc::new(fd)))
}

impl NameHandle {
    pub fn of_folder(fd: &Arc<OwnedFd>) -> Self {
        Self(Arc::clone(fd))
    }

    pub fn stat(&self) -> Result<FileStat, Errno> {
        stat(&*self.0)
    }

    pub fn is_folder(&self) -> bool {
        rustix::fs::fstat(&*self.0).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// The target of exactly the link that the handle holds; EINVAL or ENOENT for anything else.
    pub fn link_target(&self) -> Result<Vec<u8>, Errno> {
        read_link(self.0.as_fd(), b"")
    }
}

/// True if `fd` is an O_PATH descriptor of a directory, the only kind that may cross between processes. One call checks both
/// flags: the kernel keeps O_DIRECTORY among them, opens only directories with it, and lets no process set either flag later.
/// A directory that was opened without O_DIRECTORY is refused; this code never opens one like that.
pub fn is_path_directory(fd: BorrowedFd<'_>) -> bool {
    let wanted = OFlags::PATH | OFlags::DIRECTORY;
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(wanted))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{CWD, Mode, openat};

    use super::*;

    #[test]
    fn only_an_o_path_directory_may_cross() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        let crosses =
            |path: &std::path::Path, flags| is_path_directory(openat(CWD, path, flags, Mode::empty()).unwrap().as_fd());
        assert!(crosses(dir.path(), OFlags::PATH | OFlags::DIRECTORY));
        assert!(crosses(dir.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC));
        assert!(!crosses(dir.path(), OFlags::RDONLY | OFlags::DIRECTORY), "a readable directory");
        assert!(!crosses(&file, OFlags::PATH), "an O_PATH file");
        assert!(!crosses(&file, OFlags::RDONLY), "a readable file");
        assert!(!crosses(&file, OFlags::RDWR), "a writable file");
    }

    #[test]
    fn the_flags_that_allow_crossing_cannot_be_set_later() {
        let dir = tempfile::tempdir().unwrap();
        let readable = openat(CWD, dir.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let _ = rustix::fs::fcntl_setfl(&readable, OFlags::PATH | OFlags::DIRECTORY);
        assert!(!is_path_directory(readable.as_fd()));
    }
}
