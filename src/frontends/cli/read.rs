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
    CommandResult, FileSession,
    args::ReadArgs,
    escape::{ContentEscaper, escape_text},
    failure::{CliFailure, EXIT_REFUSED, entry_failure, parse_coded_error, unexpected_result},
    output::{Output, Paint},
    paths::{PathBase, display_path},
    units::utc_minute,
    window::{CliReadProgress, CliWindow},
};

const METHOD: &str = "coder::read-file";

/// Paths of one batch call; far below the service's limit of 1,000, which a policy may lower.
const BATCH_PATHS: usize = 100;

/// The reads to make, decided before a connection exists.
#[derive(Debug)]
pub(super) struct ReadCommand<'a> {
    paths: &'a [OsString],
    window: CliWindow,
    form: ContentForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentForm {
    ExactBytes,
    Numbered,
    Base64,
}

/// One file's part of a reply; the only part when a single path was sent.
#[derive(Debug, Deserialize)]
pub(super) struct CliReadPiece {
    pub(super) content: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) lines_returned: Option<u64>,
    pub(super) total_lines: Option<u64>,
    #[serde(default)]
    pub(super) more_lines: bool,
    /// The line at which a cut line window or a tail continues.
    pub(super) next_line: Option<u64>,
    /// The byte at which to continue if a single line is over the limit.
    pub(super) next_byte: Option<u64>,
    is_utf8: Option<bool>,
    charset: Option<String>,
    mode: Option<u32>,
    pub(super) mtime: Option<i64>,
    pub(super) mtime_ns: Option<u32>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CliReadBatch {
    results: Vec<CliReadPiece>,
}

impl<'a> ReadCommand<'a> {
    pub(super) fn new(args: &'a ReadArgs) -> Self {
        let form = match (args.number, args.base64) {
            (true, _) => ContentForm::Numbered,
            (_, true) => ContentForm::Base64,
            _ => ContentForm::ExactBytes,
        };
        let window = match (args.stat, args.lines, args.tail, args.bytes, args.max_bytes) {
            (true, ..) => CliWindow::Stat,
            (_, Some(lines), ..) => CliWindow::Lines { from: lines.from, to: lines.to },
            (_, _, Some(count), ..) => CliWindow::Tail(count),
            (_, _, _, Some(bytes), _) => CliWindow::Bytes { from: bytes.from, to: bytes.to },
            (.., Some(max)) => CliWindow::Bytes { from: 0, to: Some(max) },
            _ => CliWindow::Whole,
        };
        Self { paths: &args.paths, window, form }
    }

    pub(super) fn run(&self, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
        if out.json {
            return self.run_json(session, out);
        }
        if let [path] = self.paths {
            return self.print(path, None, session, out).map(|()| 0);
        }
        let mut failed = Vec::new();
        for (index, paths) in self.paths.chunks(BATCH_PATHS).enumerate() {
            let base = session.path_base();
            let request = |path| self.build_request(path, self.first_window(), base);
            let entries: Vec<Value> = paths.iter().map(request).collect();
            let reply = session.call(METHOD, &json!({ "paths": entries }).to_string())?;
            let batch: CliReadBatch = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
            if batch.results.len() != paths.len() {
                return Err(CallError::Protocol("a batch with another number of results".into()).into());
            }
            for (at, (path, piece)) in paths.iter().zip(batch.results).enumerate() {
                self.header(path, index + at > 0, out)?;
                match self.print(path, Some(piece), session, out) {
                    // A file that cannot be read does not hide the others.
                    Err(failure @ (CliFailure::Call(CallError::Remote(_)) | CliFailure::File(_))) => {
                        failed.push(out.report_entry(failure))
                    }
                    other => other?,
                }
            }
        }
        Ok(out.report_hints(&failed))
    }

    /// Prints the reply as received: no paging, and only the encoding that was asked for.
    fn run_json(&self, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
        let base = session.path_base();
        let request = |path| self.build_raw_request(path, base);
        let params = match self.paths {
            [path] => request(path),
            paths => json!({ "paths": paths.iter().map(request).collect::<Vec<_>>() }),
        };
        let reply = session.call(METHOD, &params.to_string())?;
        out.write_json_line(reply.get())?;
        #[derive(Deserialize)]
        struct ReadStatusList {
            #[serde(default)]
            results: Vec<ReadStatus>,
        }
        #[derive(Deserialize)]
        struct ReadStatus {
            success: bool,
        }
        let entries: ReadStatusList = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let failed = entries.results.iter().any(|entry| !entry.success);
        Ok(if failed { EXIT_REFUSED } else { 0 })
    }

    /// The window of the first call. Whole files are read by windows from the first call on: a full read of a file over the
    /// budget returns an error, not its head, and would cost a second call.
    fn first_window(&self) -> CliWindow {
        match (self.window, self.form) {
            (CliWindow::Whole, ContentForm::Numbered) => CliWindow::Lines { from: 1, to: None },
            (CliWindow::Whole, _) => CliWindow::Bytes { from: 0, to: None },
            (window, _) => window,
        }
    }

    /// One call of a paged read.
    fn build_request(&self, path: &OsString, window: CliWindow, base: &PathBase) -> Value {
        let exact = !matches!(window, CliWindow::Stat) && self.form != ContentForm::Numbered;
        self.build_window_request(base.wire_path(path), window.limit_to_one_call(), exact)
    }

    /// The request with the service's own fields, as typed.
    fn build_raw_request(&self, path: &OsString, base: &PathBase) -> Value {
        self.build_window_request(base.wire_path(path), self.window, self.form == ContentForm::Base64)
    }

    fn build_window_request(&self, mut request: Value, window: CliWindow, base64: bool) -> Value {
        window.write_to(&mut request);
        if base64 {
            request["encoding"] = "base64".into();
        }
        if self.form == ContentForm::Numbered {
            request["numbered"] = true.into();
        }
        request
    }

    fn header(&self, path: &OsString, again: bool, out: &mut Output<'_>) -> Result<(), CliFailure> {
        if self.window == CliWindow::Stat {
            return Ok(());
        }
        let line = format!("==> {} <==", display_path(path));
        let gap = if again { "\n" } else { "" };
        let line = out.style.paint(Paint::Bold, &line);
        out.write_text(&format!("{gap}{line}\n"))
    }

    /// Prints one file, beginning with the piece a batch has already brought.
    fn print(
        &self,
        path: &OsString,
        piece: Option<CliReadPiece>,
        session: &mut dyn FileSession,
        out: &mut Output<'_>,
    ) -> Result<(), CliFailure> {
        let mut fetch = |window| self.fetch(path, window, session);
        let first = match piece {
            // Earlier files used up the budget of the batch. A call of its own has a new budget.
            Some(piece) if piece.coded_error().is_some_and(|error| error.code == "C213") => fetch(self.first_window())?,
            Some(piece) => piece.check_success()?,
            None => fetch(self.first_window())?,
        };
        if self.window == CliWindow::Stat {
            return out.write_text(&render_stat(path, &first));
        }
        let (size, limit) = (first.size, self.first_window().byte_end());
        let behind_end = self.behind_end(path, &first);
        let changed = match self.form {
            ContentForm::Base64 => {
                let mut encoder = base64::write::EncoderWriter::new(&mut *out.stdout, &BASE64);
                let changed = self.copy_windows(first, &mut fetch, &mut encoder)?;
                encoder.finish()?;
                drop(encoder);
                out.write_text("\n")?;
                changed
            }
            _ if out.terminal_columns.is_some() => {
                let mut view = EscapingWriter { out: &mut *out.stdout, content: ContentEscaper::default() };
                let changed = self.copy_windows(first, &mut fetch, &mut view)?;
                if view.finish()? {
                    out.write_remark(&format!(
                        "{}: control and invisible characters are shown as escapes; a pipe gets the bytes",
                        display_path(path)
                    ))?;
                }
                changed
            }
            _ => self.copy_windows(first, &mut fetch, out.stdout)?,
        };
        if changed {
            return Err(CliFailure::File(format!(
                "{}: changed while it was being read; the output mixes two versions",
                display_path(path)
            )));
        }
        behind_end.map_or(Ok(()), |remark| out.write_remark(&remark))?;
        self.remark_cut(path, size, limit, out)
    }

    /// A remark about a window that begins after the end of the file. Without it, the file would seem empty.
    fn behind_end(&self, path: &OsString, piece: &CliReadPiece) -> Option<String> {
        let is_empty = piece.content.as_deref() == Some("") && !piece.more_lines;
        let end = match (self.window, piece.total_lines, piece.size) {
            (CliWindow::Lines { .. }, Some(0), _) => "the file has no lines".to_owned(),
            (CliWindow::Lines { .. }, Some(last), _) => format!("the last line is {last}"),
            (CliWindow::Bytes { from, .. }, _, Some(size)) if from > 0 => format!("the file has {size} bytes"),
            _ => return None,
        };
        is_empty.then(|| format!("{}: nothing there: {end}", display_path(path)))
    }

    fn fetch(
        &self,
        path: &OsString,
        window: CliWindow,
        session: &mut dyn FileSession,
    ) -> Result<CliReadPiece, CliFailure> {
        let request = self.build_request(path, window, session.path_base());
        let reply = session.call(METHOD, &request.to_string())?;
        serde_json::from_str(reply.get()).map_err(unexpected_result)
    }

    /// Copies window after window; true if the file changed between two of them.
    fn copy_windows(
        &self,
        first: CliReadPiece,
        fetch: &mut dyn FnMut(CliWindow) -> Result<CliReadPiece, CliFailure>,
        to: &mut dyn Write,
    ) -> Result<bool, CliFailure> {
        let mut progress = CliReadProgress::new(self.first_window(), &first);
        let mut piece = first;
        loop {
            let content = piece.content.as_deref().unwrap_or_default();
            let length = match self.form {
                ContentForm::Numbered => {
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
            let Some(next) = progress.next_window(length as u64, &piece)? else {
                return Ok(progress.changed);
            };
            piece = fetch(next)?;
        }
    }

    fn remark_cut(
        &self,
        path: &OsString,
        size: Option<u64>,
        limit: Option<u64>,
        out: &mut Output<'_>,
    ) -> Result<(), CliFailure> {
        match (self.window, size, limit) {
            (CliWindow::Bytes { from: 0, .. }, Some(size), Some(limit)) if limit < size => {
                out.write_remark(&format!("{}: first {limit} of {size} bytes", display_path(path)))
            }
            _ => Ok(()),
        }
    }
}

/// Writes content to a terminal, and escapes everything that would control the terminal.
struct EscapingWriter<'a> {
    out: &'a mut dyn Write,
    content: ContentEscaper,
}

impl EscapingWriter<'_> {
    /// True if anything was shown as an escape.
    fn finish(mut self) -> io::Result<bool> {
        let rest = self.content.finish();
        self.out.write_all(rest.as_bytes())?;
        Ok(self.content.is_escaped)
    }
}

impl Write for EscapingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(self.content.push(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl CliReadPiece {
    fn coded_error(&self) -> Option<RemoteError> {
        self.error.as_deref().and_then(parse_coded_error)
    }

    fn check_success(self) -> Result<Self, CliFailure> {
        match &self.error {
            Some(error) => Err(entry_failure(error)),
            None => Ok(self),
        }
    }
}

fn render_stat(path: &OsString, piece: &CliReadPiece) -> String {
    let mut facts = Vec::new();
    facts.extend(piece.size.map(|size| format!("{size} bytes")));
    facts.extend(piece.total_lines.map(|lines| format!("{lines} lines")));
    facts.extend(match &piece.charset {
        Some(charset) => Some(escape_text(charset).to_uppercase()),
        None => piece.is_utf8.map(|utf8| if utf8 { "UTF-8" } else { "not UTF-8" }.to_owned()),
    });
    facts.extend(piece.mode.map(|mode| format!("mode {mode:04o}")));
    facts.extend(piece.mtime.map(|mtime| format!("modified {} UTC", utc_minute(mtime))));
    format!("{}: {}\n", display_path(path), facts.join(", "))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
