//! What is enforced on this kernel, and which layer closes what. The truth, for `coder::info`, the log and the audit.

use serde::{Deserialize, Serialize};

use crate::broker::setup::Level;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Layer {
    pub name: String,
    pub enforced: bool,
    /// What this layer closes on this kernel.
    pub closes: String,
}

/// From this ABI on Landlock itself forbids emptying a file of a read-only root.
pub const ABI_TRUNCATE: u32 = 3;
const ABI_TCP: u32 = 4;
const ABI_IOCTL: u32 = 5;
const ABI_SCOPES: u32 = 6;
const ABI_UNIX: u32 = 9;

pub fn layers(level: Level, landlock_abi: u32, resolver: &str) -> Vec<Layer> {
    let kernel = level == Level::Kernel;
    let layer = |name: &str, enforced: bool, closes: String| Layer { name: name.into(), enforced, closes };
    vec![
        layer(
            resolver,
            true,
            "paths that climb, links, magic links and mount points, at the moment of resolution".into(),
        ),
        layer("landlock", kernel, landlock_closes(landlock_abi)),
        layer("seccomp", kernel, seccomp_closes(landlock_abi)),
        layer(
            "process",
            true,
            "privileges and capabilities, core dumps, tracing, descriptors, memory and open files".into(),
        ),
    ]
}

fn landlock_closes(abi: u32) -> String {
    let mut closes =
        vec!["opening, creating, renaming and removing outside the roots", "writing in read-only roots"];
    closes.extend((abi >= ABI_TRUNCATE).then_some("truncation"));
    closes.extend((abi >= ABI_TCP).then_some("TCP"));
    closes.extend((abi >= ABI_IOCTL).then_some("device ioctl"));
    closes.extend((abi >= ABI_SCOPES).then_some("signals and abstract sockets to processes outside"));
    closes.extend((abi >= ABI_UNIX).then_some("pathname sockets"));
    format!("ABI {abi}: {}", closes.join(", "))
}

fn seccomp_closes(abi: u32) -> String {
    let mut closes = vec![
        "programs, processes and threads",
        "sockets of every family",
        "mode, owner, times and attributes by name",
        "executable memory",
        "ioctl, io_uring, bpf, mounts, namespaces, tracing, signals",
    ];
    if abi < ABI_TRUNCATE {
        closes.push(
            "not closed on this kernel by any layer: a hostile worker can empty files of a read-only root",
        );
    }
    closes.join(", ")
}
