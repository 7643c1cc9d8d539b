//! Calls that no safe wrapper has. One call per block, the reason above it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::{Errno, socket::PeerCred};

pub use super::worker::limit_malloc_arenas;
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
    // SAFETY: the callers in `confine::escape` pass null pointers, pointers to live buffers, or plain numbers.
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
    syscall(libc::SYS_seccomp, [SECCOMP_GET_ACTION_AVAIL, 0, (&raw const action) as usize, 0, 0, 0]).map(|_| ())
}

/// Closes every descriptor from `first` on; a descriptor leaked by a shell must not reach a jail.
pub fn close_from(first: u32) -> Result<(), Errno> {
    syscall(libc::SYS_close_range, [first as usize, u32::MAX as usize, 0, 0, 0, 0]).map(|_| ())
}

/// Bytes sent that the far end has not read yet. Descriptors in flight count against all of this user's processes,
/// so a peer that does not read must be noticed before it hurts others.
pub fn unread_bytes(socket: impl AsFd) -> Result<usize, Errno> {
    let mut bytes: i32 = 0;
    // SAFETY: SIOCOUTQ (= TIOCOUTQ) stores one int through the pointer, which is live.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { Err(last_errno()) } else { Ok(bytes.unsigned_abs() as usize) }
}

/// Not the function of rustix, whose pid cannot be 0: the kernel reports 0 for a peer outside of this PID namespace.
pub fn peer_cred(socket: impl AsFd) -> Result<PeerCred, Errno> {
    let mut cred = [0u32; 3];
    socket_option(socket.as_fd(), libc::SO_PEERCRED, &mut cred)?;
    Ok(PeerCred { pid: cred[0] as i32, uid: cred[1], gid: cred[2] })
}

/// A pidfd of the peer, where the kernel has it (6.5): unlike the number it can never come to mean another process.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd = [u32::MAX];
    socket_option(socket, SO_PEERPIDFD, &mut fd).ok()?;
    // SAFETY: the kernel has just made this descriptor for this process, and nothing else owns it.
    (fd[0] != u32::MAX).then(|| unsafe { OwnedFd::from_raw_fd(fd[0] as i32) })
}

/// Supplementary groups of the peer at connect time.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
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
