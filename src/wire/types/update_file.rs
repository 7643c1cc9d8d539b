//! `coder::update-file`: edits of files that exist.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct UpdateFile;

impl Function for UpdateFile {
    const NAME: &'static str = "coder::update-file";
    const CLASS: FunctionClass = FunctionClass::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {files: [{path, ops: [...], if_match?, binary?, verbatim?, strip_read_prefixes?}], atomic?, dry_run?, diff?, strict?, base_dir?}. \
Response: {results: [{path, success, applied, new_line_count, echoes, echoes_truncated, changed, etag?, diff?, or error: \
{code, message}}]} in request order; one bad entry fails alone, unless atomic: \
true, which edits all files or none; a file that fails is not touched. \
Line ops: {op: \"insert\", at_line, content} | {op: \"remove\", from_line, to_line} | {op: \"update_lines\", from_line, \
to_line, content}: lines are 1-based, inclusive and those of the file as it is before the call, so several fit into one \
call. \
Then, in array order, on what the line ops left: {op: \"str_replace\", old, new, expect_matches?, all?, whitespace?} replaces literal text \
that occurs exactly once (or expect_matches times, or with all: true everywhere), with whitespace: \"ignore\" also where only white \
space around lines differs; {op: \"replace\", pattern, replacement, ignore_case?, \
dot_matches_newline?, expect_matches?} replaces every match of a regular expression; {op: \"append\", content}; \
{op: \"prepend\", content}. \
For a large region do not quote it: join two short anchors by .*? with dot_matches_newline: true and expect_matches: 1. \
In replacement $1 and ${name} are capture groups and a literal $ is $$ (a template literal's ${name} is $${name}). \
All bytes that no op names stay as they are, also line ends and bytes that are not UTF-8. \
echoes show each changed place with its line numbers: check there instead of reading the file again. \
if_match: an etag from a read refuses the edit (C219) if the file has changed since. dry_run: true (of the call or of one entry) \
writes nothing and returns the diff. \
Example: {\"files\": [{\"path\": \"src/main.rs\", \"ops\": [{\"op\": \"str_replace\", \"old\": \"let n = 1;\", \"new\": \
\"let n = 2;\"}]}]}. \
Next: coder::read-file {\"path\": \"src/main.rs\", \"numbered\": true} shows line numbers for further ops; keep etag for \
the next if_match.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "edit",
        title: "Edit files",
        description: "Change an existing file: all ops or none. old, new: replaces text that occurs exactly once (or expect_matches times; all: true: \
everywhere). ops: {op:\"update_lines\",from_line,to_line,content}, {op:\"insert\",at_line,content}, {op:\"remove\",from_line,to_line} \
name lines of the file as it was read; then {op:\"str_replace\",old,new}, \
{op:\"replace\",pattern,replacement,dot_matches_newline?,expect_matches?} (regex, $1), {op:\"append\"|\"prepend\",content}. \
files: [{path, old, new} or {path, ops}]: several files; atomic: all or none. if_match: the etag you read. dry_run: only the diff. → the \
changed lines with their numbers, and the new etag. Example: {\"path\":\"src/main.rs\",\"old\":\"let n = 1;\",\"new\":\"let n = 2;\"}",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"all":{"type":"boolean"},"expect_matches":{"type":"integer"},"ops":{"type":"array","items":{"type":"object"}},"files":{"type":"array","items":{"type":"object"}},"atomic":{"type":"boolean"},"if_match":{"type":"string"},"dry_run":{"type":"boolean"}}}"#,
        argument_mapping: ArgumentMapping::Entry("files", &["atomic", "dry_run", "diff", "base_dir", "strict"]),
        destroys: true,
        idempotent: false,
    });
    type Request = UpdateFileRequest;
    type Response = UpdateFileResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"files": [{"path": "src/main.rs", "ops": [
    {"op": "insert", "at_line": 1, "content": "// generated\n"},
    {"op": "update_lines", "from_line": 5, "to_line": 7, "content": "fn hello() {}\n"},
]}]}))]
#[schemars(example = serde_json::json!({"files": [{"path": "src/main.rs", "ops": [
    {"op": "str_replace", "old": "let n = 1;", "new": "let n = 2;"},
]}], "diff": true}))]
#[schemars(example = serde_json::json!({"files": [{"path": "src/main.rs", "ops": [
    {"op": "replace", "pattern": "// BEGIN old.*?// END old\n", "replacement": "", "dot_matches_newline": true,
     "expect_matches": 1},
]}], "dry_run": true}))]
pub struct UpdateFileRequest {
    /// The files, at most `max_batch_entries`; each is edited and committed on its own, in this order.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<UpdateEntry>")]
    pub files: Vec<Value>,
    #[schemars(description = fields::ATOMIC)]
    #[serde(default)]
    pub atomic: Option<bool>,
    /// Write nothing; results are what they would be, each with `dry_run: true` and a `diff`, and `etag` is the version before
    /// the edit. Entries see what earlier ones would have done.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// Add a unified `diff` to each result.
    #[serde(default)]
    pub diff: Option<bool>,
    /// C210 instead of a warning for what is most likely a mistake: content with pasted line numbers, and a `replace` without
    /// `expect_matches` that matches nothing.
    #[serde(default)]
    pub strict: Option<bool>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// One file and what to do to it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "src/main.rs", "ops": [{"op": "append", "content": "x\n"}]}))]
pub struct UpdateEntry {
    /// The file; it has to exist.
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FILE_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// At least one. All of them are applied, or none.
    pub ops: Vec<UpdateOp>,
    /// Edit the bytes as they are: of a file with NUL bytes, which is refused otherwise, or of UTF-16 without decoding it.
    #[serde(default)]
    pub binary: Option<bool>,
    #[schemars(description = fields::VERBATIM)]
    #[serde(default)]
    pub verbatim: Option<bool>,
    #[schemars(description = fields::STRIP_READ_PREFIXES)]
    #[serde(default)]
    pub strip_read_prefixes: Option<bool>,
    /// Only if the file still has this version (`etag` of a read or of an earlier change); otherwise C219.
    #[serde(default)]
    pub if_match: Option<String>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

/// One edit. Line ops come first and name lines of the original file; the others follow in array order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum UpdateOp {
    /// Line op: put `content` before a line.
    Insert {
        /// 1-based; the number of lines plus one appends.
        at_line: u32,
        /// Whole lines; one final newline is not a line of its own.
        content: String,
    },
    /// Line op: delete lines.
    Remove {
        #[schemars(description = fields::FIRST_LINE)]
        from_line: u32,
        #[schemars(description = fields::LAST_LINE)]
        to_line: u32,
    },
    /// Line op: put `content` in the place of lines.
    UpdateLines {
        #[schemars(description = fields::FIRST_LINE)]
        from_line: u32,
        #[schemars(description = fields::LAST_LINE)]
        to_line: u32,
        /// Whole lines; one final newline is not a line of its own. Empty deletes.
        content: String,
    },
    /// Replace every match of a regular expression in the whole text.
    Replace {
        /// Rust `regex` syntax; `^` and `$` are the ends of the text unless it begins with `(?m)`. In a file with CR LF, `$` is then
        /// before the CR and `.` does not match it, unless the pattern names `\r`.
        pattern: String,
        /// `$1`, `${name}` and `$0` refer to groups and the whole match, `$$` is a dollar. `$1a` is a group named 1a: write
        /// `${1}a`. A reference to a group that does not exist is C210.
        replacement: String,
        #[serde(default)]
        ignore_case: Option<bool>,
        /// `.` also matches newlines, so that `begin.*?end` covers a region of any length.
        #[serde(default)]
        dot_matches_newline: Option<bool>,
        /// Exactly so many matches, else C210 and nothing is written; 0 asserts that there is none.
        #[serde(default)]
        expect_matches: Option<u64>,
    },
    /// Replace literal text.
    StrReplace {
        /// Compared byte by byte, except that a newline also matches CRLF in the file. Line numbers pasted from a read are left out
        /// if the text is not found with them.
        old: String,
        /// Its newlines become those of the line where the match begins.
        new: String,
        /// Exactly so many occurrences, else C210 and nothing is written; 1 if absent.
        #[serde(default)]
        expect_matches: Option<u64>,
        /// `"ignore"`: if `old` is not found, replace the one place that matches without regard to white space at the beginning
        /// and the end of each line.
        #[serde(default)]
        whitespace: Option<Whitespace>,
        /// True: every occurrence, at least one. With `expect_matches` exactly so many.
        #[serde(default)]
        all: Option<bool>,
    },
    /// Add text after the last line. The file then ends as `content` ends.
    Append { content: String },
    /// Add lines before the first.
    Prepend { content: String },
}

/// Whether white space around the lines of literal text counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Whitespace {
    /// It counts.
    #[default]
    Exact,
    /// It does not count where the text is not found otherwise.
    Ignore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpdateFileResponse {
    #[schemars(description = fields::RESULTS_OF_FILES)]
    pub results: Vec<UpdateResult>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpdateResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    /// Ops applied: all of them, or 0 on failure.
    pub applied: u32,
    /// Lines of the file now; 0 on failure.
    pub new_line_count: u64,
    /// The changed places as they are now, in the order of the ops.
    pub echoes: Vec<OpEcho>,
    /// There are more changed places than `echoes` shows; see them with coder::read-file or `diff: true`.
    pub echoes_truncated: bool,
    /// Whether the bytes of the file differ from before. If not, nothing was written.
    pub changed: bool,
    /// The file's version now: the first 32 hex digits of BLAKE3 of its bytes. With `dry_run`: its version before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// With `diff` or `dry_run`: unified, empty when nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff lacks hunks, because those of one call share `batch_read_budget_bytes`; present only when true. Ask for fewer
    /// files at a time, or read the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
    /// The system did not let the service keep the file's owner or group; present only when true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_changed: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The whole text before and after; only in wire 0.2.
    #[serde(flatten)]
    #[schemars(skip)]
    pub bodies: Option<UpdateBodies>,
}

/// Absent where they are above `max_read_bytes`, or where those of the call are above `max_frame_bytes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UpdateBodies {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A changed place. Line ops, append and prepend show their lines and two more on each side; replacements show, for at
/// most five matches, the first and last line of what stands there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpEcho {
    /// The op, 0-based.
    pub op_index: u32,
    /// Number of the first line shown, 1-based, in the file as it is now.
    pub from_line: u64,
    /// Without line ends; invalid bytes become U+FFFD.
    pub lines: Vec<String>,
    /// Lines left out in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elided: Option<u64>,
    /// With a replacement: how many were made in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_replacements: Option<u64>,
}
