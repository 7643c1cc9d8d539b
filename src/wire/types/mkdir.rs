//! `coder::mkdir`: folders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;
use crate::wire::{
    Error,
    function::{Cost, Function, FunctionClass},
};

#[derive(Debug, Clone, Copy)]
pub struct Mkdir;

impl Function for Mkdir {
    const NAME: &'static str = "coder::mkdir";
    const CLASS: FunctionClass = FunctionClass::Write;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {paths: [\"a\", {path: \"b\"}], parents?, mode?, atomic?, dry_run?, base_dir?}. \
Response: {results: [{path, success, created, or error: {code, message}}]} in request order; one bad entry fails alone, \
unless atomic: true, which makes all folders or none. \
A folder that exists is success with created: false; a file of that name answers C217. parents (default true) makes the \
folders above. coder::create-file makes missing folders by itself. dry_run: true (of the call or of one entry) makes nothing and \
says what would happen. \
Example: {\"paths\": [\"src/parser\"]}.";
    type Request = MkdirRequest;
    type Response = MkdirResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"paths": ["src/parser"]}))]
pub struct MkdirRequest {
    /// The folders, at least one and at most `max_batch_entries`. Each is a path or an object with one.
    // Values, so that one malformed entry fails alone instead of the call.
    #[schemars(with = "Vec<MkdirPath>")]
    pub paths: Vec<Value>,
    /// Make missing folders above. Default true.
    #[serde(default)]
    pub parents: Option<bool>,
    /// Octal text, 1 to 4 digits up to `"0777"`. Default `"0755"`; folders above always have that.
    #[serde(default)]
    pub mode: Option<String>,
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
pub enum MkdirPath {
    Path(String),
    Entry(MkdirEntry),
}

/// One folder.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct MkdirEntry {
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::PATH_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    #[schemars(description = fields::ENTRY_DRY_RUN)]
    #[serde(default)]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MkdirResponse {
    #[schemars(description = fields::RESULTS_OF_PATHS)]
    pub results: Vec<MkdirResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MkdirResult {
    #[schemars(description = fields::RESULT_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub success: bool,
    /// False when the folder was there already.
    pub created: bool,
    #[schemars(description = fields::WAS_DRY_RUN)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[schemars(description = fields::ERROR)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
