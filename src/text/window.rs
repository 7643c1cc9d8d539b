//! Lines A to B of a stream, whole lines only, within a budget.

use super::{BOM, Measure, number};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSpec {
    /// First line, 1-based.
    pub from: u64,
    /// Last line, inclusive; `u64::MAX` = to the end.
    pub to: u64,
    /// Most bytes to collect, number prefixes included.
    pub max_bytes: u64,
    pub measure: Measure,
    pub numbered: bool,
    /// Whether a byte order mark goes in front of line 1. It is in no line, so windows leave it out; the head of a
    /// whole file keeps it.
    pub keep_bom: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowContent {
    pub content: Vec<u8>,
    pub lines: u64,
    /// Only when the end of the stream was seen.
    pub total_lines: Option<u64>,
    /// The stream goes on after the content.
    pub has_more: bool,
    /// The budget, not the end of the window, stopped it.
    pub over_budget: bool,
    /// Line and byte offset where the content stopped, when `has_more`.
    pub next_line: u64,
    pub next_byte: u64,
}

#[derive(Debug, Clone)]
pub struct LineWindow {
    spec: WindowSpec,
    out: Vec<u8>,
    used: u64,
    lines: u64,
    /// Number of the line at the cursor.
    line: u64,
    /// Whether the cursor is inside that line, its first byte seen.
    is_inside_line: bool,
    /// Where that line begins, in `out` and in the stream.
    line_begin: usize,
    line_offset: u64,
    offset: u64,
    /// The first bytes, until it is known whether they are a byte order mark.
    head: Option<Vec<u8>>,
    stopped: Option<WindowStop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowStop {
    WindowEnd,
    Budget,
}

impl LineWindow {
    pub fn new(spec: WindowSpec) -> Self {
        Self {
            spec,
            out: Vec::new(),
            used: 0,
            lines: 0,
            line: 1,
            is_inside_line: false,
            line_begin: 0,
            line_offset: 0,
            offset: 0,
            head: Some(Vec::new()),
            stopped: None,
        }
    }

    /// True once no further chunk can change the result.
    pub fn push(&mut self, chunk: &[u8]) -> bool {
        match self.head.take() {
            None => self.process(chunk),
            Some(mut head) => {
                head.extend_from_slice(chunk);
                if head.len() < BOM.len() && BOM.starts_with(&head) {
                    self.head = Some(head);
                } else {
                    self.begin_stream(&head);
                }
            }
        }
        self.stopped.is_some()
    }

    /// `ended`: all of the stream was pushed, up to its end.
    pub fn finish(mut self, ended: bool) -> WindowContent {
        if let Some(head) = self.head.take() {
            self.begin_stream(&head);
        }
        if ended && self.stopped.is_none() && self.is_inside_line {
            self.end_line();
        }
        let over_budget = self.stopped == Some(WindowStop::Budget);
        let at_end = ended && self.stopped.is_none();
        WindowContent {
            lines: self.lines,
            total_lines: at_end.then(|| self.line - 1),
            has_more: !at_end,
            over_budget,
            next_line: self.line,
            next_byte: self.line_offset,
            content: self.out,
        }
    }

    fn begin_stream(&mut self, head: &[u8]) {
        let Some(rest) = head.strip_prefix(BOM) else { return self.process(head) };
        self.offset = BOM.len() as u64;
        if self.spec.keep_bom {
            // Without room for the mark there is none for line 1 either.
            if self.spec.max_bytes < BOM.len() as u64 {
                self.stopped = Some(WindowStop::Budget);
                return;
            }
            self.out.extend_from_slice(BOM);
            self.used = BOM.len() as u64;
        }
        self.line_offset = self.offset;
        self.process(rest);
    }

    fn process(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() && self.stopped.is_none() {
            if self.line > self.spec.to {
                self.stopped = Some(WindowStop::WindowEnd);
                return;
            }
            let end = memchr::memchr(b'\n', chunk);
            let segment = end.map_or(chunk, |at| &chunk[..=at]);
            if self.line >= self.spec.from && !self.collect(segment) {
                self.out.truncate(self.line_begin);
                self.stopped = Some(WindowStop::Budget);
                return;
            }
            self.is_inside_line = true;
            self.offset += segment.len() as u64;
            if end.is_some() {
                self.end_line();
            }
            chunk = &chunk[segment.len()..];
        }
    }

    /// False when the line at the cursor does not fit. Text is never shorter than its bytes, so this may be said
    /// before the line has ended and never holds more than the budget.
    fn collect(&mut self, segment: &[u8]) -> bool {
        if !self.is_inside_line {
            self.line_begin = self.out.len();
            if self.spec.numbered {
                number::push_prefix(&mut self.out, self.line);
            }
        }
        let held = (self.out.len() - self.line_begin) as u64 + segment.len() as u64;
        if held > self.spec.max_bytes - self.used || self.out.try_reserve(segment.len()).is_err() {
            return false;
        }
        self.out.extend_from_slice(segment);
        true
    }

    fn end_line(&mut self) {
        if self.line >= self.spec.from {
            let cost = self.spec.measure.of(&self.out[self.line_begin..]);
            if cost > self.spec.max_bytes - self.used {
                self.out.truncate(self.line_begin);
                self.stopped = Some(WindowStop::Budget);
                return;
            }
            self.used += cost;
            self.lines += 1;
        }
        self.line += 1;
        self.is_inside_line = false;
        self.line_offset = self.offset;
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
