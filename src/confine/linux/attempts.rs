//! What a confined worker tries on Linux, and which layer has to stop it.

use crate::{
    confine::probe::{HOLDS, Layer, Outcome, Probe, Surroundings, WENT_THROUGH, fact},
    sys::{
        process,
        raw::{c_long, nr, syscall},
    },
};

const EPERM: Outcome = nr::EPERM;
const EACCES: Outcome = nr::EACCES;
const EROFS: Outcome = nr::EROFS;

macro_rules! refused {
    ($id:literal, $name:literal, $attempt:literal, $call:ident $(, $arg:expr)*) => {
        Probe { id: $id, name: $name, attempt: $attempt, layer: Layer::Seccomp, expected: &[EPERM],
                run: |_| attempt(nr::$call, &[$($arg as usize),*]) }
    };
}

/// Order matters only for reading. Ids are for ever: a number is never given to another attempt.
pub static ATTEMPTS: &[Probe] = &[
    Probe {
        id: 1,
        name: "open_outside",
        attempt: "openat2 of / for reading",
        layer: Layer::Landlock,
        expected: &[EACCES],
        run: |_| open_outside(),
    },
    Probe {
        id: 2,
        name: "create_in_read_only_root",
        attempt: "openat2 with O_CREAT in a read-only root",
        layer: Layer::Landlock,
        expected: &[EACCES, EROFS],
        run: create_in_read_only_root,
    },
    refused!(
        10,
        "open_by_path",
        "openat of / (only openat2 is left)",
        SYS_openat,
        nr::AT_FDCWD,
        SLASH.as_ptr(),
        0
    ),
    refused!(11, "unix_socket", "socket(AF_UNIX)", SYS_socket, nr::AF_UNIX, nr::SOCK_STREAM, 0),
    refused!(12, "inet_socket", "socket(AF_INET, SOCK_DGRAM)", SYS_socket, nr::AF_INET, nr::SOCK_DGRAM, 0),
    refused!(13, "netlink_socket", "socket(AF_NETLINK)", SYS_socket, nr::AF_NETLINK, nr::SOCK_RAW, 0),
    Probe {
        id: 14,
        name: "fork",
        attempt: "clone as fork would",
        layer: Layer::Seccomp,
        expected: &[EPERM],
        run: |_| fork(),
    },
    refused!(15, "clone3", "clone3 with no arguments", SYS_clone3, 0, 0),
    refused!(16, "execute", "execve of /", SYS_execve, SLASH.as_ptr(), 0, 0),
    refused!(
        17,
        "execute_descriptor",
        "execveat of the channel",
        SYS_execveat,
        0,
        EMPTY.as_ptr(),
        0,
        0,
        nr::AT_EMPTY_PATH
    ),
    Probe {
        id: 18,
        name: "executable_memory",
        attempt: "mmap with PROT_EXEC",
        layer: Layer::Seccomp,
        expected: &[EPERM],
        run: |_| map(nr::PROT_READ | nr::PROT_EXEC),
    },
    Probe {
        id: 19,
        name: "signal_supervisor",
        attempt: "kill(supervisor, 0)",
        layer: Layer::Seccomp,
        expected: &[EPERM],
        run: |s| attempt(nr::SYS_kill, &[s.supervisor as usize, 0]),
    },
    Probe {
        id: 20,
        name: "trace_supervisor",
        attempt: "process_vm_readv of the supervisor",
        layer: Layer::Seccomp,
        expected: &[EPERM],
        run: |s| attempt(nr::SYS_process_vm_readv, &[s.supervisor as usize, 0, 0, 0, 0, 0]),
    },
    refused!(21, "io_uring", "io_uring_setup", SYS_io_uring_setup, 1, 0),
    refused!(22, "bpf", "bpf", SYS_bpf, 0, 0, 0),
    refused!(23, "userfaultfd", "userfaultfd", SYS_userfaultfd, usize::MAX),
    refused!(24, "unshare", "unshare(0)", SYS_unshare, 0),
    refused!(25, "mount", "mount", SYS_mount, 0, 0, 0, 0, 0),
    refused!(26, "change_mode", "fchmodat of a name", SYS_fchmodat, nr::AT_FDCWD, EMPTY.as_ptr(), 0),
    refused!(27, "change_owner", "fchownat of a name", SYS_fchownat, nr::AT_FDCWD, EMPTY.as_ptr(), 0, 0, 0),
    refused!(28, "change_times", "utimensat of a name", SYS_utimensat, nr::AT_FDCWD, EMPTY.as_ptr(), 0, 0),
    refused!(
        29,
        "extended_attribute",
        "setxattr of a name",
        SYS_setxattr,
        EMPTY.as_ptr(),
        EMPTY.as_ptr(),
        0,
        0,
        0
    ),
    refused!(30, "device_control", "ioctl on the channel", SYS_ioctl, 0, 0, 0),
    refused!(31, "memory_file", "memfd_create", SYS_memfd_create, EMPTY.as_ptr(), nr::MFD_CLOEXEC),
    refused!(32, "file_handle", "open_by_handle_at", SYS_open_by_handle_at, usize::MAX, 0, 0),
    refused!(33, "watch", "inotify_init1", SYS_inotify_init1, nr::IN_CLOEXEC),
    refused!(34, "change_directory", "chdir to /", SYS_chdir, SLASH.as_ptr()),
    refused!(35, "process_control", "prctl(PR_GET_NAME)", SYS_prctl, usize::MAX),
    refused!(36, "pass_descriptors", "sendmsg on another socket than the channel", SYS_sendmsg, 1, 0, 0),
    refused!(37, "take_descriptors", "recvmsg on another socket than the channel", SYS_recvmsg, 1, 0, 0),
    refused!(39, "change_mode_of_descriptor", "fchmod of the channel", SYS_fchmod, 0, 0),
    refused!(40, "remove_name", "unlinkat of no name", SYS_unlinkat, nr::AT_FDCWD, EMPTY.as_ptr(), 0),
    refused!(38, "link_by_path", "readlinkat of a name", SYS_readlinkat, nr::AT_FDCWD, SLASH.as_ptr(), 0, 0),
    Probe {
        id: 50,
        name: "no_new_privileges",
        attempt: "no_new_privs is set",
        layer: Layer::Process,
        expected: &[HOLDS],
        run: |_| fact(process::no_new_privs()),
    },
    Probe {
        id: 51,
        name: "undumpable",
        attempt: "the process is not dumpable",
        layer: Layer::Process,
        expected: &[HOLDS],
        run: |_| fact(process::is_undumpable()),
    },
    Probe {
        id: 52,
        name: "no_capabilities",
        attempt: "every capability set is empty",
        layer: Layer::Process,
        expected: &[HOLDS],
        run: |_| fact(!process::has_capabilities()),
    },
];

const SLASH: &std::ffi::CStr = c"/";
const EMPTY: &std::ffi::CStr = c"";

fn attempt(number: c_long, args: &[usize]) -> Outcome {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    match syscall(number, all) {
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

fn open_outside() -> Outcome {
    use rustix::fs::{CWD, Mode as FileMode, OFlags, ResolveFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, SLASH, flags, FileMode::empty(), ResolveFlags::empty()) {
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

fn create_in_read_only_root(surroundings: &Surroundings<'_>) -> Outcome {
    use rustix::fs::{AtFlags, Mode as FileMode, OFlags, ResolveFlags};
    const NAME: &str = ".stockade-probe-must-not-exist";
    let Some(root) = surroundings.read_only_root else { return WENT_THROUGH };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, NAME, flags, FileMode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => {
            // Before the filter, so that a leaking jail can still tidy up after itself.
            let _ = rustix::fs::unlinkat(root, NAME, AtFlags::empty());
            WENT_THROUGH
        }
        Err(errno) => errno.raw_os_error(),
    }
}

fn fork() -> Outcome {
    match syscall(nr::SYS_clone, [nr::SIGCHLD as usize, 0, 0, 0, 0, 0]) {
        Ok(0) => std::process::exit(0),
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

fn map(protection: i32) -> Outcome {
    const PAGE: usize = 4096;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS;
    attempt(nr::SYS_mmap, &[0, PAGE, protection as usize, flags as usize, usize::MAX, 0])
}
