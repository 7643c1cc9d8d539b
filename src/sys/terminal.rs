//! What the command line asks its terminal. Nothing here is part of the jail.

use std::os::fd::AsFd;

/// Columns of the terminal behind `fd`; nothing if it is not a terminal or does not know.
pub fn columns(fd: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
