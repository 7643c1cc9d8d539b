//! Runs in the worker alone: the entries of a folder, through the C library.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{AtFlags, Dir};

use crate::sys::{
    Errno,
    fs::{FileKind, FileStat, Mounts, check_name, stat},
};

/// lstat of one name in `dir`. A mount point is recognised by its device number, because the system has no bind mounts.
pub fn stat_name(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts) -> Result<FileStat, Errno> {
    check_name(name)?;
    let found = FileStat::from(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
    if mounts == Mounts::Refuse && found.dev != stat(dir)?.dev { Err(Errno::XDEV) } else { Ok(found) }
}

/// The same as `stat_name`, which caches nothing here.
pub fn stat_name_fresh(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts) -> Result<FileStat, Errno> {
    stat_name(dir, name, mounts)
}

/// The same as `stat_name`: this system has no cheaper call.
pub fn stat_entry(dir: BorrowedFd<'_>, name: &[u8]) -> Result<FileStat, Errno> {
    stat_name(dir, name, Mounts::Refuse)
}

/// From where the descriptor stands, until the end or until `visit` breaks. `.` and `..` are left out. The C library
/// brings its own buffer.
pub fn read_dir<B>(
    fd: impl AsFd,
    _buffer: &mut [MaybeUninit<u8>],
    mut visit: impl FnMut(&[u8], FileKind, u64) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, Errno> {
    // A duplicate, because it is closed with the stream; the two share one position.
    let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
    for entry in Dir::new(own)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if let ControlFlow::Break(value) = visit(name, entry.file_type().into(), entry.ino()) {
            return Ok(ControlFlow::Break(value));
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sys::fs::rewind_dir;

    #[test]
    fn every_entry_is_visited_once_and_again_after_a_rewind() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..500).map(|number| format!("file {number}")).collect();
        for name in &names {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let fd = rustix::fs::open(dir.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        for _ in 0..2 {
            let mut seen = BTreeMap::new();
            let end = read_dir(&fd, &mut [], |name, kind, ino| {
                assert_eq!(seen.insert(name.to_vec(), kind), None);
                assert_ne!(ino, 0);
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(end, Ok(ControlFlow::Continue(())));
            assert_eq!(seen.remove(&b"folder"[..]), Some(FileKind::Dir));
            assert!(names.iter().all(|name| seen.remove(name.as_bytes()) == Some(FileKind::File)));
            assert!(seen.is_empty());
            rewind_dir(&fd).unwrap();
        }
    }

    #[test]
    fn a_visitor_that_has_enough_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), b"").unwrap();
        std::fs::write(dir.path().join("b"), b"").unwrap();
        let fd = rustix::fs::open(dir.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        let mut visits = 0;
        let end = read_dir(&fd, &mut [], |_, _, _| {
            visits += 1;
            ControlFlow::Break("enough")
        });
        assert_eq!((end, visits), (Ok(ControlFlow::Break("enough")), 1));
    }
}
