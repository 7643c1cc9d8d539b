//! What the kernel knows about a socket and about the process at its other end.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

use rustix::{
    fs::{Mode, OFlags},
    net::{self, AddressFamily, SocketType},
};

pub use super::raw::{peer_cred, peer_groups, peer_pidfd};
use crate::sys::Errno;

/// `sun_path` has 108 bytes and ends with a NUL.
pub const MAX_SOCKET_PATH: usize = 107;

/// A datagram socket connected to `name`: a path, or `@` and an abstract name. It never waits.
pub fn connect_datagram(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => Err(io::Error::other("neither a path nor an abstract name")),
    }?;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Connects to the socket `name` in `folder`, and to nothing that takes its name meanwhile.
pub(in crate::sys) fn connect_in(socket: &OwnedFd, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    net::connect(socket, &net::SocketAddrUnix::new(format!("/proc/self/fd/{}", target.as_raw_fd()))?)
}

/// True for a Unix stream socket; a listening one, or one that is connected.
pub fn is_unix_stream(socket: impl AsFd, listening: bool) -> bool {
    net::sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX)
        && net::sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && net::sockopt::socket_acceptconn(&socket) == Ok(listening)
}
