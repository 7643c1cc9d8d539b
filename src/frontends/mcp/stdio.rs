//! Runs in `stockade mcp`: standard input and output as the runtime can wait for them.

use std::{io, os::unix::net::UnixStream};

use tokio::{io::AsyncWrite, net::unix::pipe};

use super::input::HostReader;
use crate::{
    frontends::halves,
    sys::stdio::{Standard, input, output},
};

pub(super) type HostWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Hosts give pipes, or sockets where they are written for Node. With anything else a thread waits: slower, and only seen by
/// a person who types.
pub(super) fn open() -> io::Result<(HostReader, HostWriter)> {
    let reader: HostReader = match input()? {
        Standard::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        Standard::Socket(fd) => Box::new(halves::reader(UnixStream::from(fd))?),
        Standard::Other => Box::new(tokio::io::stdin()),
    };
    let writer: HostWriter = match output()? {
        Standard::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        Standard::Socket(fd) => Box::new(halves::writer(UnixStream::from(fd))),
        Standard::Other => Box::new(tokio::io::stdout()),
    };
    Ok((reader, writer))
}
