//! `coder::move` and `coder::copy`: two names in each entry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct Move;

impl Function for Move {
    const NAME: &'static str = "coder::move";
    const CLASS: FunctionClass = FunctionClass::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {files: [{from, to, overwrite?, parents?, if_match?, etag?}], atomic?, dry_run?, base_dir?}. \
Response: {results: [{from, to, success, moved, etag?, or error: {code, message}}]} in request order; one bad entry fails \
alone, unless atomic: true, which moves all entries or none. \
to is the new name itself, not a folder to move into. An existing destination answers C217 unless overwrite: true; a \
folder can only replace an empty folder, a file only a file. parents (default true) makes missing folders. A link is moved \
itself. Folders stay in their root; files may move to another one. dry_run: true (of the call or of one entry) moves nothing \
and says what would happen. \
Example: {\"files\": [{\"from\": \"notes.md\", \"to\": \"docs/notes.md\"}]}.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "move",
        title: "Move or rename",
        description: "Move or rename a file or folder; to is the new name itself. An existing one is refused (C217) unless overwrite is true.",
        input_schema: r#"{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"overwrite":{"type":"boolean"},"dry_run":{"type":"boolean"}},"required":["from","to"]}"#,
        argument_mapping: ArgumentMapping::Entry("files", &["atomic", "dry_run", "base_dir"]),
        destroys: true,
        idempotent: false,
    });
    type Request = MoveRequest;
    type Response = MoveResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"files": [{"from": "notes.md", "to": "docs/notes.md"}]}))]
pub struct MoveRequest {
    /// The moves, at least one and at most `max_batch_entries`.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<MoveEntry>")]
    pub files: Vec<Value>,
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

/// One move.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"from": "notes.md", "to": "docs/notes.md"}))]
pub struct MoveEntry {
    #[serde(flatten)]
    pub names: FromTo,
    #[schemars(description = fields::OVERWRITE)]
    #[serde(default)]
    pub overwrite: Option<bool>,
    #[schemars(description = fields::PARENTS)]
    #[serde(default)]
    pub parents: Option<bool>,
    #[schemars(description = fields::IF_MATCH_FROM)]
    #[serde(default)]
    pub if_match: Option<String>,
    /// Add the file's version (`etag`) to the result; this reads the whole file. Default false.
    #[serde(default)]
    pub etag: Option<bool>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

/// The two names of an entry.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FromTo {
    #[serde(default)]
    pub from: Option<String>,
    /// In base64, for names that are not UTF-8. Instead of `from`.
    #[serde(default)]
    pub from_bytes: Option<String>,
    /// The new name itself.
    #[serde(default)]
    pub to: Option<String>,
    /// In base64, for names that are not UTF-8. Instead of `to`.
    #[serde(default)]
    pub to_bytes: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MoveResponse {
    #[schemars(description = fields::RESULTS_OF_FILES)]
    pub results: Vec<MoveResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MoveResult {
    #[serde(flatten)]
    pub names: ShownFromTo,
    pub success: bool,
    /// False when both names are the same.
    pub moved: bool,
    /// The version of the file that was moved. Only with `etag: true` or `if_match`, and for a file that was copied to another
    /// root: a move within a root does not read the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Moving to another root made a new file whose owner or group is another.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_changed: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Canonical absolute paths; as sent when the entry failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownFromTo {
    pub from: String,
    #[schemars(description = fields::SHOWN_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<String>,
    pub to: String,
    #[schemars(description = fields::SHOWN_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_bytes: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct Copy;

impl Function for Copy {
    const NAME: &'static str = "coder::copy";
    const CLASS: FunctionClass = FunctionClass::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {files: [{from, to, overwrite?, parents?, recursive?, if_match?}], atomic?, dry_run?, base_dir?}. \
Response: {results: [{from, to, success, copied, bytes, etag?, or error: {code, message}}]} in request order; one bad entry \
fails alone, unless atomic: true, which copies all entries or none. \
to is the new name itself, not a folder to copy into. Folders need recursive: true and appear whole or not at all; one that \
holds entries you may not touch answers C211. An existing destination answers C217 unless overwrite: true. parents (default \
true) makes missing folders. The copy has the mode of the original. dry_run: true (of the call or of one entry) copies nothing \
and says what would happen. \
Example: {\"files\": [{\"from\": \"template\", \"to\": \"project\", \"recursive\": true}]}.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "copy",
        title: "Copy files",
        description: "Copy a file, or with recursive a folder; to is the new name itself.",
        input_schema: r#"{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"recursive":{"type":"boolean"},"overwrite":{"type":"boolean"},"dry_run":{"type":"boolean"}},"required":["from","to"]}"#,
        argument_mapping: ArgumentMapping::Entry("files", &["atomic", "dry_run", "base_dir"]),
        destroys: true,
        idempotent: true,
    });
    type Request = CopyRequest;
    type Response = CopyResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"files": [{"from": "template", "to": "project", "recursive": true}]}))]
pub struct CopyRequest {
    /// The copies, at least one and at most `max_batch_entries`.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<CopyEntry>")]
    pub files: Vec<Value>,
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

/// One copy.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"from": "a.txt", "to": "b.txt"}))]
pub struct CopyEntry {
    #[serde(flatten)]
    pub names: FromTo,
    #[schemars(description = fields::OVERWRITE)]
    #[serde(default)]
    pub overwrite: Option<bool>,
    #[schemars(description = fields::PARENTS)]
    #[serde(default)]
    pub parents: Option<bool>,
    /// Folders with all they hold. Default false.
    #[serde(default)]
    pub recursive: Option<bool>,
    #[schemars(description = fields::IF_MATCH_FROM)]
    #[serde(default)]
    pub if_match: Option<String>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyResponse {
    #[schemars(description = fields::RESULTS_OF_FILES)]
    pub results: Vec<CopyResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyResult {
    #[serde(flatten)]
    pub names: ShownFromTo,
    pub success: bool,
    pub copied: bool,
    /// Bytes of content that were copied.
    pub bytes: u64,
    /// The version of the file that was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[schemars(description = fields::OWNER_CHANGED)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_changed: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
