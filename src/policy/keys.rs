//! Every key of a policy and the values that it takes, as data. Runs where a policy is read. Pure.
//! What is not listed here is refused, so a misspelt key never passes for a rule.

use std::path::Path;

use super::{AuditPath, RunAs, parse_socket_mode};
use crate::path::DenyGlobs;

/// The values that a key takes. The functions return what is wrong with a text.
pub(super) enum KeyValue {
    Flag,
    /// From the first to the second, both included.
    Number(u64, u64),
    Word(&'static [&'static str]),
    Text(fn(&str) -> Result<(), String>),
    Texts(fn(&str) -> Result<(), String>),
    /// `[key]`.
    Table(&'static [PolicyKey]),
    /// `[[key]]`, any number of times.
    Tables(&'static [PolicyKey]),
}

pub(super) type PolicyKey = (&'static str, KeyValue);

use KeyValue::{Flag, Number, Table, Tables, Text, Texts, Word};

const MEBIBYTE: u64 = 1 << 20;
const TEBIBYTE: u64 = 1 << 40;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MAX_COUNT: u64 = 1_000_000_000;
/// The kernel reads (uid_t)-1 as "no change", so it is no valid id.
const MAX_ID: u64 = u32::MAX as u64 - 1;
const MODES: KeyValue = Word(&["ro", "rw"]);

pub(super) const TOP_KEYS: &[PolicyKey] = &[
    ("confinement", Word(&["kernel", "userspace"])),
    // Landlock can restrict renames between folders from 2 on; 16 is beyond what any kernel offers.
    ("min_landlock_abi", Number(2, 16)),
    ("run_as", Text(|text| RunAs::try_from(text.to_owned()).map(drop))),
    ("durability", Word(&["fsync", "none"])),
    ("wire_compat", Word(&["current", "0.2"])),
    ("root", Tables(ROOT_KEYS)),
    ("deny", Table(DENY_KEYS)),
    ("protect", Table(PROTECT_KEYS)),
    ("exclude", Table(&[("default_exclude_globs", Texts(check_exclude_glob))])),
    ("limits", Table(LIMITS_KEYS)),
    ("workers", Table(WORKERS_KEYS)),
    ("trash", Table(TRASH_KEYS)),
    ("audit", Table(AUDIT_KEYS)),
    ("socket", Table(&[("group", Text(check_name)), ("mode", Text(|text| parse_socket_mode(text).map(drop)))])),
    ("peer", Tables(PEER_KEYS)),
];

const ROOT_KEYS: &[PolicyKey] = &[
    ("path", Text(check_absolute)),
    ("mode", MODES),
    ("symlinks", Word(&["refuse", "beneath"])),
    ("cross_mounts", Flag),
    ("hardlinks", Word(&["allow", "refuse"])),
    ("optional", Flag),
    ("allow_nested", Flag),
    ("allow_world_writable", Flag),
    ("allow_casefold", Flag),
];

const DENY_KEYS: &[PolicyKey] = &[
    ("non_accessible_globs", Texts(check_path_glob)),
    ("except_globs", Texts(check_path_glob)),
    ("list_denied", Word(&["show", "hide"])),
];

const PROTECT_KEYS: &[PolicyKey] =
    &[("read_only_globs", Texts(check_path_glob)), ("except_globs", Texts(check_path_glob))];

/// Zero would switch a function off in a way that no error text explains, except for a depth.
const LIMITS_KEYS: &[PolicyKey] = &[
    ("max_read_bytes", Number(1, TEBIBYTE)),
    ("max_write_bytes", Number(1, TEBIBYTE)),
    ("tree_default_depth", Number(0, 4096)),
    ("tree_per_folder_limit", Number(1, MAX_COUNT)),
    ("list_default_page_size", Number(1, MAX_COUNT)),
    ("list_max_page_size", Number(1, MAX_COUNT)),
    ("search_default_max_matches", Number(1, MAX_COUNT)),
    // Held in 32 bits.
    ("search_default_max_line_bytes", Number(1, 1024 * MEBIBYTE)),
    ("batch_read_budget_bytes", Number(1, TEBIBYTE)),
    ("max_output_bytes", Number(1, TEBIBYTE)),
    ("search_response_budget_bytes", Number(1, TEBIBYTE)),
    ("tree_response_budget_bytes", Number(1, TEBIBYTE)),
    // A level of a tree takes two of JSON's, and ordinary parsers stop at 128.
    ("tree_max_depth", Number(1, 60)),
    ("search_max_line_buffer", Number(1, TEBIBYTE)),
    ("call_timeout_ms", Number(1, DAY_MS)),
    ("call_timeout_max_ms", Number(1, DAY_MS)),
    // A frame has to hold an ordinary call.
    ("max_frame_bytes", Number(65_536, 4096 * MEBIBYTE)),
    // Reserved in steps of 1 MiB.
    ("max_frame_bytes_per_uid", Number(MEBIBYTE, TEBIBYTE)),
    ("max_batch_entries", Number(1, MAX_COUNT)),
    ("max_calls_in_flight", Number(1, MAX_COUNT)),
    ("max_connections_per_uid", Number(1, MAX_COUNT)),
];

const WORKERS_KEYS: &[PolicyKey] =
    &[("threads", Number(2, 64)), ("pool", Number(0, 64)), ("max_memory_bytes", Number(64 * MEBIBYTE, TEBIBYTE))];

const TRASH_KEYS: &[PolicyKey] = &[("enabled", Flag), ("default", Flag), ("max_bytes", Number(1, TEBIBYTE))];

const AUDIT_KEYS: &[PolicyKey] = &[
    ("path", Text(|text| AuditPath::try_from(text.to_owned()).map(drop))),
    ("level", Word(&["denials", "decisions", "all"])),
];

const PEER_KEYS: &[PolicyKey] = &[
    ("uid", Number(0, MAX_ID)),
    ("user", Text(check_name)),
    ("gid", Number(0, MAX_ID)),
    ("group", Text(check_name)),
    ("roots", Texts(check_absolute)),
    ("mode", MODES),
];

/// Refuses a relative path: it would depend on the working directory of the daemon.
pub(super) fn check_absolute(text: &str) -> Result<(), String> {
    let is_absolute = Path::new(text).is_absolute() && !text.contains('\0');
    if is_absolute { Ok(()) } else { Err(format!("\"{text}\" is not an absolute path")) }
}

fn check_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty() && !text.contains(['\0', ':', '\n']);
    if is_name { Ok(()) } else { Err("a name is expected".into()) }
}

/// A glob over paths below a root.
fn check_path_glob(text: &str) -> Result<(), String> {
    DenyGlobs::new(&[text.into()], &[]).map(drop).map_err(|(_, what)| format!("\"{text}\": {what}"))
}

fn check_exclude_glob(text: &str) -> Result<(), String> {
    globset::Glob::new(text).map(drop).map_err(|error| format!("\"{text}\": {}", error.kind()))
}
