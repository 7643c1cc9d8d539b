//! What a worker is told before it confines itself. Made by the supervisor from the validated policy; the worker
//! trusts it, because nobody else can have written to its channel yet.

use serde::{Deserialize, Serialize};

use crate::{
    path::{Denied, Root},
    wire::Limits,
};

/// How strongly the service is confined, for every report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// openat2, Landlock and seccomp hold.
    Kernel,
    /// Only our own path handling holds. A conscious choice of the operator.
    Userspace,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub version: String,
    pub level: Level,
    pub landlock_abi: u32,
    pub resolver: String,
    /// One descriptor each comes with the message, in this order.
    pub roots: Vec<Root>,
    pub denied: Denied,
    pub default_exclude_globs: Vec<String>,
    pub hide_denied: bool,
    pub limits: Limits,
    pub threads: usize,
    pub max_memory_bytes: u64,
    /// Layers switched off; always 0 outside of test builds.
    #[serde(default)]
    pub weakened: u8,
}
