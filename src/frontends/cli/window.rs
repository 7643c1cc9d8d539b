//! Decides which part of a file a call requests, and which part comes next. Pure.

use serde_json::Value;

use super::{failure::CliFailure, read::CliReadPiece};

/// Bytes of one window: few round trips for a large file, little memory for each, a third of the service's default
/// `max_read_bytes`.
pub(super) const WINDOW_BYTES: u64 = 3 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CliWindow {
    Whole,
    Stat,
    /// From 1, both ends included.
    Lines {
        from: u64,
        to: Option<u64>,
    },
    /// From 0, the end not included.
    Bytes {
        from: u64,
        to: Option<u64>,
    },
    Tail(u64),
}

impl CliWindow {
    pub(super) fn write_to(self, request: &mut Value) {
        match self {
            Self::Whole => {}
            Self::Stat => request["stat"] = true.into(),
            Self::Tail(count) => request["tail"] = count.into(),
            Self::Lines { from, to } => {
                request["line_from"] = from.into();
                if let Some(to) = to {
                    request["line_to"] = to.into();
                }
            }
            Self::Bytes { from, to } => {
                request["byte_from"] = from.into();
                if let Some(to) = to {
                    request["byte_to"] = to.into();
                }
            }
        }
    }

    /// The part of the window that one call should request.
    pub(super) fn limit_to_one_call(self) -> Self {
        match self {
            Self::Bytes { from, to } => {
                let end = from.saturating_add(WINDOW_BYTES);
                Self::Bytes { from, to: Some(to.map_or(end, |to| to.min(end))) }
            }
            other => other,
        }
    }

    /// The requested end of a byte window.
    pub(super) fn byte_end(self) -> Option<u64> {
        match self {
            Self::Bytes { to, .. } => to,
            _ => None,
        }
    }
}

/// The part of one file that a reply holds.
#[derive(Debug)]
pub(super) struct CliReadProgress {
    window: CliWindow,
    /// Size in the first piece. A file that grows meanwhile must not be read for ever.
    size: u64,
    changed_at: (Option<i64>, Option<u32>),
    pub(super) changed: bool,
}

impl CliReadProgress {
    pub(super) fn new(window: CliWindow, first: &CliReadPiece) -> Self {
        Self { window, size: first.size.unwrap_or(0), changed_at: (first.mtime, first.mtime_ns), changed: false }
    }

    /// The window to request after a piece of `length` bytes; `None` at the end of the file or of the window.
    pub(super) fn next_window(&mut self, length: u64, piece: &CliReadPiece) -> Result<Option<CliWindow>, CliFailure> {
        self.changed |=
            piece.size.is_some_and(|size| size != self.size) || (piece.mtime, piece.mtime_ns) != self.changed_at;
        let next = match self.window {
            CliWindow::Bytes { from, to } => {
                let (from, end) = (from + length, to.map_or(self.size, |to| to.min(self.size)));
                (length > 0 && from < end).then_some(CliWindow::Bytes { from, to })
            }
            CliWindow::Lines { from, to } => next_lines(from, to, piece)?,
            // A tail that was cut continues as lines; only the service knows their numbers.
            CliWindow::Tail(_) => piece.next_line.map(|from| CliWindow::Lines { from, to: None }),
            CliWindow::Whole | CliWindow::Stat => None,
        };
        // Stops if the file has changed: the bytes of two versions joined are a file that never existed.
        let next = next.filter(|_| !self.changed);
        self.window = next.unwrap_or(self.window);
        Ok(next)
    }
}

fn next_lines(from: u64, to: Option<u64>, piece: &CliReadPiece) -> Result<Option<CliWindow>, CliFailure> {
    let next = from.saturating_add(piece.lines_returned.unwrap_or(0));
    if !piece.more_lines || to.is_some_and(|to| next > to) {
        return Ok(None);
    }
    if next > from {
        return Ok(Some(CliWindow::Lines { from: next, to }));
    }
    // The service never splits a line, so the same request would return nothing again and again.
    let bytes = piece.next_byte.map_or_else(|| "--bytes".to_owned(), |byte| format!("--bytes {byte}:"));
    Err(CliFailure::File(format!("line {from} is longer than one reply may be; read it with {bytes}")))
}
