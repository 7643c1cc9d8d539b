//! Runs in `stockade mcp`: standard input and output as the runtime can wait for them.

use std::{io, os::unix::net::UnixStream};

use tokio::{io::AsyncWrite, net::unix::pipe};

use super::input::HostReader;
use crate::{
    frontends::socket_halves,
    sys::stdio::{StandardStream, input, output},
};

pub(super) type HostWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Hosts give pipes, or sockets where they are written for Node. With anything else a thread waits: slower, and only seen by
/// a person who types.
pub(super) fn open_stdio() -> io::Result<(HostReader, HostWriter)> {
    let reader: HostReader = match input()? {
        StandardStream::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        StandardStream::Socket(fd) => Box::new(socket_halves::socket_reader(UnixStream::from(fd))?),
        StandardStream::Other => Box::new(tokio::io::stdin()),
    };
    let writer: HostWriter = match output()? {
        StandardStream::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        StandardStream::Socket(fd) => Box::new(socket_halves::socket_writer(UnixStream::from(fd))),
        StandardStream::Other => Box::new(tokio::io::stdout()),
    };
    Ok((reader, writer))
}
