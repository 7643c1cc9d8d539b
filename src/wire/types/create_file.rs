//! `coder::create-file`: new files, whole or not at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{fields, read_file::Encoding};
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct CreateFile;

impl Function for CreateFile {
    const NAME: &'static str = "coder::create-file";
    const CLASS: FunctionClass = FunctionClass::Write;
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
        title: "Create files",
        description: "Write a whole new file, or several: files: [{path, content}]; missing folders are made. An existing file is refused (C217) \
unless overwrite is true; to change one use edit. atomic: all files or none. → bytes and etag. \
Example: {\"path\":\"notes.md\",\"content\":\"# notes\\n\"}",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"overwrite":{"type":"boolean"},"mode":{"type":"string"},"encoding":{"enum":["utf-8","base64"]},"files":{"type":"array","items":{"type":"object"}},"atomic":{"type":"boolean"},"if_match":{"type":"string"},"dry_run":{"type":"boolean"}}}"#,
        argument_mapping: ArgumentMapping::Entry("files", &["atomic", "dry_run", "base_dir", "strict"]),
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
    #[schemars(description = fields::ATOMIC)]
    #[serde(default)]
    pub atomic: Option<bool>,
    #[schemars(description = fields::DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// C210 instead of a warning for content with pasted line numbers.
    #[serde(default)]
    pub strict: Option<bool>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// One new file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "notes.md", "content": "# notes\n"}))]
pub struct CreateEntry {
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::PATH_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    pub content: String,
    /// `"base64"`: `content` is exact bytes in standard base64.
    #[serde(default)]
    pub encoding: Option<Encoding>,
    #[schemars(description = fields::VERBATIM)]
    #[serde(default)]
    pub verbatim: Option<bool>,
    #[schemars(description = fields::STRIP_READ_PREFIXES)]
    #[serde(default)]
    pub strip_read_prefixes: Option<bool>,
    /// Octal text, 1 to 4 digits up to `"0777"`. Default `"0644"`; on overwrite the file's own.
    #[serde(default)]
    pub mode: Option<String>,
    #[schemars(description = fields::PARENTS)]
    #[serde(default)]
    pub parents: Option<bool>,
    /// Replace an existing file. Default false.
    #[serde(default)]
    pub overwrite: Option<bool>,
    #[schemars(description = fields::IF_MATCH)]
    #[serde(default)]
    pub if_match: Option<String>,
    /// `"*"`: only if nothing is there; the same as `overwrite: false`.
    #[serde(default)]
    pub if_none_match: Option<String>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CreateFileResponse {
    #[schemars(description = fields::RESULTS_OF_FILES)]
    pub results: Vec<CreateResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CreateResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    /// Bytes of the new file; 0 when the entry failed.
    pub bytes_written: u64,
    /// The new file's version, for a later `if_match`. With `dry_run`: that of the file which is there now, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[schemars(description = fields::OWNER_CHANGED)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_changed: bool,
    /// With `dry_run`, of a text file that would be replaced: unified. The diffs of one call share
    /// `batch_read_budget_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff lacks hunks; present only when true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
