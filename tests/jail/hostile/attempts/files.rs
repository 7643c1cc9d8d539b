//! Reaching files outside, and changing any.

use libc::{
    EACCES, EBADF, ENOENT, EPERM, O_CREAT, O_DIRECTORY, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};

use super::{Attempt, On, all_give, attempt, call, join, open, openat2, refused, with};

pub const CWD: usize = libc::AT_FDCWD as usize;

pub static OPENING: &[Attempt] = &[
    attempt!("openat2_outside", [EACCES], |t| open(&t.secret, O_RDONLY)),
    attempt!("openat2_outside_to_write", [EACCES], |t| all_give(
        EACCES,
        [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_TRUNC, O_RDWR | O_CREAT].map(|f| open(&t.secret, f))
    )),
    attempt!("openat2_outside_to_create", [EACCES], |t| open(&join(&t.outside, "new"), O_WRONLY | O_CREAT)),
    attempt!("openat2_outside_unnamed", [EACCES], |t| open(&t.outside, O_RDWR | O_TMPFILE)),
    attempt!("openat2_outside_folder", [EACCES], |t| open(&t.outside, O_RDONLY | O_DIRECTORY)),
    attempt!("openat2_by_dots", [EACCES], |t| open(&join(&t.inside, "../../outside/secret.txt"), O_RDONLY)),
    attempt!("openat2_by_dots_from_a_folder_of_the_root", [EACCES], |t| with(&t.inside, O_PATH, |fd| {
        openat2(fd as i32, c"../../outside/secret.txt", O_RDONLY).err().unwrap_or(0)
    })),
    attempt!("openat2_by_a_held_outside_folder", [EACCES], |t| with(&t.outside, O_PATH | O_DIRECTORY, |fd| {
        all_give(
            EACCES,
            [(c"secret.txt", O_RDONLY), (c"secret.txt", O_RDWR), (c".", O_RDONLY), (c"new", O_WRONLY | O_CREAT)]
                .map(|(name, flags)| openat2(fd as i32, name, flags).err().unwrap_or(0)),
        )
    })),
    attempt!("openat2_reopens_a_held_outside_file", [EACCES], |t| with(&t.secret, O_PATH, |fd| {
        all_give(EACCES, [O_RDONLY, O_RDWR].map(|f| open(&join(c"/proc/self/fd", &fd.to_string()), f)))
    })),
    attempt!("read_of_a_held_outside_file", [EBADF], |t| with(&t.secret, O_PATH, |fd| {
        let mut buffer = [0u8; 64];
        all_give(
            EBADF,
            [
                call(libc::SYS_read, &[fd, buffer.as_mut_ptr() as usize, 64]),
                call(libc::SYS_pread64, &[fd, buffer.as_mut_ptr() as usize, 64, 0]),
                call(libc::SYS_mmap, &[0, 4096, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, fd, 0]),
            ],
        )
    })),
    attempt!("getdents_of_a_held_outside_folder", [EBADF], |t| with(&t.outside, O_PATH, |fd| {
        let mut buffer = [0u8; 512];
        call(libc::SYS_getdents64, &[fd, buffer.as_mut_ptr() as usize, 512])
    })),
    attempt!("openat2_by_proc", [EACCES, ENOENT], |t| {
        let secret = t.secret.to_str().unwrap();
        let ways =
            ["/proc/self/root", "/proc/thread-self/root", "/proc/self/task/../root", "/proc/self/cwd/../../../../.."];
        ways.iter()
            .map(|way| open(&std::ffi::CString::new(format!("{way}{secret}")).unwrap(), O_RDONLY))
            .find(|outcome| ![EACCES, ENOENT].contains(outcome))
            .unwrap_or(EACCES)
    }),
    attempt!("proc_files", [EACCES], |_| all_give(
        EACCES,
        [c"/proc/self/mem", c"/proc/self/environ", c"/proc/self/maps", c"/proc/self/exe", c"/proc/cmdline"]
            .map(|path| open(path, O_RDONLY))
    )),
    attempt!("proc_files_of_others", [EACCES], |t| all_give(
        EACCES,
        t.processes.iter().flat_map(|pid| {
            ["environ", "mem", "maps", "status", "exe", "fd", "cmdline", "root/etc/passwd"]
                .map(|file| open(&std::ffi::CString::new(format!("/proc/{pid}/{file}")).unwrap(), O_RDONLY))
        })
    )),
    attempt!("system_files", [EACCES], |_| all_give(
        EACCES,
        [c"/", c"/etc/passwd", c"/etc", c"/tmp", c"/dev/null", c"/dev/zero", c"/dev/urandom", c"/sys", c"/proc"]
            .map(|path| open(path, O_RDONLY))
    )),
    refused!("openat", SYS_openat, |t| [CWD, t.secret.as_ptr() as usize, 0]),
    refused!("openat_inside", SYS_openat, |t| [CWD, t.file.as_ptr() as usize, 0]),
    refused!("name_to_handle_at", SYS_name_to_handle_at, |t| [CWD, t.secret.as_ptr() as usize, 0, 0, 0]),
    refused!("open_by_handle_at", SYS_open_by_handle_at, |t| [CWD, 0, 0]),
    refused!("open_tree", SYS_open_tree, |t| [CWD, t.outside.as_ptr() as usize, 1]),
    refused!("readlinkat", SYS_readlinkat, |t| [CWD, c"/proc/self/exe".as_ptr() as usize, 0, 0]),
    refused!("chdir", SYS_chdir, |t| [t.outside.as_ptr() as usize]),
    refused!("chroot", SYS_chroot, |t| [t.outside.as_ptr() as usize]),
    #[cfg(target_arch = "x86_64")]
    refused!("open", SYS_open, |t| [t.secret.as_ptr() as usize, 0]),
    #[cfg(target_arch = "x86_64")]
    refused!("creat", SYS_creat, |t| [t.secret.as_ptr() as usize, 0o600]),
    #[cfg(target_arch = "x86_64")]
    refused!("readlink", SYS_readlink, |t| [c"/proc/self/exe".as_ptr() as usize, 0, 0]),
];

/// The same call on a file outside and on one inside.
pub fn by_path(t: &super::Target, number: i64, before: &[usize], after: &[usize]) -> i32 {
    all_give(EPERM, [&t.secret, &t.file].map(|path| call(number, &[before, &[path.as_ptr() as usize], after].concat())))
}

/// A call on a descriptor of a file inside, open for reading.
pub fn by_descriptor(t: &super::Target, number: i64, after: &[usize]) -> i32 {
    with(&t.file, O_RDONLY, |fd| call(number, &[&[fd], after].concat()))
}

macro_rules! by_path {
    ($name:literal, $call:ident, $before:expr, $after:expr) => {
        attempt!($name, [EPERM], |t| by_path(t, libc::$call, &$before, &$after))
    };
}

macro_rules! by_descriptor {
    ($name:literal, $call:ident, $after:expr) => {
        attempt!($name, [EPERM], |t| by_descriptor(t, libc::$call, &$after))
    };
}

pub const BYTES: &std::ffi::CStr = c"overwritten";
pub const ATTRIBUTE: &std::ffi::CStr = c"user.x";
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;

pub static CHANGING: &[Attempt] = &[
    by_path!("fchmodat", SYS_fchmodat, [CWD], [0o777]),
    by_path!("fchownat", SYS_fchownat, [CWD], [1, 1, 0]),
    by_path!("utimensat", SYS_utimensat, [CWD], [0, 0]),
    by_path!("setxattr", SYS_setxattr, [], [ATTRIBUTE.as_ptr() as usize, BYTES.as_ptr() as usize, 3, 0]),
    by_path!("lsetxattr", SYS_lsetxattr, [], [ATTRIBUTE.as_ptr() as usize, BYTES.as_ptr() as usize, 3, 0]),
    by_path!("removexattr", SYS_removexattr, [], [ATTRIBUTE.as_ptr() as usize]),
    by_path!("lremovexattr", SYS_lremovexattr, [], [ATTRIBUTE.as_ptr() as usize]),
    by_path!("getxattr", SYS_getxattr, [], [ATTRIBUTE.as_ptr() as usize, 0, 0]),
    attempt!("fchmodat2", [EPERM], |t| by_path(t, SYS_FCHMODAT2, &[CWD], &[0o777, 0])),
    attempt!("setxattrat", [EPERM], |t| by_path(t, SYS_SETXATTRAT, &[CWD], &[])),
    attempt!("removexattrat", [EPERM], |t| by_path(t, SYS_REMOVEXATTRAT, &[CWD], &[])),
    by_path!("truncate", SYS_truncate, [], [0]),
    by_path!("mknodat", SYS_mknodat, [CWD], [0o100644, 0]),
    by_descriptor!("fchmod", SYS_fchmod, [0o777]),
    by_descriptor!("futimens", SYS_utimensat, [0, 0, 0]),
    by_descriptor!("fremovexattr", SYS_fremovexattr, [ATTRIBUTE.as_ptr() as usize]),
    by_descriptor!("fchownat_of_a_descriptor", SYS_fchownat, [c"".as_ptr() as usize, 1, 1, 0x1000]),
    by_descriptor!("set_inode_flags", SYS_ioctl, [FS_IOC_SETFLAGS, BYTES.as_ptr() as usize]),
    by_descriptor!("punch_a_hole", SYS_fallocate, [0x03, 0, 4096]),
    by_descriptor!("collapse_a_range", SYS_fallocate, [0x08, 0, 4096]),
    by_descriptor!("write", SYS_write, [BYTES.as_ptr() as usize, 5]),
    by_descriptor!("writev", SYS_writev, [0, 0]),
    by_descriptor!("pwritev2", SYS_pwritev2, [0, 0, 0, 0, 0]),
    by_descriptor!("copy_file_range", SYS_copy_file_range, [0, 0, 0, 1, 0]),
    by_descriptor!("sendfile", SYS_sendfile, [0, 0, 1]),
    by_descriptor!("splice", SYS_splice, [0, 0, 0, 1, 0]),
    attempt!("fcntl_beyond_the_two_that_ask", [EPERM], |t| with(&t.file, O_RDONLY, |fd| {
        // 0..=38 and 1024..=1040 are all there are; 1 and 3 are F_GETFD and F_GETFL.
        let commands = (0..=38).chain(1024..=1040).filter(|command| ![1, 3].contains(command));
        all_give(EPERM, commands.map(|command| call(libc::SYS_fcntl, &[fd, command, 0])))
    })),
    attempt!("writable_mapping", [EACCES], |t| with(&t.file, O_RDONLY, |fd| {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        call(libc::SYS_mmap, &[0, 4096, protection, libc::MAP_SHARED as usize, fd, 0])
    })),
    attempt!("mapping_made_writable_or_removed", [EACCES], |t| with(&t.file, O_RDONLY, |fd| {
        // SAFETY: a fresh mapping of our own.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, fd as i32, 0) };
        let page = page as usize;
        all_give(
            EACCES,
            [
                call(libc::SYS_mprotect, &[page, 4096, (libc::PROT_READ | libc::PROT_WRITE) as usize]),
                call(libc::SYS_madvise, &[page, 4096, libc::MADV_REMOVE as usize]),
            ],
        )
    })),
    read_only_attempts::WRITE,
    read_only_attempts::CREATE,
    read_only_attempts::EMPTY,
    #[cfg(target_arch = "x86_64")]
    by_path!("chmod", SYS_chmod, [], [0o777]),
    #[cfg(target_arch = "x86_64")]
    by_path!("chown", SYS_chown, [], [1, 1]),
    #[cfg(target_arch = "x86_64")]
    by_path!("lchown", SYS_lchown, [], [1, 1]),
    #[cfg(target_arch = "x86_64")]
    by_path!("utime", SYS_utime, [], [0]),
    #[cfg(target_arch = "x86_64")]
    by_path!("utimes", SYS_utimes, [], [0]),
    #[cfg(target_arch = "x86_64")]
    by_path!("futimesat", SYS_futimesat, [CWD], [0]),
    #[cfg(target_arch = "x86_64")]
    by_path!("unlink", SYS_unlink, [], []),
    #[cfg(target_arch = "x86_64")]
    by_path!("rmdir", SYS_rmdir, [], []),
    #[cfg(target_arch = "x86_64")]
    by_path!("mkdir", SYS_mkdir, [], [0o777]),
];

/// Landlock's alone: the filter cannot see the flags of openat2.
mod read_only_attempts {
    use super::*;

    pub const WRITE: Attempt = Attempt {
        name: "openat2_inside_to_write",
        held: &[EACCES],
        run: |t| all_give(EACCES, [O_WRONLY, O_RDWR, O_WRONLY | libc::O_APPEND].map(|f| open(&t.file, f))),
        on: On::ReadOnly,
    };
    pub const CREATE: Attempt = Attempt {
        name: "openat2_inside_to_create",
        held: &[EACCES],
        run: |t| {
            let new = open(&join(&t.inside, "new"), O_WRONLY | O_CREAT);
            all_give(
                EACCES,
                [new, open(&join(&t.inside, "new"), O_RDONLY | O_CREAT), open(&t.inside, O_RDWR | O_TMPFILE)],
            )
        },
        on: On::ReadOnly,
    };
    pub const EMPTY: Attempt = Attempt {
        name: "openat2_inside_to_empty",
        held: &[EACCES],
        run: |t| all_give(EACCES, [O_RDONLY | O_TRUNC, O_WRONLY | O_TRUNC, O_RDWR | O_TRUNC].map(|f| open(&t.file, f))),
        on: On::ReadOnly,
    };
}
