//! Runs in frontends that serve others (MCP): the two directions of a socket, waited for separately.
//!
//! A runtime that waits for both at once is woken by everything the far end takes, which is once for every line written,
//! and finds nothing to do. So reading waits for what can be read, and writing waits only after the socket was full.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd};

#[derive(Debug)]
pub struct SocketReader(AsyncFd<UnixStream>);

#[derive(Debug)]
pub struct SocketWriter {
    stream: UnixStream,
    /// While it is full.
    full_socket: Option<AsyncFd<UnixStream>>,
}

/// Has to be called inside a runtime, with a socket that does not block.
pub fn socket_reader(stream: UnixStream) -> io::Result<SocketReader> {
    register(stream, Interest::READABLE).map(SocketReader)
}

/// Like `socket_reader`. The two halves of one socket have separate descriptors.
pub fn socket_writer(stream: UnixStream) -> SocketWriter {
    SocketWriter { stream, full_socket: None }
}

/// The function is deprecated because a type could return a descriptor that it does not own. A stream owns its own. The
/// replacement is an unsafe function.
#[allow(deprecated)]
fn register(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}

impl AsyncRead for SocketReader {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            // Costs nothing if the caller has initialised the buffer before.
            let room = buffer.initialize_unfilled();
            let size = room.len();
            match ready.try_io(|stream| stream.get_ref().read(room)) {
                Ok(Ok(count)) => {
                    // A read that did not fill the buffer has emptied the socket. The next read finds the end of the stream.
                    if count > 0 && count < size {
                        ready.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for SocketWriter {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.full_socket.is_none() {
                        let waiting = self.stream.try_clone()?;
                        self.full_socket = Some(register(waiting, Interest::WRITABLE)?);
                    }
                    if let Some(full) = &self.full_socket {
                        ready!(full.poll_write_ready(context))?.clear_ready();
                    }
                }
                written => {
                    self.full_socket = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// More than a socket holds, in both directions at once, to the last byte and to the end.
    #[test]
    fn everything_arrives_however_full_the_socket_was() {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ends =
                [near, far].map(|stream| (socket_reader(stream.try_clone().unwrap()).unwrap(), socket_writer(stream)));
            let talks = ends.map(|(mut reader, mut writer)| {
                let sent: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
                let expected = sent.clone();
                let writing = tokio::spawn(async move {
                    writer.write_all(&sent).await.unwrap();
                    assert!(writer.full_socket.is_none(), "nothing waits for a socket that has room");
                    writer.shutdown().await.unwrap();
                });
                let reading = tokio::spawn(async move {
                    let mut received = Vec::new();
                    reader.read_to_end(&mut received).await.unwrap();
                    assert!(received == expected);
                });
                (writing, reading)
            });
            for (writing, reading) in talks {
                writing.await.unwrap();
                reading.await.unwrap();
            }
        });
    }
}
