//! Sockets and the descriptors that travel over them.
//! Only what the supervisor and the worker need; both decide for themselves what they accept.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::net;

use super::{Errno, host, system::socket::connect_in};

pub use super::{
    inherited::take_inherited,
    system::{
        channel::{message_pair, receive, send, send_stream, unread_bytes},
        socket::{MAX_SOCKET_PATH, connect_datagram, is_unix_stream, peer_cred, peer_groups, peer_pidfd},
    },
};

/// Descriptors one message may carry; the kernel's own limit is 253.
pub const MAX_FDS: usize = 64;

/// Connections that wait to be accepted. The queue is in order of arrival, so this is also how many connections of a
/// flooding uid can be ahead of others. Further clients block in connect, each with one connection.
const BACKLOG: i32 = 512;

/// Whether a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    Block,
    Now,
}

/// One received message. Cut messages and cut descriptor lists are errors, never short results.
#[derive(Debug)]
pub struct SocketMessage {
    pub len: usize,
    pub fds: Vec<OwnedFd>,
}

/// Whether a process listens on the socket `name` in `folder`. Does not wait: a full queue means that a process listens.
/// Never follows a link.
pub fn is_listened_to(folder: impl AsFd, name: &OsStr) -> Result<bool, Errno> {
    let socket = net::socket(net::AddressFamily::UNIX, net::SocketType::STREAM, None)?;
    set_nonblocking(&socket, true)?;
    match connect_in(&socket, folder.as_fd(), name) {
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A listening socket with this name in the working directory (see `host::in_directory`), with exactly this mode from its
/// first moment.
pub fn listen_here(name: &OsStr, mode: u32) -> Result<OwnedFd, Errno> {
    let socket = net::socket(net::AddressFamily::UNIX, net::SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let address = net::SocketAddrUnix::new(name)?;
    // A new name gets the mode 0777 without the bits of the umask.
    host::with_umask(0o777 & !mode, || net::bind(&socket, &address))?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

pub fn shutdown(socket: impl AsFd) {
    // The peer may be gone already; nothing is left to do then.
    let _ = net::shutdown(socket, net::Shutdown::Both);
}

/// The process at the other end, as the kernel recorded it when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCred {
    /// 0 for a process outside of our PID namespace.
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

pub fn set_nonblocking(socket: impl AsFd, on: bool) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(socket, on)
}

/// Whether bytes have arrived that no process has read yet.
pub fn has_unread(socket: impl AsFd) -> bool {
    rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0)
}

/// Sets how long a blocking receive waits before it fails with EAGAIN; `None` means without a limit.
pub fn set_receive_timeout(socket: impl AsFd, after: Option<std::time::Duration>) -> Result<(), Errno> {
    net::sockopt::set_socket_timeout(socket, net::sockopt::Timeout::Recv, after)
}
