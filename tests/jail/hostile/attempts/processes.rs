//! Other processes, new processes, and the network.

use libc::{EISCONN, EPERM};

use super::{Attempt, Target, all_give, attempt, call, refused};

/// The same call on each of the supervisor, another worker, the client.
fn at_each(t: &Target, attempt: impl Fn(usize) -> i32) -> i32 {
    all_give(EPERM, t.processes.iter().map(|pid| attempt(*pid as usize)))
}

macro_rules! at_each {
    ($name:literal, |$pid:ident| $call:ident $arguments:expr) => {
        attempt!($name, [EPERM], |t| at_each(t, |$pid| call(libc::$call, &$arguments)))
    };
}

const TERM: usize = libc::SIGTERM as usize;
/// Beyond the last address family.
const FAMILIES: usize = 64;

pub static PROCESSES: &[Attempt] = &[
    at_each!("kill", |pid| SYS_kill [pid, TERM]),
    at_each!("kill_nothing", |pid| SYS_kill [pid, 0]),
    at_each!("tkill", |pid| SYS_tkill [pid, TERM]),
    at_each!("tgkill", |pid| SYS_tgkill [pid, pid, TERM]),
    at_each!("rt_sigqueueinfo", |pid| SYS_rt_sigqueueinfo [pid, TERM, 0]),
    at_each!("rt_tgsigqueueinfo", |pid| SYS_rt_tgsigqueueinfo [pid, pid, TERM, 0]),
    at_each!("pidfd_open", |pid| SYS_pidfd_open [pid, 0]),
    at_each!("ptrace_attach", |pid| SYS_ptrace [libc::PTRACE_ATTACH as usize, pid, 0, 0]),
    at_each!("ptrace_seize", |pid| SYS_ptrace [libc::PTRACE_SEIZE as usize, pid, 0, 0]),
    at_each!("process_vm_readv", |pid| SYS_process_vm_readv [pid, 0, 0, 0, 0, 0]),
    at_each!("process_vm_writev", |pid| SYS_process_vm_writev [pid, 0, 0, 0, 0, 0]),
    at_each!("prlimit", |pid| SYS_prlimit64 [pid, 0, 0, 0]),
    at_each!("kcmp", |pid| SYS_kcmp [pid, pid, 0, 0, 0]),
    at_each!("setpriority", |pid| SYS_setpriority [0, pid, 19]),
    at_each!("sched_setaffinity", |pid| SYS_sched_setaffinity [pid, 0, 0]),
    at_each!("move_pages", |pid| SYS_move_pages [pid, 0, 0, 0, 0, 0]),
    at_each!("perf_event_open", |pid| SYS_perf_event_open [0, pid, usize::MAX, usize::MAX, 0]),
    refused!("kill_everybody", SYS_kill, |t| [usize::MAX, 0]),
    refused!("kill_own_group", SYS_kill, |t| [0, 0]),
    refused!("pidfd_send_signal", SYS_pidfd_send_signal, |t| [0, TERM, 0, 0]),
    refused!("pidfd_getfd", SYS_pidfd_getfd, |t| [0, 0, 0]),
    refused!("trace_me", SYS_ptrace, |t| [0, 0, 0, 0]),
    // New processes and threads.
    refused!("clone", SYS_clone, |t| [libc::SIGCHLD as usize, 0, 0, 0, 0]),
    refused!("clone_thread", SYS_clone, |t| [
        (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as usize,
        0,
        0,
        0,
        0
    ]),
    refused!("clone3", SYS_clone3, |t| [0, 0]),
    attempt!("thread", [EPERM], |_| match std::thread::Builder::new().spawn(|| {}) {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }),
    #[cfg(target_arch = "x86_64")]
    refused!("fork", SYS_fork, |t| []),
    #[cfg(target_arch = "x86_64")]
    refused!("vfork", SYS_vfork, |t| []),
    // The network. Each family in each type, whatever the kernel knows of it.
    attempt!("socket_of_every_family", [EPERM], |_| all_give(
        EPERM,
        (0..FAMILIES).flat_map(|family| {
            [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET]
                .map(|kind| call(libc::SYS_socket, &[family, kind as usize, 0]))
        })
    )),
    refused!("socketpair", SYS_socketpair, |t| [libc::AF_UNIX as usize, 1, 0, 0]),
    refused!("connect", SYS_connect, |t| [t.connection as usize, 0, 0]),
    refused!("bind", SYS_bind, |t| [t.connection as usize, 0, 0]),
    refused!("listen", SYS_listen, |t| [t.connection as usize, 1]),
    refused!("accept4", SYS_accept4, |t| [t.connection as usize, 0, 0, 0]),
    refused!("setsockopt", SYS_setsockopt, |t| [t.connection as usize, 1, 1, 0, 0]),
    refused!("sendmmsg", SYS_sendmmsg, |t| [t.connection as usize, 0, 0, 0]),
    refused!("recvmmsg", SYS_recvmmsg, |t| [t.connection as usize, 0, 0, 0, 0]),
    // Descriptors travel on the channel alone: none in from a client, none out to one.
    refused!("descriptors_from_the_client", SYS_recvmsg, |t| [t.connection as usize, 0, 0]),
    refused!("descriptors_to_the_client", SYS_sendmsg, |t| [t.connection as usize, 0, 0]),
    // A connected socket cannot be sent elsewhere: by a name on disk, or by an abstract one.
    attempt!("sendto_a_socket_by_name", [EISCONN], |t| all_give(
        EISCONN,
        [&b"\x01\0/run/systemd/notify\0"[..], b"\x01\0\0abstract", b"\x01\0/dev/log\0"].map(|address| {
            let (at, len) = (address.as_ptr() as usize, address.len());
            call(libc::SYS_sendto, &[t.connection as usize, at, 1, 0, at, len])
        })
    )),
];
