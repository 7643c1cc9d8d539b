//! Messages over a byte stream, for systems without message sockets: four bytes of length, then the message; the descriptors
//! come with the first byte. Datagram sockets are no alternative, because they do not report that the far end is closed, and
//! a worker must end with its supervisor.
//!
//! The sockets are non-blocking, because macOS has no flag for a single send that does not block. Callers that want to wait
//! use `poll`.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::FdFlags,
    net::{
        self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
    },
};

use crate::sys::{
    Errno,
    socket::{MAX_FDS, SocketMessage, WaitMode, set_nonblocking, shutdown},
};

const HEADER: usize = 4;
/// The longest message; what message sockets of Linux take is about the same.
const MAX_MESSAGE: usize = 192 << 10;
/// Larger than the default, because the set-up of a worker is sent before the worker reads.
const BUFFER_BYTES: usize = 512 << 10;
/// A non-blocking receive takes a message only once it has arrived as a whole. If the system reported a wrong number of
/// bytes, this bounds the wait.
const PATIENCE_NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a blocking receive waits for the rest of a message that has begun to arrive.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// A connected pair of message sockets, both close-on-exec.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    for socket in [&one, &other] {
        rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC)?;
        sockopt::set_socket_send_buffer_size(socket, BUFFER_BYTES)?;
        sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES)?;
        set_nonblocking(socket, true)?;
    }
    Ok((one, other))
}

/// Sends one message with its descriptors. After a failure halfway nothing more can be sent: the far end sees the end
/// of the channel and never half a message.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>], wait: WaitMode) -> Result<(), Errno> {
    // Threads share a channel, those of a worker and those of a supervisor, and a long message takes several calls.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if bytes.len() > MAX_MESSAGE {
        return Err(Errno::MSGSIZE);
    }
    let len = (bytes.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    let mut sent = 0;
    while sent < HEADER + bytes.len() {
        let rest = [IoSlice::new(&len[sent.min(HEADER)..]), IoSlice::new(&bytes[sent.saturating_sub(HEADER)..])];
        match net::sendmsg(socket, &rest, &mut control, SendFlags::empty()) {
            Ok(more) => {
                sent += more;
                control.clear();
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == WaitMode::Block => {
                wait_until(socket, PollFlags::OUT, None)?;
            }
            Err(errno) => {
                if sent > 0 {
                    shutdown(socket);
                }
                return Err(errno);
            }
        }
    }
    Ok(())
}

/// Receives one message; `len == 0` is the end of the stream. All descriptors are close-on-exec. A socket with a
/// timeout gives EAGAIN when nothing has begun until then.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], wait: WaitMode) -> Result<SocketMessage, Errno> {
    let patience = match wait {
        WaitMode::Now if !is_whole(socket)? => return Err(Errno::AGAIN),
        WaitMode::Now => &PATIENCE_NOW,
        WaitMode::Block => {
            wait_for_input(socket)?;
            &PATIENCE
        }
    };
    let (mut header, mut fds) = ([0; HEADER], Vec::new());
    match fill(socket, &mut header, &mut fds, patience)? {
        0 => return Ok(SocketMessage { len: 0, fds: Vec::new() }),
        HEADER => {}
        _ => return Err(Errno::CONNRESET),
    }
    let len = u32::from_le_bytes(header) as usize;
    if len == 0 {
        return Err(Errno::BADMSG);
    }
    let body = buffer.get_mut(..len).ok_or(Errno::MSGSIZE)?;
    if fill(socket, body, &mut fds, patience)? < len { Err(Errno::CONNRESET) } else { Ok(SocketMessage { len, fds }) }
}

fn wait_for_input(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let timeout = sockopt::socket_timeout(socket, sockopt::Timeout::Recv)?
        .map(|after| Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() });
    match wait_until(socket, PollFlags::IN, timeout.as_ref())? {
        0 if timeout.is_some() => Err(Errno::AGAIN),
        _ => Ok(()),
    }
}

/// Whether a whole message, or the end of the stream, has arrived. Part of a message does not count: a hostile sender may
/// never send the rest.
fn is_whole(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut ready = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::io::retry_on_intr(|| poll(&mut ready, Some(&now)))?;
    // Asked first: after the end nothing more arrives.
    let ended = ready[0].revents().contains(PollFlags::HUP);
    let mut header = [0; HEADER];
    let peeked = rustix::io::retry_on_intr(|| {
        net::recv(socket, &mut header[..], RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(_, len)| len)
    })?;
    let len = u64::from(u32::from_le_bytes(header)) + HEADER as u64;
    let whole = peeked == 0 || (peeked == HEADER && rustix::io::ioctl_fionread(socket)? >= len);
    if ended && !whole { Err(Errno::CONNRESET) } else { Ok(whole) }
}

/// Reads until `into` is full; less only at the end. The system stops at the first byte that descriptors came with, so
/// those of the next message stay with it.
fn fill(socket: BorrowedFd<'_>, into: &mut [u8], fds: &mut Vec<OwnedFd>, patience: &Timespec) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < into.len() {
        let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let rest = &mut [IoSliceMut::new(&mut into[filled..])];
        let message = match net::recvmsg(socket, rest, &mut control, RecvFlags::empty()) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                if wait_until(socket, PollFlags::IN, Some(patience))? == 0 {
                    return Err(Errno::BADMSG);
                }
                continue;
            }
            other => other?,
        };
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                fds.extend(rights);
            }
        }
        for fd in &*fds {
            rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)?;
        }
        if message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > MAX_FDS {
            return Err(Errno::MSGSIZE);
        }
        if message.bytes == 0 {
            break;
        }
        filled += message.bytes;
    }
    Ok(filled)
}

/// 0 when the time is over.
fn wait_until(socket: BorrowedFd<'_>, what: PollFlags, timeout: Option<&Timespec>) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(socket, what)], timeout))
}

/// Some bytes of `bytes` onto a stream. A closed peer is EPIPE and no signal: Rust ignores that one from the start.
pub fn send_stream(socket: BorrowedFd<'_>, bytes: &[u8], wait: WaitMode) -> Result<usize, Errno> {
    // This applies to every holder of the socket, for good. It does no harm: no reader blocks in a read either.
    set_nonblocking(socket, true)?;
    loop {
        match net::send(socket, bytes, SendFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == WaitMode::Block => {
                wait_until(socket, PollFlags::OUT, None)?;
            }
            other => return other,
        }
    }
}

/// Not supported here. A far end that does not read its messages is noticed once the channel is full.
pub fn unread_bytes(_socket: impl AsFd) -> Result<usize, Errno> {
    Err(Errno::NOTSUP)
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
