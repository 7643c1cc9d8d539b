//! The set-up, which a worker gets before it confines itself. The supervisor makes it from the validated policy. The worker trusts
//! it, because no other process can have written to its channel yet.

use serde::{Deserialize, Serialize};

use crate::{
    path::{Denied, Root},
    terms::{EnforcedConfinement, Limits, Trash, WireVersion},
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub version: String,
    pub enforced: EnforcedConfinement,
    /// One descriptor each comes with the message, in this order.
    pub roots: Vec<Root>,
    pub denied: Denied,
    pub default_exclude_globs: Vec<String>,
    pub hide_denied: bool,
    pub limits: Limits,
    pub threads: usize,
    pub max_memory_bytes: u64,
    /// Whether a write is on disk before it is acknowledged.
    pub durable: bool,
    pub wire: WireVersion,
    pub trash: Trash,
    /// Whether the supervisor writes an audit; for `coder::info`.
    pub audited: bool,
    /// Layers switched off; always 0 outside of test builds.
    #[serde(default)]
    pub weakened: u8,
    /// A call that fails or ends the worker; always empty outside of test builds.
    #[serde(default)]
    pub fault: String,
}
