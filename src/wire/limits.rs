//! Every number a client can run into, by its policy name. `coder::info` shows them all.

use serde::{Deserialize, Serialize};

/// Units are in the names. The first block is the public contract's, the second ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub max_read_bytes: u64,
    pub max_write_bytes: u64,
    pub tree_default_depth: u32,
    pub tree_per_folder_limit: u32,
    pub list_default_page_size: u32,
    pub list_max_page_size: u32,
    pub search_default_max_matches: u32,
    pub search_default_max_line_bytes: u32,
    pub batch_read_budget_bytes: u64,
    pub max_output_bytes: u64,
    pub search_response_budget_bytes: u64,

    /// A `tree` reply never grows beyond this.
    pub tree_response_budget_bytes: u64,
    /// Levels one `tree` call descends at most.
    pub tree_max_depth: u32,
    /// Longest line a regex is matched against whole.
    pub search_max_line_buffer: u64,
    /// Deadline of a call that names none.
    pub call_timeout_ms: u64,
    /// Longest deadline a call may ask for.
    pub call_timeout_max_ms: u64,
    /// Longest line (frame) of the wire.
    pub max_frame_bytes: u64,
    /// Memory for all lines of one uid that are longer than 1 MiB, while they are received.
    pub max_frame_bytes_per_uid: u64,
    /// Entries of one batch.
    pub max_batch_entries: u32,
    /// Calls of one connection in flight; more wait in the socket.
    pub max_calls_in_flight: u32,
    /// Connections of one uid.
    pub max_connections_per_uid: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_read_bytes: 10 << 20,
            max_write_bytes: 10 << 20,
            tree_default_depth: 4,
            tree_per_folder_limit: 50,
            list_default_page_size: 100,
            list_max_page_size: 1000,
            search_default_max_matches: 1000,
            search_default_max_line_bytes: 4096,
            batch_read_budget_bytes: 1 << 20,
            max_output_bytes: 128 << 10,
            search_response_budget_bytes: 256 << 10,
            tree_response_budget_bytes: 256 << 10,
            tree_max_depth: 48,
            search_max_line_buffer: 16 << 20,
            call_timeout_ms: 30_000,
            call_timeout_max_ms: 600_000,
            max_frame_bytes: 64 << 20,
            max_frame_bytes_per_uid: 256 << 20,
            max_batch_entries: 1000,
            max_calls_in_flight: 64,
            max_connections_per_uid: 64,
        }
    }
}
