//! Sockets and the descriptors that travel over them.
//! Only what the supervisor and the worker need; both decide for themselves what they accept.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{self, RecvFlags};

use super::Errno;

pub use super::system::socket::{
    MAX_SOCKET_PATH, is_unix_stream, message_pair, peer_cred, peer_groups, peer_pidfd, receive, send,
    send_stream, unread_bytes,
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

/// Bytes of a stream, never waiting. `Ok(0)` is the end. Attached descriptors are dropped by the kernel.
pub fn receive_stream(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Ok((_, len)) => return Ok(len),
            Err(errno) => return Err(errno),
        }
    }
}

pub fn shutdown(socket: impl AsFd) {
    // The peer may be gone already; nothing is left to do then.
    let _ = net::shutdown(socket, net::Shutdown::Both);
}

/// Who is at the other end, as the kernel recorded it when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCred {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

pub fn set_nonblocking(socket: impl AsFd, on: bool) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(socket, on)
}
