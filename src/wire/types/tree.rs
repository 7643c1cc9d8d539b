//! `coder::tree`: a folder and what is below it, level by level.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fields, list_folder::EntryKind};
use crate::wire::function::{ArgumentMapping, Cost, Function, FunctionClass, Tool};

#[derive(Debug, Clone, Copy)]
pub struct Tree;

impl Function for Tree {
    const NAME: &'static str = "coder::tree";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {path?, max_depth?, per_folder_limit?, use_default_excludes?, gitignore?, base_dir?}. \
Response: {path, root: {name, kind, size, mtime, children?, truncated?: {reason, shown, total?, hint}}, ignored?}. \
Shows a folder with its subfolders in one call: the shape of a project. Nodes carry names only; the path of a child is \
its parent's path + \"/\" + name, beginning with the response's path. Children are sorted by name bytes; links are \
leaves, never followed. A folder without children was not opened, and truncated says why: max_depth, per_folder_limit, \
default_exclude (.git, node_modules and the like, see coder::info), budget (the reply would grow too large) or io_error. \
gitignore: true leaves out what ignore files name, and ignored counts it. \
non_accessible: true means that no function will read or change the entry. \
Example: {\"path\": \".\", \"max_depth\": 2}. \
Next: the hint of a truncated folder names the call that continues; coder::list-folder {\"path\": \"src\"} pages through \
one large folder; coder::read-file {\"path\": \"src/main.rs\"} reads a file.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "tree",
        title: "Show a tree",
        description: "Show a folder with its subfolders, indented; max_depth: default 4. Ignore files hold unless gitignore: false. What is left out is marked with the call that shows it.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"max_depth":{"type":"integer"},"per_folder_limit":{"type":"integer"},"use_default_excludes":{"type":"boolean"},"gitignore":{"type":"boolean"}}}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = TreeRequest;
    type Response = TreeResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "."}))]
#[schemars(example = serde_json::json!({"path": "src", "max_depth": 2, "per_folder_limit": 100}))]
#[schemars(example = serde_json::json!({"path": "node_modules/left-pad", "use_default_excludes": false}))]
pub struct TreeRequest {
    #[schemars(description = fields::FOLDER)]
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FOLDER_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// Levels below the folder, which itself is level 0; default `tree_default_depth`, at most `tree_max_depth`.
    #[serde(default)]
    pub max_depth: Option<u32>,
    /// Entries shown of each folder; default `tree_per_folder_limit`, at least 1.
    #[serde(default)]
    pub per_folder_limit: Option<u32>,
    /// False: also show what `default_exclude_globs` leaves out. Default true.
    #[serde(default)]
    pub use_default_excludes: Option<bool>,
    /// True: leave out what .gitignore, .ignore and .git/info/exclude name. Default false.
    #[serde(default)]
    pub gitignore: Option<bool>,
    #[schemars(description = fields::BASE_DIR_OF_ONE)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TreeResponse {
    #[schemars(description = fields::SHOWN_FOLDER)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// The folder itself.
    pub root: TreeNode,
    /// With `gitignore`: entries that ignore files hid. A hidden folder counts as one. Absent if there are none.
    #[serde(skip_serializing_if = "fields::is_zero")]
    pub ignored: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TreeNode {
    #[schemars(description = fields::NAME)]
    pub name: String,
    #[schemars(description = fields::NAME_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<String>,
    pub kind: EntryKind,
    #[schemars(description = fields::ENTRY_SIZE)]
    pub size: u64,
    #[schemars(description = fields::ENTRY_MTIME)]
    pub mtime: i64,
    /// True: no function reads, writes or deletes this entry, and a folder was not opened. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub non_accessible: bool,
    #[schemars(description = fields::MOUNT_POINT)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mount_point: bool,
    /// Sorted by name bytes. Absent for what is no folder, and for folders that were not opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<TreeNode>>,
    /// Why a folder's children are not all here. Absent when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Truncated {
    pub reason: TruncatedReason,
    /// Children in this reply.
    pub shown: u64,
    /// Children there are, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The call that shows more.
    pub hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TruncatedReason {
    /// More children than the limit; the first by name are here.
    PerFolderLimit,
    /// Too many levels down; not opened.
    MaxDepth,
    /// Left out by default; not opened.
    DefaultExclude,
    /// Cannot be read; the hint says why.
    IoError,
    /// The reply has reached `tree_response_budget_bytes`.
    Budget,
}
