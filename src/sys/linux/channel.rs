//! SOCK_SEQPACKET: messages that arrive whole or not at all.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    cmsg_space,
    net::{
        self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    },
};

pub use super::raw::unread_bytes;
use crate::sys::{
    Errno,
    socket::{MAX_FDS, SocketMessage, WaitMode},
};

/// A connected pair of message sockets, both close-on-exec and blocking.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message with its descriptors, whole or not at all.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>], wait: WaitMode) -> Result<(), Errno> {
    let mut flags = SendFlags::NOSIGNAL;
    if wait == WaitMode::Now {
        flags |= SendFlags::DONTWAIT;
    }
    let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    loop {
        match net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Ok(sent) if sent == bytes.len() => return Ok(()),
            Ok(_) => return Err(Errno::MSGSIZE),
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives one message; `len == 0` is the end of the stream. All descriptors are close-on-exec.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], wait: WaitMode) -> Result<SocketMessage, Errno> {
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if wait == WaitMode::Now {
        flags |= RecvFlags::DONTWAIT;
    }
    let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = match net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let mut fds = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                fds.extend(rights);
            }
        }
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Errno::MSGSIZE);
        }
        return Ok(SocketMessage { len: message.bytes, fds });
    }
}

/// Some bytes of `bytes` onto a stream. A closed peer is EPIPE, never a signal.
pub fn send_stream(socket: BorrowedFd<'_>, bytes: &[u8], wait: WaitMode) -> Result<usize, Errno> {
    let flags = if wait == WaitMode::Now { SendFlags::NOSIGNAL | SendFlags::DONTWAIT } else { SendFlags::NOSIGNAL };
    loop {
        match net::send(socket, bytes, flags) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
