//! The part of a long text that one reply shows. A text that is made anew for each reply (a page of a search, a tree, a dry run) is
//! pushed line by line; the pager keeps the lines from an offset on as long as they fit, and names the call for the next ones.

use super::{RenderContext, end_line, hidden::HiddenCharacters};

/// Between the cursor of the service and the offset in the text of its page.
const OFFSET_MARK: char = '@';

/// Bytes kept free for the warning about hidden characters and for the text around the next call.
const RESERVED_BYTES: usize = 1024 + 64;

/// Bytes of a cursor that replies name. Those of the service are shorter: base64 of a path and a few numbers. The smallest reply
/// holds a call with a cursor of this length and a line beside it.
const MAX_CURSOR_BYTES: usize = 12 << 10;

/// Digits of the largest offset, and its mark.
const OFFSET_BYTES: usize = 21;

/// `next_cursor` of the service, and the bytes of the text of its page that earlier replies have shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::frontends::mcp) struct TextCursor {
    pub(in crate::frontends::mcp) of_service: String,
    offset: u64,
}

impl TextCursor {
    /// None if it is not one that a reply named.
    pub(in crate::frontends::mcp) fn parse(cursor: &str) -> Option<Self> {
        if cursor.len() > MAX_CURSOR_BYTES {
            return None;
        }
        let Some((of_service, offset)) = cursor.rsplit_once(OFFSET_MARK) else {
            return Some(Self { of_service: cursor.into(), offset: 0 });
        };
        Some(Self { of_service: of_service.into(), offset: offset.parse().ok()? })
    }

    fn at(&self, offset: u64) -> String {
        format!("{}{OFFSET_MARK}{offset}", self.of_service)
    }
}

#[derive(Debug)]
pub(super) struct Pager {
    cursor: TextCursor,
    /// The call for the page behind this text.
    next_page: Option<String>,
    /// Bytes that this reply may show.
    max_bytes: usize,
    /// Bytes of the whole text up to here.
    position: u64,
    /// Lines that a reply shows first if it begins in the middle. They do not count in offsets.
    preface: String,
    shown: String,
    hidden: HiddenCharacters,
    /// The offset of the next reply, once something did not fit.
    next: Option<u64>,
    is_inside_line: bool,
}

impl Pager {
    pub(super) fn new(context: &RenderContext<'_>, next_page: Option<String>) -> Self {
        let cursor = context.cursor.clone();
        let widest = "0".repeat(cursor.of_service.len() + OFFSET_BYTES);
        let next = context.next_call("cursor", &widest).len().max(next_page.as_ref().map_or(0, String::len));
        Self {
            max_bytes: context.max_reply.saturating_sub(next + RESERVED_BYTES),
            cursor,
            next_page,
            position: 0,
            preface: String::new(),
            shown: String::new(),
            hidden: HiddenCharacters::default(),
            next: None,
            is_inside_line: false,
        }
    }

    /// One line with its end. True: at least a part of it is shown.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let begin = self.position;
        self.position += line.len() as u64;
        if self.next.is_some() || self.position <= self.cursor.offset {
            return false;
        }
        let skipped = usize::try_from(self.cursor.offset.saturating_sub(begin)).unwrap_or(line.len());
        let skipped = line.ceil_char_boundary(skipped);
        let (line, begin) = (&line[skipped..], begin + skipped as u64);
        if self.shown.len() + line.len() <= self.max_bytes {
            self.shown.push_str(line);
            return true;
        }
        if !self.shown.is_empty() {
            self.next = Some(begin);
            return false;
        }
        // Longer than a whole reply.
        let kept = &line[..line.floor_char_boundary(self.max_bytes)];
        self.shown.push_str(kept);
        self.next = Some(begin + kept.len() as u64);
        self.is_inside_line = true;
        true
    }

    /// A line with content of a file. If it is shown, hidden characters in it are counted under `name`.
    pub(super) fn push_content(&mut self, line: &str, content: &str, name: impl Fn() -> String) {
        if self.push(line) {
            self.hidden.scan(content, |_| name());
        }
    }

    /// Like `push`, but leaves a line out that does not fit together with `spare` bytes. True: it is shown.
    pub(super) fn push_if_fits(&mut self, line: &str, spare: usize) -> bool {
        self.shown.len() + line.len() + spare <= self.max_bytes && self.push(line)
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// True if nothing was pushed.
    pub(super) fn is_empty(&self) -> bool {
        self.position == 0
    }

    /// True if a part of the text is left for another reply.
    pub(super) fn is_cut(&self) -> bool {
        self.next.is_some()
    }

    /// True if the next line is the first that this reply shows, and the reply begins in the middle of the text.
    pub(super) fn is_at_middle(&self) -> bool {
        self.shown.is_empty() && self.cursor.offset > 0
    }

    /// Lines that the reader needs to understand a reply that begins in the middle. Too many are left out.
    pub(super) fn set_preface(&mut self, preface: String) {
        if preface.len() <= self.max_bytes / 4 && self.shown.len() + preface.len() <= self.max_bytes {
            self.max_bytes -= preface.len();
            self.preface = preface;
        }
    }

    /// The reply: what is shown, the warning about hidden characters, and the call that continues.
    pub(super) fn finish(self, context: &RenderContext<'_>) -> String {
        let mut text = self.preface + &self.shown;
        end_line(&mut text);
        text.extend(self.hidden.warning());
        let next = match self.next {
            Some(offset) => Some(context.next_call("cursor", &self.cursor.at(offset))),
            None => self.next_page,
        };
        if let Some(next) = next {
            let what = if self.is_inside_line { "the line goes on" } else { "more" };
            text.push_str(&format!("… {what}; next: {next}\n"));
        }
        text
    }
}

#[cfg(test)]
#[path = "pager_tests.rs"]
mod tests;
