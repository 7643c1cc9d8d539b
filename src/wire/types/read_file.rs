//! `coder::read-file`: one file, or a batch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct ReadFile;

impl Function for ReadFile {
    const NAME: &'static str = "coder::read-file";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Short;
    const DESCRIPTION: &'static str = "Request, one file: {path, line_from?, line_to?, tail?, byte_from?, byte_to?, \
stat?, numbered?, format?, encoding?, truncate?, count_lines?, etag?, max_output_bytes?, base_dir?}. \
Response: {path, content, is_utf8, lines_returned, total_lines?, more_lines, next_line?, size, mode, mtime, mtime_ns, etag?}. \
Request, many files: {paths: [\"a\", {path: \"b\", line_from: 1, line_to: 40}]}. \
Response: {results: [{path, success, content…, or error: {code, message}}]} in request order; one bad entry fails alone. \
Give path or paths, not both. Lines are 1-based and inclusive; numbered: true prefixes each with its number and `→`. \
A whole file above max_output_bytes answers C213: probe with stat: true (size and total_lines, no content), then read \
windows, or pass truncate: true for the head. encoding: \"base64\" returns exact bytes. \
Example: {\"path\": \"src/main.rs\", \"line_from\": 1, \"line_to\": 40}. \
Next: while more_lines is true call again with line_from set to next_line; keep etag for a later if_match.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "read",
        title: "Read files",
        description: "Read a text file as numbered lines (12→text), or several with paths; images are shown. → the lines, of how many, and the version \
(etag, for if_match). Lines are 1-based and inclusive; default: all. A long reply is cut at 64 KiB and ends with the next call. tail: \
the last lines. encoding \"base64\": exact bytes. stat: size and version only. Example: {\"path\":\"src/main.rs\",\"line_from\":1,\"line_to\":80}",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"paths":{"type":"array","items":{"type":"string"}},"line_from":{"type":"integer"},"line_to":{"type":"integer"},"tail":{"type":"integer"},"numbered":{"type":"boolean"},"encoding":{"enum":["utf-8","base64"]},"stat":{"type":"boolean"}}}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = ReadFileRequest;
    type Response = ReadFileResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "src/main.rs"}))]
#[schemars(example = serde_json::json!({"path": "src/main.rs", "line_from": 1, "line_to": 40, "numbered": true}))]
#[schemars(example = serde_json::json!({"path": "server.log", "tail": 50}))]
#[schemars(example = serde_json::json!({"paths": ["Cargo.toml", {"path": "src/lib.rs", "stat": true}]}))]
pub struct ReadFileRequest {
    /// The file. Exactly one of `path`, `path_bytes` and `paths`.
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FILE_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// Many files in one call, read in this order within one shared budget (`batch_read_budget_bytes`). Each is a
    /// path or an object with its own options; the options beside `paths` do not apply to them.
    // Values, so that one malformed entry fails alone instead of the call.
    #[serde(default)]
    #[schemars(with = "Option<Vec<BatchEntry>>")]
    pub paths: Option<Vec<Value>>,
    #[schemars(description = fields::LINE_FROM)]
    #[serde(default)]
    pub line_from: Option<u64>,
    #[schemars(description = fields::LINE_TO)]
    #[serde(default)]
    pub line_to: Option<u64>,
    /// The last so many lines. Not together with a line or byte window.
    #[serde(default)]
    pub tail: Option<u64>,
    /// First byte of a byte window, 0-based. Not together with a line window or `tail`.
    #[serde(default)]
    pub byte_from: Option<u64>,
    #[schemars(description = fields::BYTE_TO)]
    #[serde(default)]
    pub byte_to: Option<u64>,
    /// No content, only what is known about the file: size, mode, mtime, total_lines, is_utf8.
    #[serde(default)]
    pub stat: Option<bool>,
    /// Prefix each line with its number and `→`. Short for `format: "numbered"`.
    #[serde(default)]
    pub numbered: Option<bool>,
    #[serde(default)]
    pub format: Option<Format>,
    #[serde(default)]
    pub encoding: Option<Encoding>,
    /// Return the head of a file that is too large for a full read, instead of C213.
    #[serde(default)]
    pub truncate: Option<bool>,
    /// Count all lines: `stat` then has `total_lines` for files of any size, and so has a window.
    #[serde(default)]
    pub count_lines: Option<bool>,
    /// The version (`etag`) is the hash of the content, however large the file is; this reads the whole file.
    #[serde(default)]
    pub etag: Option<bool>,
    /// Budget of a full read in bytes of returned text, at most `max_read_bytes`; default from the policy.
    #[serde(default)]
    pub max_output_bytes: Option<u64>,
    /// Budget of this call in bytes of returned text, whatever it reads. What does not fit is left out instead of being an
    /// error. The files of `paths` share it: each gets at least its part of what the files before it left.
    #[serde(default)]
    pub budget_bytes: Option<u64>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// An entry of `paths`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchEntry {
    Path(String),
    Entry(ReadEntry),
}

/// One file of a batch with its own options.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadEntry {
    /// The file.
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FILE_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    #[schemars(description = fields::LINE_FROM)]
    #[serde(default)]
    pub line_from: Option<u64>,
    #[schemars(description = fields::LINE_TO)]
    #[serde(default)]
    pub line_to: Option<u64>,
    /// The last so many lines.
    #[serde(default)]
    pub tail: Option<u64>,
    /// First byte of a byte window, 0-based.
    #[serde(default)]
    pub byte_from: Option<u64>,
    #[schemars(description = fields::BYTE_TO)]
    #[serde(default)]
    pub byte_to: Option<u64>,
    /// No content; costs nothing of the batch budget.
    #[serde(default)]
    pub stat: Option<bool>,
    /// Prefix each line with its number and `→`.
    #[serde(default)]
    pub numbered: Option<bool>,
    #[serde(default)]
    pub format: Option<Format>,
    #[serde(default)]
    pub encoding: Option<Encoding>,
    /// As without `paths`; a batch cuts a long file in any case instead of failing.
    #[serde(default)]
    pub truncate: Option<bool>,
    /// Count all lines.
    #[serde(default)]
    pub count_lines: Option<bool>,
    /// The version is the hash of the content, however large the file is.
    #[serde(default)]
    pub etag: Option<bool>,
}

/// How lines are rendered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As in the file.
    #[default]
    Plain,
    /// Each line after its number and `→`.
    Numbered,
}

/// How bytes become the `content` text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// Text; invalid bytes become U+FFFD, and `is_utf8` is then false.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Exact bytes.
    #[serde(rename = "base64")]
    Base64,
}

/// One file's fields for `path`; `results` for `paths`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadFileResponse {
    #[schemars(description = fields::SHOWN_PATH)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    #[serde(flatten)]
    pub file: Option<FileView>,
    #[schemars(description = fields::RESULTS_OF_PATHS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<ReadResult>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    #[serde(flatten)]
    pub file: Option<FileView>,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// What a read says about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileView {
    /// The text, or base64; absent with `stat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// `base64` when `content` is that; absent for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Whether the returned bytes are UTF-8: true = nothing was replaced. With `stat`: of the whole file. False for UTF-16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_utf8: Option<bool>,
    /// The encoding of a file that begins with a byte order mark of UTF-16: text is decoded from it. Absent for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<Charset>,
    /// With `charset`: U+FFFD stands for something that is no character. Present only when true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    pub lines_returned: u64,
    /// Lines of the whole file; absent when the end was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// True: the file goes on after what was returned.
    pub more_lines: bool,
    /// The `line_from` that continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// The `byte_from` that continues; with byte windows, and when one line alone is above the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_byte: Option<u64>,
    /// With `next_byte` of a line that alone is above the limit: the byte behind it. Absent if it is too long to look for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_end: Option<u64>,
    /// The limit that cut the content short; absent when all that was asked for is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_reason: Option<TruncatedBy>,
    /// With `truncated_reason`: how to get the rest. For a window behind the end of the file: where the file ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Bytes of the whole file.
    pub size: u64,
    #[schemars(description = fields::PERMISSIONS)]
    pub mode: u32,
    #[schemars(description = fields::MTIME)]
    pub mtime: i64,
    #[schemars(description = fields::MTIME_NS)]
    pub mtime_ns: u32,
    /// The file's version: the first 32 hex digits of BLAKE3 of its bytes. For a part of a file above 1 MiB a stat version, `stat:`
    /// and 32 hex digits, unless `etag` was asked for. Absent if such a file was changed in the last two seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// An encoding that is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Charset {
    #[serde(rename = "utf-16le")]
    Utf16Le,
    #[serde(rename = "utf-16be")]
    Utf16Be,
}

/// The policy key, or the field of the request, whose limit cut a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "each variant is spelled as the limit that it names")]
pub enum TruncatedBy {
    MaxOutputBytes,
    MaxReadBytes,
    BatchReadBudgetBytes,
    BudgetBytes,
}
