//! `coder::delete-file`: files, links and folders, for good or into the trash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct DeleteFile;

impl Function for DeleteFile {
    const NAME: &'static str = "coder::delete-file";
    const CLASS: FunctionClass = FunctionClass::Write;
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
        title: "Delete files",
        description: "Delete a file, a link or a folder (recursive: with all it holds). trash: true keeps it for restore.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"recursive":{"type":"boolean"},"trash":{"type":"boolean"},"dry_run":{"type":"boolean"}},"required":["path"]}"#,
        argument_mapping: ArgumentMapping::Entry("paths", &["recursive", "trash", "atomic", "dry_run", "base_dir"]),
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
    #[schemars(description = fields::ATOMIC)]
    #[serde(default)]
    pub atomic: Option<bool>,
    #[schemars(description = fields::DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
    #[schemars(description = fields::BASE_DIR)]
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
    #[schemars(description = fields::PATH_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    #[schemars(description = fields::IF_MATCH)]
    #[serde(default)]
    pub if_match: Option<String>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteFileResponse {
    #[schemars(description = fields::RESULTS_OF_PATHS)]
    pub results: Vec<DeleteResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeleteResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub entries_more: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
