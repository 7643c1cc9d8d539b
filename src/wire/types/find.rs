//! `coder::find`: files and folders by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{fields, list_folder::EntryKind};
use crate::wire::function::{ArgumentMapping, Cost, Function, FunctionClass, Tool};

#[derive(Debug, Clone, Copy)]
pub struct Find;

impl Function for Find {
    const NAME: &'static str = "coder::find";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {paths: [\"*.rs\", \"src\", \"docs/**/*.md\"], kind?, sort?, limit?, \
cursor?, hidden?, gitignore?, use_default_excludes?, min_size?, max_size?, modified_after?, modified_before?, timeout?, \
render?, base_dir?}. \
Response: {files: [{path, kind, size, mtime}], file_count, truncated, next_cursor?, missing_paths, scope_path, text?}. \
Finds files and folders by name. An entry of paths is a glob, a folder (all below it) or a file. * and ? stop at a slash, \
** does not; a glob without a folder in front matches at any depth (*.rs), one with a folder only there (src/*.rs); a name that does not \
exist as it stands (main.rs) is looked for at any depth. Links \
are listed, never followed. What .gitignore names is left out unless gitignore is false; so are .git, node_modules and the \
like (use_default_excludes) unless a glob names them. Newest first, or sort: \"path\". Denied names never appear. \
Example: {\"paths\": [\"src/**/*.rs\"], \"sort\": \"path\"}. \
Next: while next_cursor is there call again with cursor; coder::search finds text inside files, coder::read-file reads one.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "find",
        title: "Find files by name",
        description: "Find files and folders by name, newest first (sort \"path\": by name). paths: globs (*.rs at any depth, src/*.rs only there, ** crosses \
folders), names (main.rs: at any depth) or folders. Ignore files hold unless gitignore: false. limit: default 200. Example: {\"paths\":[\"src/**/*.rs\"]}",
        input_schema: r#"{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}},"kind":{"enum":["any","file","dir"]},"sort":{"enum":["mtime","path"]},"limit":{"type":"integer"},"gitignore":{"type":"boolean"},"cursor":{"type":"string"}},"required":["paths"]}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = FindRequest;
    type Response = FindResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"paths": ["*.rs"]}))]
#[schemars(example = serde_json::json!({"paths": ["src", "docs/**/*.md"], "kind": "file", "sort": "path", "limit": 1000}))]
#[schemars(example = serde_json::json!({"paths": ["**/*.log"], "gitignore": false, "min_size": 1_048_576}))]
pub struct FindRequest {
    /// Globs, folders and files, at most `max_batch_entries`. Each is a text, or an object with `path` or `path_bytes`.
    #[schemars(with = "Vec<FindPath>")]
    pub paths: Vec<Value>,
    /// Only files, or only folders; default both, with links and special files.
    #[serde(default)]
    pub kind: Option<FindKind>,
    /// `mtime` (default): newest first. `path`: by name, component by component.
    #[serde(default)]
    pub sort: Option<FindSort>,
    /// Entries of one reply; default 200, at most 10000.
    #[serde(default)]
    pub limit: Option<u32>,
    #[schemars(description = fields::CURSOR)]
    #[serde(default)]
    pub cursor: Option<String>,
    /// False: leave out names that begin with a dot. Default true.
    #[serde(default)]
    pub hidden: Option<bool>,
    /// False: also what .gitignore and .ignore files name. Default true.
    #[serde(default)]
    pub gitignore: Option<bool>,
    /// False: also what `default_exclude_globs` names. Default true.
    #[serde(default)]
    pub use_default_excludes: Option<bool>,
    /// Only files of at least this many bytes.
    #[serde(default)]
    pub min_size: Option<u64>,
    /// Only files of at most this many bytes.
    #[serde(default)]
    pub max_size: Option<u64>,
    /// Only what was changed after this second since 1970.
    #[serde(default)]
    pub modified_after: Option<i64>,
    /// Only what was changed before this second since 1970.
    #[serde(default)]
    pub modified_before: Option<i64>,
    /// Seconds after which what was found so far is returned; default 5, from 0.5 to 60.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// `grouped` adds `text`: names under their folders, for reading.
    #[serde(default)]
    pub render: Option<FindRender>,
    #[schemars(description = fields::BASE_DIR)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

/// An entry of `paths`, as the schema shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FindPath {
    Path(String),
    Entry(FindEntryPath),
}

/// One glob, folder or file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindEntryPath {
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::GLOB_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindKind {
    Any,
    File,
    Dir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindSort {
    Mtime,
    Path,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindRender {
    Grouped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindResponse {
    pub files: Vec<Found>,
    /// Entries of `files`.
    pub file_count: u64,
    /// True: there is more, or there may be; `truncated_reason` says why.
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_reason: Option<FindTruncated>,
    /// True: `limit` ended this reply.
    pub limit_reached: bool,
    /// True: the time was up before everything was looked at.
    pub timed_out: bool,
    /// Pass it as `cursor` to go on. Absent when there is nothing more, and when the time was up with `sort` by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[schemars(description = fields::MISSING_PATHS)]
    pub missing_paths: Vec<String>,
    /// The folder that all of this lies in.
    pub scope_path: String,
    /// Folders that could not be read, and paths too long to be named.
    pub skipped: FindSkipped,
    /// With `render: "grouped"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Found {
    #[schemars(description = fields::SHOWN_PATH)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub kind: EntryKind,
    /// Bytes; 0 for a mount point.
    pub size: u64,
    /// Last change, whole seconds since 1970; 0 for a mount point.
    pub mtime: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindSkipped {
    pub unreadable: u64,
    pub too_deep: u64,
    /// Entries that ignore files hid. A hidden folder counts as one, because it is not entered. Absent if there are none.
    #[serde(skip_serializing_if = "fields::is_zero")]
    pub ignored: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindTruncated {
    /// `limit` entries are here.
    Limit,
    /// `timeout` or the call's deadline passed.
    Deadline,
}
