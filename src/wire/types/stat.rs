//! `coder::stat`: what is known about many names, without their content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{fields, list_folder::EntryKind};
use crate::wire::{
    Error,
    function::{Cost, Function, FunctionClass},
};

#[derive(Debug, Clone, Copy)]
pub struct Stat;

impl Function for Stat {
    const NAME: &'static str = "coder::stat";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Short;
    const DESCRIPTION: &'static str = "Request: {paths: [\"a\", {path: \"b\"}], etag?, lines?, base_dir?}. \
Response: {results: [{path, success, kind, size, mode, mtime, mtime_ns, nlink, link_target?, total_lines?, is_utf8?, \
etag?, or error: {code, message}}]} in request order; one bad entry fails alone. \
Looks at files, folders, links and anything else without opening them. A link is reported with its link_target, never \
followed. lines: true adds total_lines and is_utf8, etag: true the version of each regular file; both read the files whole. \
Example: {\"paths\": [\"Cargo.toml\", \"src\"], \"etag\": true}. \
Next: coder::read-file {\"path\": \"Cargo.toml\"} reads one, coder::list-folder {\"path\": \"src\"} lists a folder; keep \
etag for a later if_match.";
    type Request = StatRequest;
    type Response = StatResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"paths": ["Cargo.toml", "src"]}))]
#[schemars(example = serde_json::json!({"paths": [{"path": "src/main.rs"}], "etag": true, "lines": true}))]
pub struct StatRequest {
    /// The names, at most `max_batch_entries`. Each is a path or an object with one.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<StatPath>")]
    pub paths: Vec<Value>,
    /// Add the version (`etag`) of regular files; this reads them whole.
    #[serde(default)]
    pub etag: Option<bool>,
    /// Add `total_lines` and `is_utf8` of regular files; this reads them whole.
    #[serde(default)]
    pub lines: Option<bool>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// An entry of `paths`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StatPath {
    Path(String),
    Entry(StatEntry),
}

/// One name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatEntry {
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::PATH_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatResponse {
    #[schemars(description = fields::RESULTS_OF_PATHS)]
    pub results: Vec<StatResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    #[serde(flatten)]
    pub view: Option<StatView>,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// What is known about a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatView {
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    #[schemars(description = fields::PERMISSIONS)]
    pub mode: u32,
    #[schemars(description = fields::MTIME)]
    pub mtime: i64,
    #[schemars(description = fields::MTIME_NS)]
    pub mtime_ns: u32,
    /// Names of the file; more than 1 means hard links.
    pub nlink: u64,
    /// What a link says; it may lead anywhere or nowhere, and is never followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_target: Option<String>,
    /// The target in base64, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_target_bytes: Option<String>,
    /// With `lines`, for regular files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// With `lines`: whether the whole file is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_utf8: Option<bool>,
    #[schemars(description = fields::ETAG)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}
