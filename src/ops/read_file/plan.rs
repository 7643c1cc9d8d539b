//! Runs in the worker: checks what a read asks for, before any system call on a name. Pure.

use crate::wire::{
    Error, Result,
    types::read_file::{Encoding, Format, ReadEntry, ReadFileRequest},
};

/// The options that a single request and a batch entry share.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadOptions {
    pub(super) line_from: Option<u64>,
    pub(super) line_to: Option<u64>,
    pub(super) tail: Option<u64>,
    pub(super) byte_from: Option<u64>,
    pub(super) byte_to: Option<u64>,
    pub(super) stat: bool,
    pub(super) numbered: Option<bool>,
    pub(super) format: Option<Format>,
    pub(super) encoding: Option<Encoding>,
    pub(super) truncate: bool,
    pub(super) count_lines: bool,
    pub(super) etag: bool,
    pub(super) max_output_bytes: Option<u64>,
    pub(super) budget_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadShape {
    Full,
    Stat,
    /// 1-based, inclusive.
    Lines {
        from: u64,
        to: u64,
    },
    Tail {
        lines: u64,
    },
    /// 0-based, end exclusive.
    Bytes {
        from: u64,
        to: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub(super) shape: ReadShape,
    pub(super) numbered: bool,
    pub(super) base64: bool,
    pub(super) truncate: bool,
    pub(super) count_lines: bool,
    pub(super) etag: bool,
    pub(super) max_output_bytes: Option<u64>,
    /// The budget of a call for one file.
    pub(super) budget_bytes: Option<u64>,
}

impl From<&ReadFileRequest> for ReadOptions {
    fn from(request: &ReadFileRequest) -> Self {
        Self {
            line_from: request.line_from,
            line_to: request.line_to,
            tail: request.tail,
            byte_from: request.byte_from,
            byte_to: request.byte_to,
            stat: request.stat == Some(true),
            numbered: request.numbered,
            format: request.format,
            encoding: request.encoding,
            truncate: request.truncate == Some(true),
            count_lines: request.count_lines == Some(true),
            etag: request.etag == Some(true),
            max_output_bytes: request.max_output_bytes,
            budget_bytes: request.budget_bytes,
        }
    }
}

impl From<&ReadEntry> for ReadOptions {
    fn from(entry: &ReadEntry) -> Self {
        Self {
            line_from: entry.line_from,
            line_to: entry.line_to,
            tail: entry.tail,
            byte_from: entry.byte_from,
            byte_to: entry.byte_to,
            stat: entry.stat == Some(true),
            numbered: entry.numbered,
            format: entry.format,
            encoding: entry.encoding,
            truncate: entry.truncate == Some(true),
            count_lines: entry.count_lines == Some(true),
            etag: entry.etag == Some(true),
            max_output_bytes: None,
            budget_bytes: None,
        }
    }
}

impl ReadOptions {
    /// Checks in the order of the contract; checks that only this service makes come last.
    pub(super) fn plan(&self) -> Result<ReadPlan> {
        self.check_lines()?;
        self.check_stat()?;
        if let (Some(window), Some(_)) = (self.window_field(), self.max_output_bytes) {
            return Err(conflict_error("max_output_bytes is the budget of a full read", "max_output_bytes", window));
        }
        self.check_windows()?;
        self.check_rendering()?;
        Ok(ReadPlan {
            shape: self.shape(),
            numbered: self.is_numbered(),
            base64: self.encoding == Some(Encoding::Base64),
            truncate: self.truncate || self.budget_bytes.is_some(),
            count_lines: self.count_lines,
            etag: self.etag,
            max_output_bytes: self.max_output_bytes,
            budget_bytes: self.budget_bytes,
        })
    }

    fn check_lines(&self) -> Result<()> {
        if self.line_from == Some(0) {
            return Err(Error::bad_input("line_from: lines are 1-based, the first line is 1"));
        }
        let from = self.line_from.unwrap_or(1);
        match self.line_to {
            Some(to) if to < from => Err(Error::bad_input(format!(
                "line_to: {to} lies before line_from {from}; lines are 1-based and line_to is inclusive"
            ))),
            _ => Ok(()),
        }
    }

    fn check_stat(&self) -> Result<()> {
        if !self.stat {
            return Ok(());
        }
        let other = if let Some(window) = self.window_field() {
            window
        } else if self.is_numbered() {
            if self.numbered == Some(true) { "numbered" } else { "format" }
        } else if self.max_output_bytes.is_some() {
            "max_output_bytes"
        } else if self.encoding == Some(Encoding::Base64) {
            "encoding"
        } else if self.truncate {
            "truncate"
        } else {
            return Ok(());
        };
        Err(conflict_error("stat returns no content", "stat", other))
    }

    fn check_windows(&self) -> Result<()> {
        let by_line = self.line_window_field();
        let by_byte = self.byte_window_field();
        let pair = match (by_line, self.tail, by_byte) {
            (Some(line), Some(_), _) => Some((line, "tail")),
            (Some(line), _, Some(byte)) => Some((line, byte)),
            (_, Some(_), Some(byte)) => Some(("tail", byte)),
            _ => None,
        };
        if let Some((one, other)) = pair {
            return Err(conflict_error("one read has one window", one, other));
        }
        if self.tail == Some(0) {
            return Err(Error::bad_input("tail: expected at least 1 line, for example \"tail\": 50"));
        }
        match (self.byte_from.unwrap_or(0), self.byte_to) {
            (from, Some(to)) if to < from => Err(Error::bad_input(format!(
                "byte_to: {to} lies before byte_from {from}; bytes are 0-based and byte_to is exclusive"
            ))),
            _ => Ok(()),
        }
    }

    fn check_rendering(&self) -> Result<()> {
        if self.numbered == Some(true) && self.format == Some(Format::Plain) {
            return Err(conflict_error("they contradict each other", "numbered: true", "format: \"plain\""));
        }
        if !self.is_numbered() {
            return Ok(());
        }
        if self.encoding == Some(Encoding::Base64) {
            return Err(conflict_error("base64 holds exact bytes", "encoding: \"base64\"", "numbered"));
        }
        match self.byte_window_field() {
            Some(byte) => Err(conflict_error("a byte window does not know its line numbers", byte, "numbered")),
            None => Ok(()),
        }
    }

    fn shape(&self) -> ReadShape {
        if self.stat {
            ReadShape::Stat
        } else if let Some(lines) = self.tail {
            ReadShape::Tail { lines }
        } else if self.line_window_field().is_some() {
            ReadShape::Lines { from: self.line_from.unwrap_or(1), to: self.line_to.unwrap_or(u64::MAX) }
        } else if self.byte_window_field().is_some() {
            ReadShape::Bytes { from: self.byte_from.unwrap_or(0), to: self.byte_to.unwrap_or(u64::MAX) }
        } else {
            ReadShape::Full
        }
    }

    fn is_numbered(&self) -> bool {
        self.numbered == Some(true) || self.format == Some(Format::Numbered)
    }

    fn line_window_field(&self) -> Option<&'static str> {
        self.line_from.map(|_| "line_from").or(self.line_to.map(|_| "line_to"))
    }

    fn byte_window_field(&self) -> Option<&'static str> {
        self.byte_from.map(|_| "byte_from").or(self.byte_to.map(|_| "byte_to"))
    }

    fn window_field(&self) -> Option<&'static str> {
        self.line_window_field().or(self.tail.map(|_| "tail")).or(self.byte_window_field())
    }
}

fn conflict_error(why: &str, one: &str, other: &str) -> Error {
    Error::bad_input(format!("{one} cannot be combined with {other}: {why}; drop one of them"))
}
