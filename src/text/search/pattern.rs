//! The compiled query. Its size is bounded before and while it is compiled; the engines take linear time.

use std::ops::Range;

use memchr::memmem;
use regex_automata::{Span, util::prefilter::Prefilter};
use regex_syntax::{
    ParserBuilder,
    ast::ErrorKind,
    hir::{Hir, HirKind},
};

use super::{
    engine::{Cache, MIN_UNCHECKED_BYTES, RegexEngine, SearchAbort, SearchCancellation},
    hir, repair, required, smart_case,
};

/// Longest literal.
const MAX_LITERAL_BYTES: usize = 64 << 10;
const MAX_REGEX_BYTES: usize = 8 << 10;
/// Brackets and escapes such as `\w`: each can mean most of Unicode, which takes long to compile.
const MAX_CLASSES: usize = 200;
/// Groups within groups.
const MAX_NESTING: u32 = 100;

#[derive(Debug, Clone, Copy, Default)]
pub struct PatternOptions {
    pub is_regex: bool,
    pub ignores_case: bool,
    /// Ignore case unless the pattern has an upper-case letter.
    pub smart_case: bool,
    pub is_word: bool,
    /// None: where the pattern holds a line break.
    pub multiline: Option<bool>,
    pub no_repair: bool,
}

pub struct SearchPattern {
    finder: CandidateFinder,
    /// Decides about a single line, if the finder alone cannot.
    exact: Option<RegexEngine>,
    /// It asks where lines end, so where a text is cut must be known before.
    sees_ends: bool,
    is_multiline: bool,
    repaired: Option<String>,
}

enum CandidateFinder {
    Literal {
        text: Box<memmem::Finder<'static>>,
        is_word: bool,
    },
    Regex {
        regex: Box<RegexEngine>,
        is_exact: bool,
    },
    /// Every match contains one of these literals; `exact` decides about the line that holds one.
    Required(Prefilter),
}

/// The buffers of one thread for the engines.
pub struct EngineBuffers {
    finder: Option<Cache>,
    exact: Option<Cache>,
    cancellation: SearchCancellation,
    /// Bytes of candidate lines matched since the last cancellation check.
    unchecked: usize,
}

impl EngineBuffers {
    /// Why the last search stopped early, if it did: a match may exist all the same. Clears the reason.
    pub fn take_abort(&mut self) -> Option<SearchAbort> {
        self.cancellation.abort.take()
    }

    /// Whether an engine gave up, and so decided nothing about the rest of the text.
    pub(super) fn has_aborted(&self) -> bool {
        self.cancellation.abort.is_some()
    }

    /// True if the call is over. Then also records that as the reason for the abort.
    pub(super) fn is_cancelled(&mut self) -> bool {
        let is_over = (self.cancellation.is_cancelled)();
        if is_over {
            self.cancellation.abort = Some(SearchAbort::Stopped);
        }
        is_over
    }
}

impl SearchPattern {
    /// The error text states what is wrong and how to fix it.
    pub fn new(query: &str, options: PatternOptions) -> Result<Self, String> {
        let most = if options.is_regex { MAX_REGEX_BYTES } else { MAX_LITERAL_BYTES };
        if query.len() > most {
            return Err(format!("{} bytes are too long; at most {most} bytes", query.len()));
        }
        let has_break = query.contains('\n') || (options.is_regex && query.contains("\\n"));
        let is_multiline = options.multiline.unwrap_or(has_break);
        let smart_case = options.smart_case && !options.is_regex;
        let ignores_case = options.ignores_case || (smart_case && smart_case::literal_ignores_case(query));
        if !options.is_regex && !ignores_case {
            if query.contains('\n') && !is_multiline {
                return Err(NEEDS_MULTILINE.into());
            }
            return Ok(Self::literal(query.as_bytes(), options.is_word, is_multiline));
        }
        let (hir, repaired) = if options.is_regex {
            parse_repaired(query, options)?
        } else {
            (
                parse(&regex_syntax::escape(query), PatternOptions { ignores_case, ..options })
                    .map_err(|error| error.text)?,
                None,
            )
        };
        Self::regex(hir, options.is_word, is_multiline, repaired)
    }

    fn literal(text: &[u8], is_word: bool, is_multiline: bool) -> Self {
        let text = Box::new(memmem::Finder::new(text).into_owned());
        let finder = CandidateFinder::Literal { text, is_word };
        Self { finder, exact: None, sees_ends: false, is_multiline, repaired: None }
    }

    fn regex(hir: Hir, is_word: bool, is_multiline: bool, repaired: Option<String>) -> Result<Self, String> {
        let plain = match hir.kind() {
            HirKind::Literal(literal) if is_multiline || !literal.0.contains(&b'\n') => Some(literal.0.clone()),
            _ => None,
        };
        if let Some(text) = plain {
            return Ok(Self { repaired, ..Self::literal(&text, is_word, is_multiline) });
        }
        let hir = if is_word { hir::as_word(hir) } else { hir };
        if is_multiline {
            let sees_ends = hir::sees_ends(&hir);
            let finder =
                CandidateFinder::Regex { regex: Box::new(RegexEngine::new(&hir::for_whole(hir))?), is_exact: true };
            return Ok(Self { finder, exact: None, sees_ends, is_multiline, repaired });
        }
        let exact = hir::for_line(hir.clone()).map_err(|_| NEEDS_MULTILINE)?;
        let hir::LineFinder { hir, is_exact, sees_ends } = hir::for_lines(hir).map_err(|_| NEEDS_MULTILINE)?;
        let finder = match hir.kind() {
            HirKind::Literal(literal) => {
                // `\bword\b` without its boundaries: found at the speed of memory, confirmed on the line.
                let text = Box::new(memmem::Finder::new(&literal.0).into_owned());
                CandidateFinder::Literal { text, is_word: false }
            }
            _ => match required::prefilter(&exact) {
                Some(literals) => CandidateFinder::Required(literals),
                None => CandidateFinder::Regex { regex: Box::new(RegexEngine::new(&hir)?), is_exact },
            },
        };
        let is_sure = is_exact && !matches!(finder, CandidateFinder::Required(_));
        let exact = if is_sure { None } else { Some(RegexEngine::new(&exact)?) };
        Ok(Self { finder, exact, sees_ends, is_multiline, repaired })
    }

    pub fn is_multiline(&self) -> bool {
        self.is_multiline
    }

    pub(super) fn sees_ends(&self) -> bool {
        self.sees_ends
    }

    #[cfg(test)]
    pub(super) fn has_required_literals(&self) -> bool {
        matches!(self.finder, CandidateFinder::Required(_))
    }

    /// The regex that was compiled instead of the query, if the query was no valid regex.
    pub fn repaired(&self) -> Option<&str> {
        self.repaired.as_deref()
    }

    /// A plain text streams through lines of any length; a regex needs its line whole.
    pub fn literal_len(&self) -> Option<usize> {
        match (&self.finder, &self.exact) {
            (CandidateFinder::Literal { text, .. }, None) => Some(text.needle().len()),
            _ => None,
        }
    }

    /// `is_over` returns true once the call was cancelled or its deadline has passed.
    pub fn scratch(&self, is_over: impl Fn() -> bool + 'static) -> EngineBuffers {
        let finder = match &self.finder {
            CandidateFinder::Literal { .. } | CandidateFinder::Required(_) => None,
            CandidateFinder::Regex { regex, .. } => Some(regex.cache()),
        };
        let patience = SearchCancellation { is_cancelled: Box::new(is_over), abort: None };
        EngineBuffers {
            finder,
            exact: self.exact.as_ref().map(RegexEngine::cache),
            cancellation: patience,
            unchecked: 0,
        }
    }

    /// Bytes of text that are searched at once, without a check for cancellation.
    pub fn region_bytes(&self) -> usize {
        // With required literals `confirms` checks for cancellation: the regex runs on few lines, not on the region.
        let exact = self.exact.as_ref().filter(|_| !matches!(self.finder, CandidateFinder::Required(_)));
        let engines = [exact, self.finder.regex()];
        engines
            .into_iter()
            .flatten()
            .map(RegexEngine::max_quick_bytes)
            .min()
            .unwrap_or(usize::MAX)
            .max(MIN_UNCHECKED_BYTES)
    }

    /// True if a separate text, such as a path, has a match.
    pub fn matches(&self, scratch: &mut EngineBuffers, text: &[u8]) -> bool {
        self.next_in(scratch, text, 0..text.len()).is_some()
    }

    /// A position at or after `from` in the next line that may match.
    pub(super) fn candidate(&self, scratch: &mut EngineBuffers, text: &[u8], from: usize) -> Option<usize> {
        match (&self.finder, &mut scratch.finder) {
            (CandidateFinder::Literal { text: literal, .. }, _) => literal.find(&text[from..]).map(|at| from + at),
            (CandidateFinder::Regex { regex, .. }, cache) => {
                let cache = cache.get_or_insert_with(|| regex.cache());
                regex.any_end(cache, &mut scratch.cancellation, text, from)
            }
            (CandidateFinder::Required(literals), _) => {
                if scratch.cancellation.abort.is_some() {
                    return None;
                }
                literals.find(text, Span::from(from..text.len())).map(|found| found.start)
            }
        }
    }

    /// True if a candidate's line, without its terminator, matches. `has_cr`: its terminator is CR LF.
    pub(super) fn confirms(&self, scratch: &mut EngineBuffers, line: &[u8], has_cr: bool) -> bool {
        let is_sure = match (&self.finder, &self.exact) {
            (CandidateFinder::Literal { text, is_word }, None) => {
                let takes_cr = has_cr && text.needle().ends_with(b"\r");
                !is_word && !takes_cr
            }
            (CandidateFinder::Regex { is_exact, .. }, None) => *is_exact && !has_cr,
            (CandidateFinder::Required(_), None) | (_, Some(_)) => false,
        };
        if let (CandidateFinder::Required(_), Some(exact)) = (&self.finder, &self.exact) {
            scratch.unchecked += line.len();
            if scratch.unchecked > exact.max_quick_bytes() {
                scratch.unchecked = 0;
                if scratch.is_cancelled() {
                    return false;
                }
            }
        }
        is_sure || self.next_in(scratch, line, 0..line.len()).is_some()
    }

    /// The first match within `range` of a line by itself, or of a whole file where matches span lines. What stands around
    /// the range decides about boundaries.
    pub(super) fn next_in(
        &self,
        scratch: &mut EngineBuffers,
        text: &[u8],
        range: Range<usize>,
    ) -> Option<Range<usize>> {
        let (regex, cache) = match (&self.finder, &self.exact) {
            (_, Some(exact)) => (exact, &mut scratch.exact),
            (CandidateFinder::Required(_), None) => return None,
            (CandidateFinder::Regex { regex, .. }, None) => (&**regex, &mut scratch.finder),
            (CandidateFinder::Literal { text: literal, is_word }, None) => {
                return next_literal(literal, *is_word, text, range);
            }
        };
        let cache = cache.get_or_insert_with(|| regex.cache());
        let mut found = regex.find(cache, &mut scratch.cancellation, text, range)?;
        // Text that only the lookahead of `$` needed is not part of the match. Otherwise a match that ends before it would
        // include the next line.
        let at_end = text.get(found.end).is_none_or(|next| *next == b'\n');
        if self.sees_ends && at_end && text[found.clone()].ends_with(b"\r") {
            found.end -= 1;
        }
        Some(found)
    }
}

fn next_literal(
    literal: &memmem::Finder<'_>,
    is_word: bool,
    text: &[u8],
    mut range: Range<usize>,
) -> Option<Range<usize>> {
    loop {
        let at = range.start + literal.find(text.get(range.clone())?)?;
        let found = at..at + literal.needle().len();
        if !is_word || is_word_at(text, &found) {
            return Some(found);
        }
        range.start = at + 1;
    }
}

/// True if there is no word character directly before or after the match. Bytes that are not a character are not a boundary
/// either.
fn is_word_at(text: &[u8], found: &Range<usize>) -> bool {
    let is_boundary = |chars: Option<Option<char>>| match chars {
        None => true,
        Some(Some(c)) => !regex_syntax::is_word_character(c),
        Some(None) => false,
    };
    is_boundary(last_char(&text[..found.start])) && is_boundary(first_char(&text[found.end..]))
}

/// None at the end; `Some(None)` for bytes that are no character.
fn first_char(text: &[u8]) -> Option<Option<char>> {
    let head = &text[..text.len().min(4)];
    let chunk = head.utf8_chunks().next()?;
    Some(chunk.valid().chars().next())
}

fn last_char(text: &[u8]) -> Option<Option<char>> {
    let last = *text.last()?;
    if last.is_ascii() {
        return Some(Some(char::from(last)));
    }
    let start = (text.len().saturating_sub(4)..text.len()).rev().find(|&at| text[at] & 0xc0 != 0x80);
    let tail = start.map(|start| &text[start..]);
    Some(tail.and_then(|tail| std::str::from_utf8(tail).ok()).and_then(|tail| tail.chars().next()))
}

const NEEDS_MULTILINE: &str = "it matches only across a line break; pass multiline: true, or leave multiline away";

struct BadSyntax {
    text: String,
    /// A parenthesis without its partner.
    is_group: bool,
}

fn parse_repaired(query: &str, options: PatternOptions) -> Result<(Hir, Option<String>), String> {
    if options.no_repair {
        return parse(query, options).map(|hir| (hir, None)).map_err(|error| error.text);
    }
    let repaired = repair::braces(query);
    match parse(repaired.as_deref().unwrap_or(query), options) {
        Ok(hir) => Ok((hir, repaired)),
        Err(error) if error.is_group => {
            let repaired = repair::parentheses(repaired.as_deref().unwrap_or(query));
            let hir = parse(&repaired, options).map_err(|error| error.text)?;
            Ok((hir, Some(repaired)))
        }
        Err(error) => Err(error.text),
    }
}

/// Roughly, and rather too many: an escaped bracket counts, too.
fn classes(pattern: &str) -> usize {
    let escapes = pattern.split('\\').skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    escapes.count() + pattern.matches('[').count()
}

fn parse(pattern: &str, options: PatternOptions) -> Result<Hir, BadSyntax> {
    if options.is_regex && classes(pattern) > MAX_CLASSES {
        let text = format!("more than {MAX_CLASSES} character classes are too many; search for a part of it");
        return Err(BadSyntax { text, is_group: false });
    }
    let ignores_case = options.ignores_case || (options.smart_case && smart_case::ignores_case(pattern, MAX_NESTING));
    let parsed = ParserBuilder::new()
        .nest_limit(MAX_NESTING)
        .utf8(false)
        .multi_line(true)
        .case_insensitive(ignores_case)
        .build()
        .parse(pattern);
    parsed.map_err(|error| match error {
        regex_syntax::Error::Parse(error) => BadSyntax {
            is_group: matches!(error.kind(), ErrorKind::GroupUnclosed | ErrorKind::GroupUnopened),
            text: format!("{} at character {}", error.kind(), error.span().start.column),
        },
        regex_syntax::Error::Translate(error) => {
            let text = format!("{} at character {}", error.kind(), error.span().start.column);
            BadSyntax { text, is_group: false }
        }
        other => BadSyntax { text: other.to_string(), is_group: false },
    })
}

impl CandidateFinder {
    fn regex(&self) -> Option<&RegexEngine> {
        match self {
            Self::Literal { .. } | Self::Required(_) => None,
            Self::Regex { regex, .. } => Some(regex),
        }
    }
}

impl std::fmt::Debug for SearchPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pattern").field("is_multiline", &self.is_multiline).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EngineBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
