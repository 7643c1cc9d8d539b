//! Calls that no safe wrapper has. One call per block, the reason above it.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::Errno;

pub use crate::sys::{inherited::take_variable, worker::ignore_file_size_signal};
pub use libc::c_long;

/// Syscall numbers, for the seccomp list and the self-probe.
pub mod nr {
    pub use libc::*;
}

/// Any system call with plain integer or pointer arguments. For the self-probe, whose whole point is to make calls
/// that no wrapper offers; every caller passes arguments for which a *successful* call is harmless, too.
pub(crate) fn syscall(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the callers in `confine::probe` pass null pointers, pointers to live buffers, or plain numbers.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(last_errno()) } else { Ok(result as usize) }
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Whether a kernel of this kind can have what the jail is made of.
pub const HAS_JAIL: bool = !cfg!(feature = "posix");

/// Landlock's ABI version, 0 where the kernel has none.
pub fn landlock_abi() -> Result<u32, Errno> {
    const LANDLOCK_CREATE_RULESET_VERSION: usize = 1;
    syscall(libc::SYS_landlock_create_ruleset, [0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0, 0])
        .map(|version| version as u32)
}

/// Whether seccomp filters exist and may be used: asks for the availability of the one action we need.
pub fn seccomp_available() -> Result<(), Errno> {
    const SECCOMP_GET_ACTION_AVAIL: usize = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    syscall(libc::SYS_seccomp, [SECCOMP_GET_ACTION_AVAIL, 0, (&raw const action) as usize, 0, 0, 0])
        .map(|_| ())
}

pub(super) fn close_range(first: u32) -> Result<(), Errno> {
    syscall(libc::SYS_close_range, [first as usize, u32::MAX as usize, 0, 0, 0, 0]).map(|_| ())
}

/// Fewer malloc arenas: each thread's own would reserve 64 MiB of address space against RLIMIT_AS.
pub fn limit_malloc_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only changes allocator settings; called while single-threaded.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Bytes sent on a socket that its far end has not read yet.
pub(super) fn unread_bytes(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut bytes: i32 = 0;
    // SAFETY: SIOCOUTQ (= TIOCOUTQ) stores one int through the pointer, which is live.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { Err(last_errno()) } else { Ok(bytes.unsigned_abs() as usize) }
}

/// `(pid, uid, gid)` of the peer. Not rustix's: its pid cannot be 0, which is what the kernel says of a peer outside of our
/// PID namespace.
pub(super) fn peer_cred(socket: BorrowedFd<'_>) -> Result<(i32, u32, u32), Errno> {
    let mut cred = [0u32; 3];
    socket_option(socket, libc::SO_PEERCRED, &mut cred)?;
    Ok((cred[0] as i32, cred[1], cred[2]))
}

pub(super) fn peer_pidfd(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd = [u32::MAX];
    socket_option(socket, SO_PEERPIDFD, &mut fd).ok()?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    (fd[0] != u32::MAX).then(|| unsafe { OwnedFd::from_raw_fd(fd[0] as i32) })
}

pub(super) fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    // More groups than the kernel allows a process to have.
    let mut groups = vec![0u32; 65_536];
    let len = socket_option(socket, libc::SO_PEERGROUPS, &mut groups).unwrap_or(0);
    groups.truncate(len);
    groups
}

/// How many words of `value` the kernel has stored.
fn socket_option(socket: BorrowedFd<'_>, option: i32, value: &mut [u32]) -> Result<usize, Errno> {
    let mut len = size_of_val(value) as libc::socklen_t;
    let to = value.as_mut_ptr().cast();
    // SAFETY: `to` is live and has `len` bytes; every option asked for is made of 32-bit words.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, to, &raw mut len) };
    if result < 0 { Err(last_errno()) } else { Ok(len as usize / size_of::<u32>()) }
}

/// Test builds only. By thread, because that is the one way the filter leaves open: to ourselves.
#[cfg(feature = "weakened")]
pub(in crate::sys) fn signal_self(signal: i32) {
    // SAFETY: plain numbers, and the thread is this one.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
    }
}
