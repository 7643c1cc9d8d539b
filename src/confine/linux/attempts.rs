//! The escape attempts of a worker on Linux, and the layer that has to stop each of them.

use super::attempt_calls::{
    EMPTY, SLASH, attempt_call, attempt_create_read_only, attempt_fork, attempt_map, attempt_open_outside,
};
use crate::{
    confine::escape::{AttemptResult, ConfinementLayer, EscapeAttempt, FACT_HOLDS, fact_result},
    sys::{process, raw::nr},
};

const EPERM: AttemptResult = nr::EPERM;
const EACCES: AttemptResult = nr::EACCES;
const EROFS: AttemptResult = nr::EROFS;

macro_rules! refused {
    ($id:literal, $name:literal, $attempt:literal, $call:ident $(, $arg:expr)*) => {
        EscapeAttempt::new($id, $name, $attempt, ConfinementLayer::Seccomp, &[EPERM], |_| attempt_call(nr::$call, &[$($arg as usize),*]))
    };
}

/// Order matters only for reading. Ids are for ever: a number is never given to another attempt.
pub static SYSTEM_ATTEMPTS: &[EscapeAttempt] = &[
    EscapeAttempt::new(1, "open_outside", "openat2 of / for reading", ConfinementLayer::Landlock, &[EACCES], |_| {
        attempt_open_outside()
    }),
    EscapeAttempt::new(
        2,
        "create_in_read_only_root",
        "openat2 with O_CREAT in a read-only root",
        ConfinementLayer::Landlock,
        &[EACCES, EROFS],
        attempt_create_read_only,
    ),
    refused!(10, "open_by_path", "openat of / (only openat2 is left)", SYS_openat, nr::AT_FDCWD, SLASH.as_ptr(), 0),
    refused!(11, "unix_socket", "socket(AF_UNIX)", SYS_socket, nr::AF_UNIX, nr::SOCK_STREAM, 0),
    refused!(12, "inet_socket", "socket(AF_INET, SOCK_DGRAM)", SYS_socket, nr::AF_INET, nr::SOCK_DGRAM, 0),
    refused!(13, "netlink_socket", "socket(AF_NETLINK)", SYS_socket, nr::AF_NETLINK, nr::SOCK_RAW, 0),
    EscapeAttempt::new(14, "fork", "clone as fork would", ConfinementLayer::Seccomp, &[EPERM], |_| attempt_fork()),
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
    EscapeAttempt::new(18, "executable_memory", "mmap with PROT_EXEC", ConfinementLayer::Seccomp, &[EPERM], |_| {
        attempt_map(nr::PROT_READ | nr::PROT_EXEC)
    }),
    EscapeAttempt::new(19, "signal_supervisor", "kill(supervisor, 0)", ConfinementLayer::Seccomp, &[EPERM], |s| {
        attempt_call(nr::SYS_kill, &[s.supervisor as usize, 0])
    }),
    EscapeAttempt::new(
        20,
        "trace_supervisor",
        "process_vm_readv of the supervisor",
        ConfinementLayer::Seccomp,
        &[EPERM],
        |s| attempt_call(nr::SYS_process_vm_readv, &[s.supervisor as usize, 0, 0, 0, 0, 0]),
    ),
    refused!(21, "io_uring", "io_uring_setup", SYS_io_uring_setup, 1, 0),
    refused!(22, "bpf", "bpf", SYS_bpf, 0, 0, 0),
    refused!(23, "userfaultfd", "userfaultfd", SYS_userfaultfd, usize::MAX),
    refused!(24, "unshare", "unshare(0)", SYS_unshare, 0),
    refused!(25, "mount", "mount", SYS_mount, 0, 0, 0, 0, 0),
    refused!(26, "change_mode", "fchmodat of a name", SYS_fchmodat, nr::AT_FDCWD, EMPTY.as_ptr(), 0),
    refused!(27, "change_owner", "fchownat of a name", SYS_fchownat, nr::AT_FDCWD, EMPTY.as_ptr(), 0, 0, 0),
    refused!(28, "change_times", "utimensat of a name", SYS_utimensat, nr::AT_FDCWD, EMPTY.as_ptr(), 0, 0),
    refused!(29, "extended_attribute", "setxattr of a name", SYS_setxattr, EMPTY.as_ptr(), EMPTY.as_ptr(), 0, 0, 0),
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
    EscapeAttempt::new(
        50,
        "no_new_privileges",
        "no_new_privs is set",
        ConfinementLayer::Process,
        &[FACT_HOLDS],
        |_| fact_result(process::no_new_privs()),
    ),
    EscapeAttempt::new(
        51,
        "undumpable",
        "the process is not dumpable",
        ConfinementLayer::Process,
        &[FACT_HOLDS],
        |_| fact_result(process::is_undumpable()),
    ),
    EscapeAttempt::new(
        52,
        "no_capabilities",
        "every capability set is empty",
        ConfinementLayer::Process,
        &[FACT_HOLDS],
        |_| fact_result(!process::has_capabilities()),
    ),
];
