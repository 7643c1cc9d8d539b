//! `coder::delete-file`: files, links and folders, for good or into the trash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{
    Error,
    function::{Class, Cost, Function, Shape, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct DeleteFile;

impl Function for DeleteFile {
    const NAME: &'static str = "coder::delete-file";
    const CLASS: Class = Class::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {paths: [\"a\", {path: \"b\", if_match: \"…\"}], recursive?, trash?, atomic?, dry_run?, base_dir?}. \
Response: {results: [{path, success, removed, trash_id?, entries?, or error: {code, message}}]} in request order; one bad entry fails \
alone, unless atomic: true, which deletes all entries or none. \
A missing name is success with removed: false. A folder that is not empty needs recursive: true, and is deleted whole; \
one that holds entries you may not touch answers C211. A link is deleted itself, never what it points to. \
trash: true keeps what is deleted for coder::restore, by its trash_id. dry_run: true (of \
the call or of one entry) deletes nothing and says what would go, of a folder how many entries. \
Example: {\"paths\": [\"build\"], \"recursive\": true}.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "delete",
        description: "Delete a file, a link or a folder. {path, recursive?, trash?, if_match?, dry_run?}. A folder that is not empty needs recursive; \
trash: true keeps it for restore. Example: {\"path\":\"old.txt\",\"trash\":true}",
        input: r#"{"type":"object","properties":{"path":{"type":"string"},"recursive":{"type":"boolean"},"trash":{"type":"boolean"},"if_match":{"type":"string"},"dry_run":{"type":"boolean"}},"required":["path"]}"#,
        shape: Shape::Entry("paths", &["recursive", "trash", "atomic", "dry_run", "base_dir"]),
        destroys: true,
        idempotent: true,
    });
    type Request = DeleteFileRequest;
    type Response = DeleteFileResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"paths": ["notes.md"]}))]
#[schemars(example = serde_json::json!({"paths": ["build", {"path": "old.txt"}], "recursive": true, "atomic": true}))]
pub struct DeleteFileRequest {
    /// The names, at least one and at most `max_batch_entries`. Each is a path or an object with one.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<DeletePath>")]
    pub paths: Vec<Value>,
    /// Folders with all they hold. Default false: only empty ones.
    #[serde(default)]
    pub recursive: Option<bool>,
    /// Into the trash instead of for good. Default: the policy's, see `trash` of coder::info.
    #[serde(default)]
    pub trash: Option<bool>,
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

/// An entry of `paths`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DeletePath {
    Path(String),
    Entry(DeleteEntry),
}

/// One name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteEntry {
    #[serde(default)]
    pub path: Option<String>,
    /// The path in base64, for names that are not UTF-8. Instead of `path`.
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// Only if the file that is there has this etag; otherwise C219.
    #[serde(default)]
    pub if_match: Option<String>,
    /// As `dry_run` of the request, for this entry alone. C210 if it is false where the request says true.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteFileResponse {
    /// One per entry of `paths`, in request order.
    pub results: Vec<DeleteResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteResult {
    /// Canonical absolute path; as sent when the entry failed.
    pub path: String,
    /// The path in base64, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    /// False when nothing was there.
    pub removed: bool,
    /// By which coder::restore gets it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trash_id: Option<String>,
    /// With `dry_run`, of a folder: how many entries would go with it, at any depth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// There are more than `entries`, where the count stopped; present only when true.
    #[serde(skip_serializing_if = "super::create_file::is_false")]
    pub entries_more: bool,
    /// It was a dry run: this is what would have happened. Present only when true.
    #[serde(skip_serializing_if = "super::create_file::is_false")]
    pub dry_run: bool,
    /// Absent on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
