//! `coder::list-folder`: one folder, one page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields;
use crate::wire::function::{ArgumentMapping, Cost, Function, FunctionClass, Tool};

#[derive(Debug, Clone, Copy)]
pub struct ListFolder;

impl Function for ListFolder {
    const NAME: &'static str = "coder::list-folder";
    const CLASS: FunctionClass = FunctionClass::Read;
    // A folder may hold millions.
    const COST: Cost = Cost::Long;
    const DESCRIPTION: &'static str = "Request: {path?, page?, page_size?, base_dir?}. \
Response: {path, entries: [{name, kind, size, mtime, non_accessible}], total, page, page_size, has_more}. \
Lists one folder, not its subfolders, sorted by name bytes, files and folders mixed. kind is file, dir, symlink or \
other; links are shown, never followed. non_accessible: true means that no function will read or change the entry. \
Example: {\"path\": \"src\", \"page\": 1, \"page_size\": 100}. \
Next: while has_more is true call again with page + 1; read a file with coder::read-file {\"path\": \"src/main.rs\"}.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "list",
        title: "List a folder",
        description: "List one folder by name, with sizes; folders end in /. page_size: default 100.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string"},"page":{"type":"integer"},"page_size":{"type":"integer"}}}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = ListFolderRequest;
    type Response = ListFolderResponse;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"path": "src"}))]
#[schemars(example = serde_json::json!({"path": ".", "page": 2, "page_size": 50}))]
pub struct ListFolderRequest {
    #[schemars(description = fields::FOLDER)]
    #[serde(default)]
    pub path: Option<String>,
    #[schemars(description = fields::FOLDER_BYTES)]
    #[serde(default)]
    pub path_bytes: Option<String>,
    /// 1-based; default 1, and 0 means 1.
    #[serde(default)]
    pub page: Option<u32>,
    /// Entries per page; default `list_default_page_size`, at most `list_max_page_size`, at least 1.
    #[serde(default)]
    pub page_size: Option<u32>,
    #[schemars(description = fields::BASE_DIR_OF_ONE)]
    #[serde(default)]
    pub base_dir: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListFolderResponse {
    #[schemars(description = fields::SHOWN_FOLDER)]
    pub path: String,
    #[schemars(description = fields::SHOWN_PATH_BYTES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// This page, sorted by name bytes.
    pub entries: Vec<ListEntry>,
    /// Entries of the whole folder.
    pub total: u64,
    /// The page shown.
    pub page: u32,
    /// The page size used.
    pub page_size: u32,
    /// True: call again with `page` + 1.
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListEntry {
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
    /// True: no function reads, writes or deletes this entry.
    pub non_accessible: bool,
    #[schemars(description = fields::MOUNT_POINT)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mount_point: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    File,
    Dir,
    Symlink,
    /// FIFO, socket or device.
    Other,
}
