//! `coder::create-file`: new files, whole or not at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read_file::Encoding;
use crate::wire::{
    Error,
    function::{Class, Cost, Function, Shape, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct CreateFile;

impl Function for CreateFile {
    const NAME: &'static str = "coder::create-file";
    const CLASS: Class = Class::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {files: [{path, content, mode?, parents?, overwrite?, encoding?, if_match?, \
if_none_match?}], atomic?, dry_run?, base_dir?}. \
Response: {results: [{path, success, bytes_written, etag?, owner_changed?, or error: {code, message}}]} in request order; \
one bad entry fails alone, unless atomic: true, which makes all entries or none. \
Every file is written whole or not at all: readers see the old file or the new one. parents (default true) makes missing \
folders. An existing file answers C217 unless overwrite: true, which keeps its mode and owner; mode is octal text, \"0644\" \
if absent. if_match: the etag you read, and C219 if the file has changed since; if_none_match: \"*\" means it must not \
exist. encoding: \"base64\" writes exact bytes. dry_run: true (of the call or of one entry) writes nothing and says what would \
happen, with a diff of a text file that would be replaced. \
Example: {\"files\": [{\"path\": \"notes.md\", \"content\": \"# notes\\n\"}]}. \
Next: coder::update-file changes lines of an existing file without sending it whole.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "create",
        description: "Write a whole new file; missing folders are made. {path, content, overwrite?, mode?, encoding?, if_match?, dry_run?} → bytes and \
etag. An existing file is refused (C217) unless overwrite is true; to change one use edit. \
Example: {\"path\":\"notes.md\",\"content\":\"# notes\\n\"}",
        input: r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"overwrite":{"type":"boolean"},"mode":{"type":"string"},"encoding":{"enum":["utf-8","base64"]},"if_match":{"type":"string"},"dry_run":{"type":"boolean"}},"required":["path","content"]}"#,
        shape: Shape::Entry("files", &["atomic", "dry_run", "base_dir"]),
        destroys: true,
        idempotent: true,
    });
    type Request = CreateFileRequest;
    type Response = CreateFileResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"files": [{"path": "notes.md", "content": "# notes\n"}]}))]
#[schemars(example = serde_json::json!({"files": [{"path": "bin/run", "content": "#!/bin/sh\n", "mode": "0755", "overwrite": true}], "atomic": true}))]
pub struct CreateFileRequest {
    /// The files, at least one and at most `max_batch_entries`.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<CreateEntry>")]
    pub files: Vec<Value>,
    /// All entries or none. Default false: each succeeds or fails alone.
    #[serde(default)]
    pub atomic: Option<bool>,
    /// Change nothing: the same checks and results, each with `dry_run: true`. Entries see what earlier ones would have done.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// Relative paths begin here instead of at the primary root, and all paths must stay inside.
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// One new file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "notes.md", "content": "# notes\n"}))]
pub struct CreateEntry {
    #[serde(default)]
    pub path: Option<String>,
    /// The path in base64, for names that are not UTF-8. Instead of `path`.
    #[serde(default)]
    pub path_bytes: Option<String>,
    pub content: String,
    /// `"base64"`: `content` is exact bytes in standard base64.
    #[serde(default)]
    pub encoding: Option<Encoding>,
    /// Octal text, 1 to 4 digits up to `"0777"`. Default `"0644"`; on overwrite the file's own.
    #[serde(default)]
    pub mode: Option<String>,
    /// Make missing folders. Default true.
    #[serde(default)]
    pub parents: Option<bool>,
    /// Replace an existing file. Default false.
    #[serde(default)]
    pub overwrite: Option<bool>,
    /// Only if the file that is there has this etag; otherwise C219.
    #[serde(default)]
    pub if_match: Option<String>,
    /// `"*"`: only if nothing is there; the same as `overwrite: false`.
    #[serde(default)]
    pub if_none_match: Option<String>,
    /// As `dry_run` of the request, for this entry alone. C210 if it is false where the request says true.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CreateFileResponse {
    /// One per entry of `files`, in request order.
    pub results: Vec<CreateResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CreateResult {
    /// Canonical absolute path; as sent when the entry failed.
    pub path: String,
    /// The path in base64, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    /// Bytes of the new file; 0 when the entry failed.
    pub bytes_written: u64,
    /// The new file's version, for a later `if_match`. With `dry_run`: that of the file which is there now, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The file that was replaced had an owner or group that could not be kept.
    #[serde(skip_serializing_if = "is_false")]
    pub owner_changed: bool,
    /// With `dry_run`, of a text file that would be replaced: unified. The diffs of one call share
    /// `batch_read_budget_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff lacks hunks; present only when true.
    #[serde(skip_serializing_if = "is_false")]
    pub diff_truncated: bool,
    /// It was a dry run: this is what would have happened. Present only when true.
    #[serde(skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Absent on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

pub(super) fn is_false(value: &bool) -> bool {
    !*value
}
