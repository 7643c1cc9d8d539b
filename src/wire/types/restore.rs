//! `coder::restore`: what is in the trash, and getting it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{fields, list_folder::EntryKind};
use crate::wire::{
    Error,
    function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct Restore;

impl Function for Restore {
    const NAME: &'static str = "coder::restore";
    const CLASS: FunctionClass = FunctionClass::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request, to look: {list: true, path?, base_dir?}. \
Response: {entries: [{id, path, kind, size, deleted_at}]}, the newest first; path leaves only what was deleted at or below it. \
Request, to get back: {ids: [\"…\"], overwrite?, dry_run?, base_dir?}. Response: {results: [{id, path, success, or error: {code, message}}]} in \
request order. A thing goes back to where it was; a name that is taken by now answers C217 unless overwrite: true. \
In the trash is what coder::delete-file put there with trash: true; the oldest is dropped when it is full. \
dry_run: true (of the call, or of one entry {id, dry_run}) restores nothing and says what would happen. \
Example: {\"list\": true}.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "restore",
        title: "Restore from the trash",
        description: "Get back what delete put into the trash. {list: true} → ids; {ids} → back to where it was.",
        input_schema: r#"{"type":"object","properties":{"list":{"type":"boolean"},"ids":{"type":"array","items":{"type":"string"}},"overwrite":{"type":"boolean"},"dry_run":{"type":"boolean"}}}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: true,
        idempotent: true,
    });
    type Request = RestoreRequest;
    type Response = RestoreResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"list": true}))]
#[schemars(example = serde_json::json!({"ids": ["019a8b2c4d5-1f-0123456789abcdef0123456789abcdef"]}))]
pub struct RestoreRequest {
    /// Show what is in the trash. Either this or `ids`.
    #[serde(default)]
    pub list: Option<bool>,
    /// With `list`: only what was deleted at or below this path.
    #[serde(default)]
    pub path: Option<String>,
    /// The same in base64, for names that are not UTF-8.
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// What to restore, by the ids that `list` shows; at most `max_batch_entries`.
    #[serde(default)]
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Option<Vec<RestoreId>>")]
    pub ids: Option<Vec<Value>>,
    /// Replace what is there by now. Default false.
    #[serde(default)]
    pub overwrite: Option<bool>,
    /// With `ids`: change nothing: the same checks and results, each with `dry_run: true`. Entries see what earlier ones would
    /// have done.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// `path` begins here instead of at the primary root, and must stay inside; what lay elsewhere is neither listed nor
    /// restored (C218).
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// An entry of `ids`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RestoreId {
    Id(String),
    Entry(RestoreEntry),
}

/// One thing in the trash.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"id": "019a8b2c4d5-1f-0123456789abcdef0123456789abcdef", "dry_run": true}))]
pub struct RestoreEntry {
    pub id: String,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoreResponse {
    /// With `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<TrashEntry>>,
    /// With `ids`: one per id, in request order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<RestoreResult>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrashEntry {
    pub id: String,
    /// Where it was, as a canonical absolute path.
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub kind: EntryKind,
    /// Bytes, of a folder those of all its files.
    pub size: u64,
    /// Whole seconds since 1970.
    pub deleted_at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoreResult {
    pub id: String,
    /// Canonical absolute path; empty when the entry failed.
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
