//! The folder of the service's own state at the top of a root, and within it the one of this uid: 0700, made when it is
//! first needed, and used only if it is ours. What a repository brought along under that name is not our state.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::{
    path::PRIVATE_FOLDER,
    sys::{
        Errno, change,
        fs::{self, Beneath, Kind, OFlags},
    },
};

/// Nothing of ours is anybody's source.
const IGNORE_FILE: (&[u8], &[u8]) = (b".gitignore", b"*\n");
/// Nobody but this user.
const FOLDER_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

/// The folder of this uid. `Ok(None)` where there cannot be one; ENOENT if somebody removes what we make.
pub(super) fn make(top: BorrowedFd<'_>, uid: u32, how: Beneath) -> Result<Option<OwnedFd>, Errno> {
    let Some(private) = own_folder(top, PRIVATE_FOLDER.as_bytes(), uid, how)? else { return Ok(None) };
    if let Ok(file) = change::create(private.as_fd(), IGNORE_FILE.0, FILE_MODE, how) {
        // Only git is told; without it nothing else is lost.
        let _ = change::write_all_at(file.as_fd(), IGNORE_FILE.1, 0);
    }
    own_folder(private.as_fd(), uid.to_string().as_bytes(), uid, how)
}

/// The same, but nothing is made: ENOENT.
pub(super) fn open(top: BorrowedFd<'_>, uid: u32, how: Beneath) -> Result<Option<OwnedFd>, Errno> {
    match open_own_folder(top, PRIVATE_FOLDER.as_bytes(), uid, how)? {
        Some(private) => open_own_folder(private.as_fd(), uid.to_string().as_bytes(), uid, how),
        None => Ok(None),
    }
}

/// A folder that is ours alone, made if it is not there.
pub(super) fn own_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: Beneath,
) -> Result<Option<OwnedFd>, Errno> {
    match change::make_dir(above, name, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        // They may not be made here.
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    open_own_folder(above, name, uid, how)
}

pub(super) fn open_own_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: Beneath,
) -> Result<Option<OwnedFd>, Errno> {
    let folder = match fs::open_beneath(above, name, fs::FOLDER | OFlags::NOFOLLOW, how) {
        Err(Errno::NOENT) => return Err(Errno::NOENT),
        Err(_) => return Ok(None),
        Ok(folder) => folder,
    };
    let stat = fs::stat(&folder)?;
    let is_ours = stat.kind == Kind::Dir && stat.uid == uid && stat.mode & 0o077 == 0;
    Ok(is_ours.then_some(folder))
}
