//! Parses and checks a request, in the order that the contract gives for its errors.

use std::time::Duration;

use serde_json::Value;

use crate::{
    jail::{Call, Clock},
    ops::{cursor::RequestFingerprint, scope::ScopePath},
    text::search::{PatternOptions, ScanOptions, SearchPattern},
    wire::{
        Code, Error, Result,
        decode::decode,
        function::Function,
        types::search::{Search, SearchEntry, SearchRequest, SearchSort},
    },
};

use super::{
    collect::{FileKey, ModifiedAt},
    select::FileSelection,
};

/// Neighbour lines that may be asked for.
const MAX_CONTEXT: u32 = 10;
/// Line ranges of one file.
const MAX_RANGES: usize = 1000;

/// Checks what depends neither on the disk nor on the policy.
pub(super) fn check_request(request: &SearchRequest) -> Result<()> {
    if request.query.is_empty() {
        return Err(Error::bad_input("query: empty; expected a text to look for"));
    }
    if request.search_content == Some(false) && request.search_paths == Some(false) {
        return Err(Error::bad_input("search_content and search_paths are both false; one of them has to be true"));
    }
    let context =
        [("context_lines_before", request.context_lines_before), ("context_lines_after", request.context_lines_after)];
    for (field, lines) in context {
        if let Some(lines) = lines.filter(|lines| *lines > MAX_CONTEXT) {
            return Err(Error::bad_input(format!("{field}: {lines} lines, at most {MAX_CONTEXT}")));
        }
    }
    if request.files_only == Some(true) && request.count_only == Some(true) {
        return Err(Error::bad_input("give files_only or count_only, not both"));
    }
    if request.only_matching == Some(true) {
        if request.invert == Some(true) {
            return Err(Error::bad_input(
                "give only_matching or invert, not both: a line that does not match has no match to show",
            ));
        }
        if let Some((field, _)) = context.iter().find(|(_, lines)| lines.is_some_and(|lines| lines > 0)) {
            return Err(Error::bad_input(format!(
                "{field}: not with only_matching, which shows no lines; leave one of them away"
            )));
        }
    }
    if request.paths.is_some() && (request.path.is_some() || request.path_bytes.is_some()) {
        return Err(Error::bad_input("give path or paths, not both"));
    }
    Ok(())
}

/// Lines that a file is limited to, each first and last; none = all.
pub(super) type LineRanges = Vec<(u64, u64)>;

/// The entries of `paths` and the lines of each.
pub(super) fn sent_paths(call: &mut Call, values: &[Value]) -> Result<(Vec<ScopePath>, Vec<LineRanges>)> {
    let most = call.limits.max_batch_entries as usize;
    if values.len() > most {
        return Err(Error::new(Code::TooLarge, format!("paths: {} entries, at most {most} in one call", values.len())));
    }
    if values.is_empty() {
        return Err(Error::bad_input("paths: empty; expected folders, files or globs, for example [\"src\"]"));
    }
    let (mut paths, mut ranges) = (Vec::new(), Vec::new());
    for (index, value) in values.iter().enumerate() {
        let at = format!("paths[{index}]");
        let (path, lines) = match value {
            Value::String(path) => (Some(ScopePath::text(path)), None),
            Value::Object(_) => {
                let entry: SearchEntry = decode(value.clone(), &at, &mut call.warnings)?;
                (ScopePath::of(entry.path.as_deref(), entry.path_bytes.as_deref())?, entry.lines)
            }
            _ => (None, None),
        };
        paths.push(path.ok_or_else(|| {
            Error::bad_input(format!(
                "{at}: expected a text or an object, for example \"src\" or {{\"path\": \"src/main.rs\", \"lines\": [[1, 40]]}}"
            ))
        })?);
        ranges.push(lines.map(|lines| check_ranges(lines, &at)).transpose()?);
    }
    let of_path = |path: &ScopePath| {
        let same = paths.iter().zip(&ranges).filter(|(other, _)| *other == path);
        // Named once without lines, all of the file is meant.
        let lines: Option<Vec<_>> = same.map(|(_, lines)| lines.clone()).collect();
        merge_ranges(lines.unwrap_or_default().concat())
    };
    let ranges = paths.iter().map(of_path).collect();
    Ok((paths, ranges))
}

fn check_ranges(lines: LineRanges, at: &str) -> Result<LineRanges> {
    if lines.len() > MAX_RANGES {
        return Err(Error::bad_input(format!("{at}.lines: {} ranges, at most {MAX_RANGES}", lines.len())));
    }
    if lines.iter().any(|(from, to)| *from == 0 || to < from) {
        return Err(Error::bad_input(format!(
            "{at}.lines: lines are 1-based and a range does not end before it begins, for example [[1, 40]]"
        )));
    }
    Ok(lines)
}

/// Ascending, and joined where they touch.
fn merge_ranges(mut lines: LineRanges) -> LineRanges {
    lines.sort_unstable();
    let mut joined: LineRanges = Vec::with_capacity(lines.len());
    for (from, to) in lines {
        match joined.last_mut() {
            Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// The kind of result, from the field `files` of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchResultKind {
    Matches,
    Files,
    Counts,
}

/// Where a reply goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResumePoint {
    pub(super) key: FileKey,
    /// The file's path was shown already.
    pub(super) in_content: bool,
    /// Its matches up to here were shown.
    pub(super) after_offset: Option<u64>,
}

pub(super) struct SearchPlan {
    pub(super) pattern: SearchPattern,
    pub(super) searches_content: bool,
    pub(super) searches_paths: bool,
    pub(super) uses_excludes: bool,
    pub(super) obeys_ignore_files: bool,
    pub(super) result_kind: SearchResultKind,
    /// Without the lines of a file and where its search begins.
    pub(super) scan_options: ScanOptions,
    pub(super) max_matches: u64,
    pub(super) budget_bytes: u64,
    pub(super) max_line_buffer: usize,
    pub(super) max_whole_bytes: u64,
    pub(super) clock: Clock,
    pub(super) resume_point: Option<ResumePoint>,
    pub(super) fingerprint: RequestFingerprint,
    pub(super) files: FileSelection,
    pub(super) sort: SearchSort,
    pub(super) wants_etags: bool,
    pub(super) is_inverted: bool,
    /// A literal needs no whole line, unless every match of the line is wanted, or the lines without one.
    pub(super) streams_long_lines: bool,
}

impl SearchPlan {
    pub(super) fn new(call: &Call, request: &SearchRequest, is_wire_02: bool) -> Result<Self> {
        let limits = &call.limits;
        let files = FileSelection::new(request, is_wire_02)?;
        let pattern = SearchPattern::new(&request.query, pattern_options(request)).map_err(|wrong| {
            let what = if request.regex == Some(true) { "query: invalid regex: " } else { "query: " };
            Error::bad_input(format!("{what}{wrong}"))
        })?;
        let is_inverted = request.invert == Some(true);
        if is_inverted && pattern.is_multiline() {
            return Err(Error::bad_input(
                "invert: works line by line, and this search is over several lines; leave invert or multiline away",
            ));
        }
        let result_kind = match (request.files_only, request.count_only) {
            (Some(true), _) => SearchResultKind::Files,
            (_, Some(true)) => SearchResultKind::Counts,
            _ => SearchResultKind::Matches,
        };
        let searches_content = request.search_content != Some(false);
        let same = SearchRequest { cursor: None, max_matches: None, ..request.clone() };
        let fingerprint = RequestFingerprint::of(Search::NAME, &same);
        let max_matches = u64::from(request.max_matches.unwrap_or(limits.search_default_max_matches));
        let sort = request.sort.unwrap_or(SearchSort::Path);
        let scan_options = scan_options(call, request, result_kind, max_matches);
        Ok(Self {
            streams_long_lines: pattern.literal_len().is_some() && !is_inverted && !scan_options.each_match,
            pattern,
            searches_content,
            // Lists of files, and lines that do not match, are about content, unless that is not searched.
            searches_paths: request.search_paths != Some(false)
                && !((result_kind != SearchResultKind::Matches || is_inverted) && searches_content),
            uses_excludes: request.use_default_excludes != Some(false),
            obeys_ignore_files: request.gitignore == Some(true),
            result_kind,
            scan_options,
            max_matches,
            budget_bytes: limits.search_response_budget_bytes,
            max_line_buffer: usize::try_from(limits.search_max_line_buffer).unwrap_or(usize::MAX),
            max_whole_bytes: limits.max_read_bytes,
            clock: call.clock().for_partial_work(Duration::MAX),
            resume_point: request.cursor.as_deref().map(|cursor| read_cursor(fingerprint, sort, cursor)).transpose()?,
            fingerprint,
            files,
            sort,
            wants_etags: request.etag == Some(true),
            is_inverted,
        })
    }

    /// When the file was changed, as far as the order of the reply depends on it. None if the file is gone.
    pub(super) fn time_in_order(&self, changed: impl FnOnce() -> Option<ModifiedAt>) -> Option<ModifiedAt> {
        match self.sort {
            SearchSort::Path => Some(ModifiedAt::default()),
            SearchSort::Mtime => changed(),
        }
    }

    /// Not a file that the reply before dealt with.
    pub(super) fn is_remaining(&self, key: &FileKey) -> bool {
        self.resume_point.as_ref().is_none_or(|from| *key >= from.key)
    }

    /// The place in this file where the reply before ended, if it ended in this file.
    pub(super) fn resume_point_in(&self, absolute: &[u8]) -> Option<&ResumePoint> {
        self.resume_point.as_ref().filter(|from| from.key.path == absolute)
    }

    pub(super) fn write_cursor(&self, from: &ResumePoint) -> String {
        let offset = from.after_offset.map_or(0, |offset| offset.saturating_add(1));
        let in_content = u64::from(from.in_content);
        let FileKey { changed: (seconds, nanos), path } = &from.key;
        match self.sort {
            SearchSort::Path => self.fingerprint.encode_cursor(&[in_content, offset], path),
            SearchSort::Mtime => {
                // Bit by bit, as it is read.
                self.fingerprint.encode_cursor(&[in_content, offset, *seconds as u64, u64::from(*nanos)], path)
            }
        }
    }
}

fn read_cursor(fingerprint: RequestFingerprint, sort: SearchSort, cursor: &str) -> Result<ResumePoint> {
    let ([in_content, offset, seconds, nanos], path) = match sort {
        SearchSort::Path => {
            let ([in_content, offset], path) = fingerprint.decode_cursor::<2>(cursor)?;
            ([in_content, offset, 0, 0], path)
        }
        SearchSort::Mtime => fingerprint.decode_cursor::<4>(cursor)?,
    };
    let key = FileKey { changed: (seconds as i64, nanos as u32), path };
    Ok(ResumePoint { key, in_content: in_content != 0, after_offset: offset.checked_sub(1) })
}

fn pattern_options(request: &SearchRequest) -> PatternOptions {
    PatternOptions {
        is_regex: request.regex == Some(true),
        ignores_case: request.ignore_case == Some(true),
        smart_case: request.smart_case == Some(true),
        is_word: request.word == Some(true),
        multiline: request.multiline,
        no_repair: request.repair == Some(false),
    }
}

fn scan_options(call: &Call, request: &SearchRequest, result_kind: SearchResultKind, max_matches: u64) -> ScanOptions {
    let before = request.context_lines_before.unwrap_or(0) as usize;
    let after = request.context_lines_after.unwrap_or(0) as usize;
    let limits = &call.limits;
    let line = request.max_line_bytes.unwrap_or(limits.search_default_max_line_bytes) as usize;
    // A match with all its context lines fits into a reply, whatever the request asks for, so that no page is empty because a
    // match is too large.
    let budget = usize::try_from(limits.search_response_budget_bytes).unwrap_or(usize::MAX);
    let fits = budget / (2 * (1 + before + after));
    ScanOptions {
        before,
        after,
        max_line_bytes: line.min(fits),
        max_matches: match result_kind {
            // One more than a page shows that there is another page.
            SearchResultKind::Matches => max_matches.saturating_add(1),
            // The first match is enough.
            SearchResultKind::Files => 0,
            SearchResultKind::Counts => u64::MAX,
        },
        max_per_file: request.max_per_file.map_or(u64::MAX, u64::from),
        counts_only: result_kind != SearchResultKind::Matches,
        each_match: request.only_matching == Some(true),
        is_inverted: request.invert == Some(true),
        max_bytes: limits.search_response_budget_bytes,
        match_overhead_bytes: 0,
        after_offset: None,
        lines: Vec::new(),
    }
}
