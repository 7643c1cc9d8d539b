//! What the kernel knows about a peer: its user, up to 16 of its groups, and its pid.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixDatagram,
    },
};

use rustix::net::{self, AddressFamily, SocketType};

use crate::sys::{Errno, socket::PeerCred};

/// `sun_path` has 104 bytes and ends with a NUL.
pub const MAX_SOCKET_PATH: usize = 103;

/// An option of a local socket, into a plain C structure that is all zero before.
fn local_option<T: Copy>(socket: BorrowedFd<'_>, name: i32, mut value: T) -> Result<T, Errno> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let target = (&raw mut value).cast();
    // SAFETY: `value` and `len` are live, and `len` is the size of what `value` points to.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_LOCAL, name, target, &raw mut len) };
    match result {
        0 if len as usize == size_of::<T>() => Ok(value),
        0 => Err(Errno::INVAL),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Effective ids at connect time; the groups begin with the effective one.
fn credentials(socket: BorrowedFd<'_>) -> Result<libc::xucred, Errno> {
    let none = libc::xucred { cr_version: 0, cr_uid: u32::MAX, cr_ngroups: 0, cr_groups: [u32::MAX; 16] };
    let found = local_option(socket, libc::LOCAL_PEERCRED, none)?;
    if found.cr_version == libc::XUCRED_VERSION { Ok(found) } else { Err(Errno::INVAL) }
}

/// Only those that the kernel filled in: behind them the list holds zeros, which would be the group of root.
fn groups(found: &libc::xucred) -> &[u32] {
    let count = usize::try_from(found.cr_ngroups).unwrap_or(0);
    &found.cr_groups[..count.min(found.cr_groups.len())]
}

/// Connects to the socket `name` in `folder`. Nothing here can hold a socket's name: a link that takes it meanwhile is
/// followed.
pub(in crate::sys) fn connect_in(socket: &OwnedFd, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let address = net::SocketAddrUnix::new(name)?;
    crate::sys::host::in_directory(folder, || net::connect(socket, &address))?
}

pub fn peer_cred(socket: impl AsFd) -> Result<PeerCred, Errno> {
    let found = credentials(socket.as_fd())?;
    let gid = *groups(&found).first().ok_or(Errno::INVAL)?;
    let pid = local_option(socket.as_fd(), libc::LOCAL_PEERPID, 0)?;
    Ok(PeerCred { pid, uid: found.cr_uid, gid })
}

/// None on macOS, which has no pidfd: a pid can be reused by another process.
pub fn peer_pidfd(_socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    None
}

/// At most sixteen, the effective one among them. A `[[peer]]` that names another group is not matched: refused, not
/// let in.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    credentials(socket).map(|found| groups(&found).to_vec()).unwrap_or_default()
}

/// A datagram socket connected to a path; there are no abstract names. It never waits.
pub fn connect_datagram(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(name)?;
    Ok(socket)
}

/// True for a connected Unix stream socket. macOS does not tell whether a socket listens, so the answer for a listening one
/// is false: launchd passes its sockets in another way than systemd.
pub fn is_unix_stream(socket: impl AsFd, listening: bool) -> bool {
    if listening {
        return false;
    }
    net::getsockname(&socket).is_ok_and(|address| address.address_family() == AddressFamily::UNIX)
        && net::sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && net::getpeername(&socket).is_ok()
}
