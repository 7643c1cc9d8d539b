//! Sockets and the descriptors that travel over them.
//! Only what the supervisor and the worker need; both decide for themselves what they accept.

use std::os::fd::{AsFd, OwnedFd};

use rustix::net;

use super::Errno;

pub use super::{
    inherited::take_inherited,
    system::socket::{
        MAX_SOCKET_PATH, connect_datagram, is_unix_stream, message_pair, peer_cred, peer_groups, peer_pidfd,
        receive, receive_stream, send, send_stream, unread_bytes,
    },
};

/// Descriptors one message may carry; the kernel's own limit is 253.
pub const MAX_FDS: usize = 64;

/// Whether a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Block,
    Now,
}

/// One received message. Cut messages and cut descriptor lists are errors, never short results.
#[derive(Debug)]
pub struct Received {
    pub len: usize,
    pub fds: Vec<OwnedFd>,
}

pub fn shutdown(socket: impl AsFd) {
    // The peer may be gone already; nothing is left to do then.
    let _ = net::shutdown(socket, net::Shutdown::Both);
}

/// Who is at the other end, as the kernel recorded it when the connection was made.
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

/// How long a blocking receive waits before it gives up with EAGAIN; `None` is for ever.
pub fn set_receive_timeout(socket: impl AsFd, after: Option<std::time::Duration>) -> Result<(), Errno> {
    net::sockopt::set_socket_timeout(socket, net::sockopt::Timeout::Recv, after)
}
