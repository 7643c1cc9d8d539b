//! `coder::search`: text in files, and files by path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::function::{ArgumentMapping, Cost, Function, FunctionClass, Tool};

#[derive(Debug, Clone, Copy)]
pub struct Search;

impl Function for Search {
    const NAME: &'static str = "coder::search";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {query, path? | paths?, regex?, ignore_case?, word?, multiline?, \
include_globs?, exclude_globs?, type?, type_not?, smart_case?, only_matching?, invert?, sort?, etag?, max_matches?, max_per_file?, \
context_lines_before?, context_lines_after?, files_only?, count_only?, gitignore?, use_default_excludes?, search_content?, search_paths?, max_line_bytes?, repair?, cursor?, base_dir?}. \
Response: {content_matches: [{path, line, column, text, spans, before?, after?}], path_matches: [{path}], truncated, \
truncated_reason?, next_cursor?, skipped, files?, total?, hint?}. \
Finds a text, or with regex: true a Rust regex (linear time, no look-around), line by line in all files below a folder, and \
in their paths. Sorted by path, then line (sort: \"mtime\": newest file first); lines and columns are 1-based, column and spans count bytes. A glob \
without a slash matches names at any depth, one with a slash the path below path or below the root; * crosses slashes. type: \"rust\" \
selects by file type. files_only lists the files that match, count_only how often, only_matching shows every match alone, invert \
the lines that do not match. path may be a file. .git, node_modules \
and the like are left out, hidden files are not; gitignore: true also obeys ignore files. Binary files are skipped and \
counted; denied files never appear. A pattern that cannot be regex, such as foo( or ${x}, is taken literally, and \
pattern_used says so. \
Example: {\"query\": \"fn main\", \"include_globs\": [\"**/*.rs\"], \"search_paths\": false}. \
Next: while next_cursor is there call again with cursor; coder::read-file {\"path\": \"src/main.rs\", \"line_from\": 10, \
\"line_to\": 40} reads around a match; coder::find finds files by name.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "search",
        title: "Search in files",
        description: "Search the text of files below path, or of one file → path:line: text. Ignore files hold unless gitignore: false. Literal unless regex is true (Rust syntax; in JSON write \\\\b for \\b). \
max_matches: default 100. Example: {\"query\":\"fn main\",\"include_globs\":[\"**/*.rs\"]}",
        input_schema: r#"{"type":"object","properties":{"query":{"type":"string"},"regex":{"type":"boolean"},"path":{"type":"string"},"include_globs":{"type":"array","items":{"type":"string"}},"exclude_globs":{"type":"array","items":{"type":"string"}},"ignore_case":{"type":"boolean"},"word":{"type":"boolean"},"context_lines_before":{"type":"integer"},"context_lines_after":{"type":"integer"},"files_only":{"type":"boolean"},"count_only":{"type":"boolean"},"max_matches":{"type":"integer"},"gitignore":{"type":"boolean"},"type":{"type":"string"},"smart_case":{"type":"boolean"},"only_matching":{"type":"boolean"},"invert":{"type":"boolean"},"sort":{"enum":["path","mtime"]},"cursor":{"type":"string"}},"required":["query"]}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = SearchRequest;
    type Response = SearchResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"query": "TODO"}))]
#[schemars(example = serde_json::json!({"query": "fn \\w+_test\\(", "regex": true, "path": "src", "include_globs": ["**/*.rs"], "context_lines_after": 2}))]
#[schemars(example = serde_json::json!({"query": "unsafe", "word": true, "count_only": true, "search_paths": false}))]
#[schemars(example = serde_json::json!({"query": "error", "ignore_case": true, "paths": ["src/main.rs", {"path": "log.txt", "lines": [[1, 100]]}]}))]
pub struct SearchRequest {
    /// What to look for; a literal text unless `regex` is true.
    pub query: String,
    #[schemars(description = fields::FOLDER)]
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FOLDER_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// Several folders, files or globs (as in coder::find) instead of `path`, at most `max_batch_entries`.
    #[serde(default)]
    #[schemars(with = "Option<Vec<SearchPath>>")]
    pub paths: Option<Vec<Value>>,
    /// True: `query` is a Rust regex.
    #[serde(default)]
    pub regex: Option<bool>,
    #[serde(default)]
    pub ignore_case: Option<bool>,
    /// True: upper and lower case are the same unless `query` has an upper-case letter.
    #[serde(default)]
    pub smart_case: Option<bool>,
    /// True: only where no letter, digit or underscore stands directly before or behind.
    #[serde(default)]
    pub word: Option<bool>,
    /// True: matches may span lines. Default: when the query holds a newline, or a regex the two characters `\n`.
    #[serde(default)]
    pub multiline: Option<bool>,
    /// True: every match is an entry of `content_matches` of its own, and `text` is the match alone. Without neighbour lines; an
    /// empty match shows nothing and is left out.
    #[serde(default)]
    pub only_matching: Option<bool>,
    /// True: the lines that do not match. Paths are then not searched, unless `search_content` is false. Not with matches that span
    /// lines.
    #[serde(default)]
    pub invert: Option<bool>,
    /// False: a bad regex is an error instead of being repaired.
    #[serde(default)]
    pub repair: Option<bool>,
    /// Only files that match one of these globs. A glob without a slash is for names at any depth; one with a slash is for the path
    /// below the folder that is searched, or below the root.
    #[serde(default)]
    pub include_globs: Option<Vec<String>>,
    /// No files that match one of these globs, and nothing in folders that do.
    #[serde(default)]
    pub exclude_globs: Option<Vec<String>>,
    /// Only files of this type, or of one of these, such as `rust`, `py` or `js`. The types are those of ripgrep's `-t`, as far as they
    /// are well known.
    #[serde(default, rename = "type")]
    pub file_type: Option<FileTypes>,
    /// No files of this type, or of any of these.
    #[serde(default)]
    pub type_not: Option<FileTypes>,
    /// `path` (default): by path. `mtime`: files that were changed last come first.
    #[serde(default)]
    pub sort: Option<SearchSort>,
    /// Matches of each list in one reply; default `search_default_max_matches`.
    #[serde(default)]
    pub max_matches: Option<u32>,
    /// Matches of one file; the last one then says `more_in_file`.
    #[serde(default)]
    pub max_per_file: Option<u32>,
    /// Bytes shown of a line; default `search_default_max_line_bytes`. Lines are matched whole.
    #[serde(default)]
    pub max_line_bytes: Option<u32>,
    /// Lines shown before each match, at most 10.
    #[serde(default)]
    pub context_lines_before: Option<u32>,
    /// Lines shown after each match, at most 10.
    #[serde(default)]
    pub context_lines_after: Option<u32>,
    /// False: also what `default_exclude_globs` leaves out. Default true.
    #[serde(default)]
    pub use_default_excludes: Option<bool>,
    /// True: leave out what .gitignore, .ignore and .git/info/exclude name. Default false.
    #[serde(default)]
    pub gitignore: Option<bool>,
    /// Search what files hold; default true.
    #[serde(default)]
    pub search_content: Option<bool>,
    /// Search the paths of files; default true.
    #[serde(default)]
    pub search_paths: Option<bool>,
    /// True: only `files`, each with a match (with `search_content: false`: each whose path matches).
    #[serde(default)]
    pub files_only: Option<bool>,
    /// True: only `files` with the `count` of their matching lines, and `total`.
    #[serde(default)]
    pub count_only: Option<bool>,
    /// True: the first match of each file that was read in one piece (128 KiB) carries the file's `etag`.
    #[serde(default)]
    pub etag: Option<bool>,
    #[schemars(description = fields::CURSOR)]
    #[serde(default)]
    pub cursor: Option<String>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// One type, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileTypes {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchSort {
    Path,
    Mtime,
}

/// An entry of `paths`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SearchPath {
    Path(String),
    Entry(SearchEntry),
}

/// One folder, file or glob.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SearchEntry {
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::GLOB_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// Only in these lines of the file, each `[first, last]`, 1-based and inclusive.
    #[serde(default)]
    pub lines: Option<Vec<(u64, u64)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchResponse {
    pub content_matches: Vec<ContentMatch>,
    pub path_matches: Vec<PathMatch>,
    /// True: there is more; `truncated_reason` says why it is not here.
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_reason: Option<SearchTruncated>,
    /// Pass it as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Files that were not searched, or not to their end.
    pub skipped: Skipped,
    /// With `files_only` and `count_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileMatch>>,
    /// With `count_only`: the sum of this reply's counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The regex that was searched for, when the query was not one as it stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_used: Option<String>,
    /// True with `pattern_used`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pattern_repaired: bool,
    #[schemars(description = fields::MISSING_PATHS)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_paths: Vec<String>,
    /// What the query was perhaps meant to be. Only when nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContentMatch {
    #[schemars(description = fields::SHOWN_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// 1-based.
    pub line: u64,
    /// Of a match that spans lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// 1-based byte of the line where its first match begins.
    pub column: u64,
    /// The line without its terminator; U+FFFD for what is not UTF-8.
    pub text: String,
    /// True: `text` is a window of a longer line. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub text_truncated: bool,
    /// Bytes of the line before that window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_offset: Option<u64>,
    /// All matches in `text`: byte offsets from 0, end exclusive.
    pub spans: Vec<(u64, u64)>,
    /// Lines before, the nearest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Lines after, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// True: `max_per_file` keeps further matches of this file out. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more_in_file: bool,
    /// With `etag`, at the first match of each file that was read in one piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathMatch {
    #[schemars(description = fields::SHOWN_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileMatch {
    #[schemars(description = fields::SHOWN_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Lines that match, with `count_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How many files were left out, of those that were looked at for this reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// A NUL in the first 4096 bytes.
    pub binary: u64,
    /// Files and folders that may not be read.
    pub unreadable: u64,
    /// FIFOs, sockets, devices, mount points.
    pub special: u64,
    /// Paths longer than a call can name.
    pub too_deep: u64,
    /// A line longer than `search_max_line_buffer`, which a regex cannot see whole; what is before it was searched.
    pub long_line: u64,
    /// Larger than `max_read_bytes`, with matches that span lines.
    pub too_large: u64,
    /// With `gitignore`: entries that ignore files hid. A hidden folder counts as one, because it is not entered. Absent if there are
    /// none.
    #[serde(default, skip_serializing_if = "fields::is_zero")]
    pub ignored: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchTruncated {
    /// A list has `max_matches` entries.
    MaxMatches,
    /// The reply has `search_response_budget_bytes`.
    Budget,
    /// The call's deadline passed.
    Deadline,
}
