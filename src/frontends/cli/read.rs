//! `stockade read`: files as bytes. One call answers one budget; this pages through as many as a file needs.
//!
//! Content travels as base64 unless lines are numbered, so that a pipe gets what is on the disk. A terminal gets control and
//! invisible characters as escapes.

use std::{
    ffi::OsString,
    io::{self, Write},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    super::client::{CallError, RemoteError},
    Outcome, Session,
    args::ReadArgs,
    escape::Content,
    failure::{EXIT_REFUSED, Failure, coded, entry_failure, unexpected},
    home::{shown, wire_path},
    output::{Output, Paint},
    units::utc_minute,
    window::{Progress, Window},
};

const METHOD: &str = "coder::read-file";

/// Paths of one batch call; far below the service's limit of 1,000, which a policy may lower.
const BATCH_PATHS: usize = 100;

/// What to read, decided before a connection exists.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    paths: &'a [OsString],
    window: Window,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Exact,
    Numbered,
    Base64,
}

/// One file's part of a reply; the only part when a single path was sent.
#[derive(Debug, Deserialize)]
pub(super) struct Piece {
    pub(super) content: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) lines_returned: Option<u64>,
    pub(super) total_lines: Option<u64>,
    #[serde(default)]
    pub(super) more_lines: bool,
    /// Where a cut line window, or a tail, goes on.
    pub(super) next_line: Option<u64>,
    /// The same in bytes, when a single line is over the limit.
    pub(super) next_byte: Option<u64>,
    is_utf8: Option<bool>,
    mode: Option<u32>,
    pub(super) mtime: Option<i64>,
    pub(super) mtime_ns: Option<u32>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Batch {
    results: Vec<Piece>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(args: &'a ReadArgs) -> Self {
        let form = match (args.number, args.base64) {
            (true, _) => Form::Numbered,
            (_, true) => Form::Base64,
            _ => Form::Exact,
        };
        let window = match (args.stat, args.lines, args.tail, args.bytes, args.max_bytes) {
            (true, ..) => Window::Stat,
            (_, Some(lines), ..) => Window::Lines { from: lines.from, to: lines.to },
            (_, _, Some(count), ..) => Window::Tail(count),
            (_, _, _, Some(bytes), _) => Window::Bytes { from: bytes.from, to: bytes.to },
            (.., Some(max)) => Window::Bytes { from: 0, to: Some(max) },
            _ => Window::Whole,
        };
        Self { paths: &args.paths, window, form }
    }

    pub(super) fn run(&self, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
        if out.json {
            return self.run_json(session, out);
        }
        if let [path] = self.paths {
            return self.print(path, None, session, out).map(|()| 0);
        }
        let mut failed = Vec::new();
        for (index, paths) in self.paths.chunks(BATCH_PATHS).enumerate() {
            let entries: Vec<Value> = paths.iter().map(|path| self.request(path, self.first())).collect();
            let reply = session.call(METHOD, &json!({ "paths": entries }).to_string())?;
            let batch: Batch = serde_json::from_str(reply.get()).map_err(unexpected)?;
            if batch.results.len() != paths.len() {
                return Err(CallError::Protocol("a batch with another number of results".into()).into());
            }
            for (at, (path, piece)) in paths.iter().zip(batch.results).enumerate() {
                self.header(path, index + at > 0, out)?;
                match self.print(path, Some(piece), session, out) {
                    // One file that cannot be read does not hide the others.
                    Err(failure @ (Failure::Call(CallError::Remote(_)) | Failure::File(_))) => {
                        failed.push(out.report_entry(failure))
                    }
                    other => other?,
                }
            }
        }
        Ok(out.report_hints(&failed))
    }

    /// The reply as it is: no paging, no recoding beyond what was asked for.
    fn run_json(&self, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
        let request = |path| self.raw_request(path);
        let params = match self.paths {
            [path] => request(path),
            paths => json!({ "paths": paths.iter().map(request).collect::<Vec<_>>() }),
        };
        let reply = session.call(METHOD, &params.to_string())?;
        out.json_line(reply.get())?;
        #[derive(Deserialize)]
        struct Entries {
            #[serde(default)]
            results: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            success: bool,
        }
        let entries: Entries = serde_json::from_str(reply.get()).map_err(unexpected)?;
        let failed = entries.results.iter().any(|entry| !entry.success);
        Ok(if failed { EXIT_REFUSED } else { 0 })
    }

    /// Where reading starts. Whole files go by windows from the first call on: a full read answers an error, not a
    /// head, once the file is over the budget, and would cost a second call.
    fn first(&self) -> Window {
        match (self.window, self.form) {
            (Window::Whole, Form::Numbered) => Window::Lines { from: 1, to: None },
            (Window::Whole, _) => Window::Bytes { from: 0, to: None },
            (window, _) => window,
        }
    }

    /// One call of a paged read.
    fn request(&self, path: &OsString, window: Window) -> Value {
        let exact = !matches!(window, Window::Stat) && self.form != Form::Numbered;
        self.write_request(path, window.one_call(), exact)
    }

    /// What was typed, as the service's own fields.
    fn raw_request(&self, path: &OsString) -> Value {
        self.write_request(path, self.window, self.form == Form::Base64)
    }

    fn write_request(&self, path: &OsString, window: Window, base64: bool) -> Value {
        let mut request = wire_path(path);
        window.write_to(&mut request);
        if base64 {
            request["encoding"] = "base64".into();
        }
        if self.form == Form::Numbered {
            request["numbered"] = true.into();
        }
        request
    }

    fn header(&self, path: &OsString, again: bool, out: &mut Output<'_>) -> Result<(), Failure> {
        if self.window == Window::Stat {
            return Ok(());
        }
        let line = format!("==> {} <==", shown(path));
        let gap = if again { "\n" } else { "" };
        let line = out.style.paint(Paint::Bold, &line);
        out.text(&format!("{gap}{line}\n"))
    }

    /// Prints one file, beginning with the piece a batch has already brought.
    fn print(
        &self,
        path: &OsString,
        piece: Option<Piece>,
        session: &mut dyn Session,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        let mut fetch = |window| self.fetch(path, window, session);
        let first = match piece {
            // The batch's budget was used up by the files before; alone it has a budget of its own.
            Some(piece) if piece.coded().is_some_and(|error| error.code == "C213") => fetch(self.first())?,
            Some(piece) => piece.checked()?,
            None => fetch(self.first())?,
        };
        if self.window == Window::Stat {
            return out.text(&render_stat(path, &first));
        }
        let (size, limit) = (first.size, self.first().end());
        let changed = match self.form {
            Form::Base64 => {
                let mut encoder = base64::write::EncoderWriter::new(&mut *out.out, &BASE64);
                let changed = self.copy(first, &mut fetch, &mut encoder)?;
                encoder.finish()?;
                drop(encoder);
                out.text("\n")?;
                changed
            }
            _ if out.terminal.is_some() => {
                let mut view = Shown { out: &mut *out.out, content: Content::default() };
                let changed = self.copy(first, &mut fetch, &mut view)?;
                if view.finish()? {
                    out.remark(&format!(
                        "{}: control and invisible characters are shown as escapes; a pipe gets the bytes",
                        shown(path)
                    ))?;
                }
                changed
            }
            _ => self.copy(first, &mut fetch, out.out)?,
        };
        if changed {
            return Err(Failure::File(format!(
                "{}: changed while it was being read; the output mixes two versions",
                shown(path)
            )));
        }
        self.remark_cut(path, size, limit, out)
    }

    fn fetch(&self, path: &OsString, window: Window, session: &mut dyn Session) -> Result<Piece, Failure> {
        let reply = session.call(METHOD, &self.request(path, window).to_string())?;
        serde_json::from_str(reply.get()).map_err(unexpected)
    }

    /// Copies window after window; true if the file changed between two of them.
    fn copy(
        &self,
        first: Piece,
        fetch: &mut dyn FnMut(Window) -> Result<Piece, Failure>,
        to: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let mut progress = Progress::new(self.first(), &first);
        let mut piece = first;
        loop {
            let content = piece.content.as_deref().unwrap_or_default();
            let length = match self.form {
                Form::Numbered => {
                    to.write_all(content.as_bytes())?;
                    content.len()
                }
                _ => {
                    let bytes = BASE64
                        .decode(content)
                        .map_err(|error| CallError::Protocol(format!("content is not base64: {error}")))?;
                    to.write_all(&bytes)?;
                    bytes.len()
                }
            };
            let Some(next) = progress.next(length as u64, &piece)? else { return Ok(progress.changed) };
            piece = fetch(next)?;
        }
    }

    fn remark_cut(
        &self,
        path: &OsString,
        size: Option<u64>,
        limit: Option<u64>,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        match (self.window, size, limit) {
            (Window::Bytes { from: 0, .. }, Some(size), Some(limit)) if limit < size => {
                out.remark(&format!("{}: first {limit} of {size} bytes", shown(path)))
            }
            _ => Ok(()),
        }
    }
}

/// Content on its way to a terminal, with whatever would act on it as escapes.
struct Shown<'a> {
    out: &'a mut dyn Write,
    content: Content,
}

impl Shown<'_> {
    /// True if anything was shown as an escape.
    fn finish(mut self) -> io::Result<bool> {
        let rest = self.content.finish();
        self.out.write_all(rest.as_bytes())?;
        Ok(self.content.is_escaped)
    }
}

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(self.content.push(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Piece {
    fn coded(&self) -> Option<RemoteError> {
        self.error.as_deref().and_then(coded)
    }

    fn checked(self) -> Result<Self, Failure> {
        match &self.error {
            Some(error) => Err(entry_failure(error)),
            None => Ok(self),
        }
    }
}

fn render_stat(path: &OsString, piece: &Piece) -> String {
    let mut facts = Vec::new();
    facts.extend(piece.size.map(|size| format!("{size} bytes")));
    facts.extend(piece.total_lines.map(|lines| format!("{lines} lines")));
    facts.extend(piece.is_utf8.map(|utf8| if utf8 { "UTF-8" } else { "not UTF-8" }.to_owned()));
    facts.extend(piece.mode.map(|mode| format!("mode {mode:04o}")));
    facts.extend(piece.mtime.map(|mtime| format!("modified {} UTC", utc_minute(mtime))));
    format!("{}: {}\n", shown(path), facts.join(", "))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
