//! Detects whether a file system finds one file under several spellings, and whether it records access times. Runs in the
//! supervisor before it confines itself and in `stockade policy check`, on roots only. Reads no name and no content.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};

use crate::sys::Errno;

/// FS_CASEFOLD_FL, for which rustix has no constant. Folders of ext4, f2fs, tmpfs and bcachefs can have it. The kernel then
/// compares names after full case folding (`ß` equals `ss`) and normalisation; deny globs fold each character to one other.
const CASEFOLD: u32 = 0x4000_0000;

/// File systems that treat names as equal that deny globs distinguish: statfs's f_type and the reason. FUSE and NFS are not
/// listed, because most of them serve a file system that does not fold names. ZFS, XFS and JFS fold names only if they were
/// created with that option, which f_type does not show.
const FOLDING: &[(u32, &str)] = &[
    (0x4d44, "vfat ignores case and final dots, and each name has a short form"),
    (0x2011_bab0, "exFAT ignores case, by a table of its own, and final dots"),
    (0x5346_544e, "NTFS finds a file by its short name, too, in any case"),
    // The driver ntfs3; the line above is the older one.
    (0x7366_746e, "NTFS finds a file by its short name, too, in any case"),
    (0x4244, "HFS ignores case"),
    (0x482b, "HFS+ ignores case and how letters are composed"),
    (0x9660, "ISO 9660 with Joliet names ignores case and final dots"),
    (0x517b, "an SMB server ignores case, by rules of its own"),
    // CIFS, and from SMB 2 on.
    (0xff53_4d42, "an SMB server ignores case, by rules of its own"),
    (0xfe53_4d42, "an SMB server ignores case, by rules of its own"),
    // WSL mounts the drives of Windows with 9P, and virtual machines the folders of a Mac.
    (0x0102_1997, "a 9P server may be on a system that ignores case"),
    (0x786f_4256, "a shared folder of VirtualBox may be on a system that ignores case"),
];

/// The reason why this folder treats names as equal that deny globs distinguish; `None` if there is no sign of it. An error if
/// the folder cannot be opened for reading, which is needed to get its flags. Subfolders have their own flags.
pub fn name_folding(folder: BorrowedFd<'_>) -> Result<Option<&'static str>, Errno> {
    // fstatfs can fail on FUSE, but not on the listed file systems.
    let kind = rustix::fs::fstatfs(folder).map(|volume| volume.f_type as u32);
    if let Some(reason) = kind.ok().and_then(folding_by_type) {
        return Ok(Some(reason));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    match rustix::fs::ioctl_getflags(opened.as_fd()) {
        // A file system without flags has no folder with this one.
        Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(None),
        flags => flags.map(|flags| folding_by_flags(flags.bits())),
    }
}

fn folding_by_type(kind: u32) -> Option<&'static str> {
    FOLDING.iter().find(|(folding, _)| *folding == kind).map(|(_, reason)| *reason)
}

fn folding_by_flags(flags: u32) -> Option<&'static str> {
    (flags & CASEFOLD != 0).then_some("the folder has the casefold flag (chattr +F)")
}

/// False for a mount on which no reader changes an access time: read-only or `noatime`.
pub fn records_access_times(folder: BorrowedFd<'_>) -> bool {
    let without = StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOATIME;
    rustix::fs::fstatvfs(folder).map_or(true, |volume| !volume.f_flag.intersects(without))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host;

    fn folding(path: &str) -> Result<Option<&'static str>, Errno> {
        name_folding(host::open_directory(path.as_ref()).unwrap().as_fd())
    }

    #[test]
    fn file_systems_that_fold_names_are_told_by_their_type() {
        // Magic numbers from linux/magic.h and from the sources of the drivers.
        for (kind, name) in [
            (0x4d44, "vfat"),
            (0x2011_bab0, "exFAT"),
            (0x5346_544e, "NTFS"),
            (0x7366_746e, "NTFS"),
            (0x4244, "HFS"),
            (0x482b, "HFS+"),
            (0x9660, "ISO 9660"),
            (0x517b, "SMB"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x0102_1997, "9P"),
            (0x786f_4256, "VirtualBox"),
        ] {
            assert!(folding_by_type(kind).is_some_and(|reason| reason.contains(name)), "{kind:x}");
        }
        // ext4, tmpfs, btrfs, XFS, overlayfs, FUSE, NFS.
        for kind in [0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0x794c_7630, 0x6573_5546, 0x6969] {
            assert_eq!(folding_by_type(kind), None, "{kind:x}");
        }
    }

    #[test]
    fn the_casefold_flag_is_told_from_the_others() {
        assert!(folding_by_flags(CASEFOLD | 0x1000).is_some_and(|reason| reason.contains("casefold")));
        // FS_INDEX_FL and FS_EXTENT_FL, which ordinary folders have, and all but the one.
        for flags in [0, 0x1000, 0x8_0000, !CASEFOLD] {
            assert_eq!(folding_by_flags(flags), None, "{flags:x}");
        }
    }

    #[test]
    fn ordinary_folders_fold_nothing_whether_they_have_flags_or_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(folding(dir.path().to_str().unwrap()), Ok(None));
        assert_eq!(folding("/proc/self"), Ok(None), "ioctl answers ENOTTY there");
    }

    #[test]
    fn proc_records_access_times_as_far_as_its_mount_says() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let options = mounts.lines().rev().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            (fields.next() == Some("/proc")).then(|| fields.nth(1).unwrap().to_owned())
        });
        let options = options.expect("/proc is mounted");
        let without = options.split(',').any(|option| option == "noatime" || option == "ro");
        let folder = host::open_directory("/proc".as_ref()).unwrap();
        assert_eq!(records_access_times(folder.as_fd()), !without, "{options}");
    }
}
