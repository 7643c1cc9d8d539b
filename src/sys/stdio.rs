//! Standard input and output of a program that serves another one over them. Nothing here takes part in the jail.
//!
//! Waiting for many things at once needs descriptors that do not block, but that is a property of what they refer to,
//! not of the descriptor: the parent, its terminal or a sibling may share it. So a pipe is opened once more, which
//! gives it flags of its own; a socket's end is ours alone; with everything else a thread has to wait.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

#[derive(Debug)]
pub enum StandardStream {
    /// Does not block.
    Pipe(OwnedFd),
    /// Does not block.
    Socket(OwnedFd),
    /// A terminal, a file, or a pipe that may not be opened again: blocks.
    Other,
}

pub fn input() -> io::Result<StandardStream> {
    classify(io::stdin(), "/proc/self/fd/0", OFlags::RDONLY)
}

pub fn output() -> io::Result<StandardStream> {
    classify(io::stdout(), "/proc/self/fd/1", OFlags::WRONLY)
}

fn classify(fd: impl AsFd, again: &str, access: OFlags) -> io::Result<StandardStream> {
    let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode as _);
    Ok(match kind {
        FileType::Fifo => match open(again, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(own) => StandardStream::Pipe(own),
            Err(_) => StandardStream::Other,
        },
        FileType::Socket => {
            rustix::io::ioctl_fionbio(&fd, true)?;
            StandardStream::Socket(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
        }
        _ => StandardStream::Other,
    })
}
