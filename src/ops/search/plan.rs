//! Parses and checks a request, in the order that the contract gives for its errors.

use std::time::Duration;

use globset::GlobSet;
use serde_json::Value;

use crate::{
    jail::{Call, Clock},
    ops::{cursor::RequestFingerprint, scope::ScopePath},
    text::{
        globs::{self, StarAtSlash},
        name_globs::NameGlobs,
        order,
        search::{PatternOptions, ScanOptions, SearchPattern},
    },
    wire::{
        Code, Error, Result,
        decode::decode,
        function::Function,
        types::search::{Search, SearchEntry, SearchRequest},
    },
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

/// The place where a reply continues.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResumePoint {
    /// Absolute.
    pub(super) path: Vec<u8>,
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
    include: Option<GlobSelection>,
    exclude: Option<GlobSelection>,
    excluded_folders: GlobSet,
}

/// A list of globs; names decide where they can.
struct GlobSelection {
    names: NameGlobs,
    set: GlobSet,
}

impl GlobSelection {
    fn new(globs: Option<&[String]>, field: &str) -> Result<Option<Self>> {
        let Some(globs) = globs.filter(|globs| !globs.is_empty()) else { return Ok(None) };
        Ok(Some(Self { names: NameGlobs::new(globs.iter().map(String::as_str)), set: compile(globs, field)? }))
    }

    fn has(&self, name: &[u8], path: &[u8]) -> bool {
        self.names.has_name(name) || (self.names.needs_path() && globs::matches(&self.set, path))
    }
}

fn compile(globs: &[String], field: &str) -> Result<GlobSet> {
    globs::compile(globs, StarAtSlash::Crosses).map_err(|wrong| Error::bad_input(format!("{field}: bad glob {wrong}")))
}

impl SearchPlan {
    pub(super) fn new(call: &Call, request: &SearchRequest) -> Result<Self> {
        let limits = &call.limits;
        let include = GlobSelection::new(request.include_globs.as_deref(), "include_globs")?;
        let exclude = GlobSelection::new(request.exclude_globs.as_deref(), "exclude_globs")?;
        let excluded = request.exclude_globs.iter().flatten();
        let folders: Vec<String> = excluded.filter_map(|glob| glob.strip_suffix("/**")).map(Into::into).collect();
        let pattern = SearchPattern::new(&request.query, pattern_options(request)).map_err(|wrong| {
            let what = if request.regex == Some(true) { "query: invalid regex: " } else { "query: " };
            Error::bad_input(format!("{what}{wrong}"))
        })?;
        let result_kind = match (request.files_only, request.count_only) {
            (Some(true), _) => SearchResultKind::Files,
            (_, Some(true)) => SearchResultKind::Counts,
            _ => SearchResultKind::Matches,
        };
        let searches_content = request.search_content != Some(false);
        let same = SearchRequest { cursor: None, max_matches: None, ..request.clone() };
        let fingerprint = RequestFingerprint::of(Search::NAME, &same);
        let max_matches = u64::from(request.max_matches.unwrap_or(limits.search_default_max_matches));
        let scan_options = scan_options(call, request, result_kind, max_matches);
        Ok(Self {
            pattern,
            searches_content,
            // Lists of files are about content, unless that is not searched.
            searches_paths: request.search_paths != Some(false)
                && !(result_kind != SearchResultKind::Matches && searches_content),
            uses_excludes: request.use_default_excludes != Some(false),
            obeys_ignore_files: request.gitignore == Some(true),
            result_kind,
            scan_options,
            max_matches,
            budget_bytes: limits.search_response_budget_bytes,
            max_line_buffer: usize::try_from(limits.search_max_line_buffer).unwrap_or(usize::MAX),
            max_whole_bytes: limits.max_read_bytes,
            clock: call.clock().for_partial_work(Duration::MAX),
            resume_point: request.cursor.as_deref().map(|cursor| read_cursor(fingerprint, cursor)).transpose()?,
            fingerprint,
            include,
            exclude,
            excluded_folders: compile(&folders, "exclude_globs")?,
        })
    }

    /// By its name and its path below the root.
    pub(super) fn selects(&self, name: &[u8], path: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|include| include.has(name, path))
            && !self.exclude.as_ref().is_some_and(|exclude| exclude.has(name, path))
    }

    /// Nothing in this folder can be selected.
    pub(super) fn excludes_folder(&self, path: &[u8]) -> bool {
        !self.excluded_folders.is_empty() && globs::matches(&self.excluded_folders, path)
    }

    /// True unless the replies before have finished this file.
    pub(super) fn is_remaining(&self, absolute: &[u8]) -> bool {
        self.resume_point.as_ref().is_none_or(|from| order::by_component(absolute, &from.path).is_ge())
    }

    /// The place in this file where the reply before ended, if it ended in this file.
    pub(super) fn resume_point_in(&self, absolute: &[u8]) -> Option<&ResumePoint> {
        self.resume_point.as_ref().filter(|from| from.path == absolute)
    }

    pub(super) fn write_cursor(&self, from: &ResumePoint) -> String {
        let offset = from.after_offset.map_or(0, |offset| offset.saturating_add(1));
        self.fingerprint.encode_cursor(&[u64::from(from.in_content), offset], &from.path)
    }
}

fn read_cursor(mark: RequestFingerprint, cursor: &str) -> Result<ResumePoint> {
    let ([in_content, offset], path) = mark.decode_cursor::<2>(cursor)?;
    Ok(ResumePoint { path, in_content: in_content != 0, after_offset: offset.checked_sub(1) })
}

fn pattern_options(request: &SearchRequest) -> PatternOptions {
    PatternOptions {
        is_regex: request.regex == Some(true),
        ignores_case: request.ignore_case == Some(true),
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
        max_bytes: limits.search_response_budget_bytes,
        match_overhead_bytes: 0,
        after_offset: None,
        lines: Vec::new(),
    }
}
