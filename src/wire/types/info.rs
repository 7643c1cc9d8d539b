//! `coder::info`: what this connection may do, and every number it can run into.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields;
pub use crate::terms::{Level, Resolver, Trash};
use crate::{
    terms::{AccessTimes, Limits, Mode, Symlinks},
    wire::function::{ArgumentMapping, Cost, Function, FunctionClass, Tool},
};

#[derive(Debug, Clone, Copy)]
pub struct Info;

impl Function for Info {
    const NAME: &'static str = "coder::info";
    const CLASS: FunctionClass = FunctionClass::Read;
    const COST: Cost = Cost::Short;
    const DESCRIPTION: &'static str = "Request: {} (no fields). \
Response: {base_paths, primary_root, roots: [{path, mode, symlinks, cross_mounts, access_times}], non_accessible_globs, \
read_only_globs, default_exclude_globs, functions, confinement: {level, landlock_abi, resolver, layers, limitations}, \
trash: {enabled, default, max_bytes}, audit, \
server: {name, version}, version, and every limit by its policy name: max_read_bytes, max_output_bytes, \
batch_read_budget_bytes, list_max_page_size, …}. \
Make this call first: it says which folders you may name, whether they are writable, and how much one call may \
return. Relative paths in all other calls begin at primary_root; absolute paths must lie inside one of base_paths. \
Example: {}. Never fails. Next: coder::list-folder {\"path\": \".\"} shows what is there, coder::read-file reads it.";
    const TOOL: Option<Tool> = Some(Tool {
        name: "info",
        title: "Show roots and limits",
        description: "The roots, which of them are writable, what is protected, the limits.",
        input_schema: r#"{"type":"object","properties":{}}"#,
        argument_mapping: ArgumentMapping::Request,
        destroys: false,
        idempotent: true,
    });
    type Request = InfoRequest;
    type Response = InfoResponse;
}

/// No fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({}))]
pub struct InfoRequest {}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InfoResponse {
    /// Canonical absolute paths of the allowed roots; the first is primary.
    pub base_paths: Vec<String>,
    /// Where relative paths begin.
    pub primary_root: String,
    /// The same roots with their rules.
    pub roots: Vec<RootInfo>,
    /// Names that no function reads, writes, searches or moves; they answer like missing ones (C211).
    pub non_accessible_globs: Vec<String>,
    /// Exceptions from `non_accessible_globs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_accessible_except_globs: Vec<String>,
    /// Names that clients can read but not change; a change answers C221 with `reason` `protected`.
    pub read_only_globs: Vec<String>,
    /// Exceptions from `read_only_globs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_only_except_globs: Vec<String>,
    /// Folders that tree and search leave out unless told otherwise.
    pub default_exclude_globs: Vec<String>,
    /// Functions that this connection may call.
    pub functions: Vec<String>,
    /// What holds the jail on this machine.
    pub confinement: Confinement,
    /// What `coder::delete-file` can keep for `coder::restore`.
    pub trash: Trash,
    /// `on`: the service records connections, decisions about paths and the outcome of every change. `off`: it does not.
    pub audit: Audit,
    pub server: Server,
    /// The same as `server.version`.
    pub version: String,
    /// Every limit in force, by its policy name.
    #[serde(flatten)]
    pub limits: Limits,
}

/// Whether calls leave records that the operator can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Audit {
    On,
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RootInfo {
    #[schemars(description = fields::SHOWN_PATH)]
    pub path: String,
    /// `ro`: every write answers C221.
    pub mode: Mode,
    /// `refuse`: a path through a symbolic link answers C215. `beneath`: links inside this root are followed.
    pub symlinks: Symlinks,
    /// Whether paths may pass mount points inside the root.
    pub cross_mounts: bool,
    /// Whether reading changes access times: never (`kept`), only of files that another user owns (`owner_only`), always (`updated`).
    pub access_times: AccessTimes,
}

/// What confines the process that serves this connection: measured when it started, never assumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    pub level: Level,
    /// Version of the Landlock interface that is enforced; absent without Landlock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub landlock_abi: Option<u32>,
    pub resolver: Resolver,
    /// Which layer closes what.
    pub layers: Vec<Layer>,
    /// What stays open on this machine or under this policy. Empty when nothing is known.
    pub limitations: Vec<String>,
}

/// One way out, and what closes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// For example `reading outside the roots`.
    pub closes: String,
    /// For example `["openat2", "landlock"]`.
    pub by: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Server {
    pub name: String,
    pub version: String,
}
