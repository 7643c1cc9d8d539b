//! Turns an audit record into an act, which `tail` and `report` show: a read, a change or a refusal. Pure.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::super::{args::AuditOutcome, escape};

/// Functions whose entries have `outcome` records. Their `decided` records are skipped, because they would count twice.
const CHANGING_FUNCTIONS: [&str; 7] = ["create-file", "update-file", "delete-file", "move", "copy", "mkdir", "restore"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CliAuditEvent {
    pub(super) time_ms: i64,
    pub(super) outcome: AuditOutcome,
    /// Without `coder::`; `connect` for a refused connection.
    pub(super) function: String,
    /// Absolute, or as the client sent it. Nothing for a connection, or a call without names.
    pub(super) path: Vec<u8>,
    /// The other end of a move or copy.
    pub(super) to: Option<Vec<u8>>,
    /// The code of a refusal.
    pub(super) code: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) entries: Option<u64>,
    pub(super) uid: u64,
    pub(super) pid: i64,
    pub(super) connection: u64,
}

impl CliAuditEvent {
    /// None for a record that is no read, change or refusal.
    pub(super) fn from_record(record: &Value) -> Option<Self> {
        let event = record["event"].as_str()?;
        let function = record["reported_function"].as_str().unwrap_or_default();
        let function = function.strip_prefix("coder::").unwrap_or(function);
        let text = |field: &str| record[field].as_str().map(escape::escape_text);
        let (outcome, path, code) = match event {
            "refused" => (AuditOutcome::Refused, Vec::new(), text("code")),
            "reported" => (AuditOutcome::Refused, record_path(record, "reported_path")?, text("reported_code")),
            "outcome" => {
                let outcome = match record["reported_outcome"].as_str()? {
                    "changed" => AuditOutcome::Changed,
                    "unchanged" => AuditOutcome::Unchanged,
                    "dry-run" => AuditOutcome::DryRun,
                    "refused" => AuditOutcome::Refused,
                    _ => return None,
                };
                (outcome, record_path(record, "reported_path")?, text("reported_code"))
            }
            "decided" if CHANGING_FUNCTIONS.contains(&function) => return None,
            // A stat: the metadata was read, the content was not.
            "decided" if record["intent"] == "look" && record["decision"] == "granted" => return None,
            "decided" => {
                let outcome = match record["decision"].as_str()? {
                    "granted" => AuditOutcome::Read,
                    "denied" | "escape" | "mount" | "read-only" | "protected" => AuditOutcome::Refused,
                    _ => return None,
                };
                (outcome, join_root(record["root"].as_str()?, record_path(record, "path")?), text("code"))
            }
            _ => return None,
        };
        Some(Self {
            time_ms: record["time_ms"].as_i64()?,
            outcome,
            function: if event == "refused" { "connect".into() } else { escape::escape_text(function) },
            path,
            to: record_path(record, "reported_to"),
            code,
            bytes: record["reported_bytes"].as_u64(),
            entries: record["reported_entries"].as_u64(),
            uid: record["uid"].as_u64()?,
            pid: record["pid"].as_i64()?,
            connection: record["connection"].as_u64()?,
        })
    }

    /// The name, and the destination of a move or copy.
    pub(super) fn display_names(&self) -> String {
        match &self.to {
            Some(to) => format!("{} -> {}", path_or_dash(&self.path), path_or_dash(to)),
            None => path_or_dash(&self.path),
        }
    }
}

fn path_or_dash(path: &[u8]) -> String {
    if path.is_empty() { "-".into() } else { escape::name(path) }
}

fn record_path(record: &Value, field: &str) -> Option<Vec<u8>> {
    let bytes = record[format!("{field}_bytes")].as_str().and_then(|bytes| STANDARD.decode(bytes).ok());
    bytes.or_else(|| record[field].as_str().map(|text| text.as_bytes().to_vec()))
}

fn join_root(root: &str, path: Vec<u8>) -> Vec<u8> {
    if path.is_empty() {
        return root.as_bytes().to_vec();
    }
    [root.trim_end_matches('/').as_bytes(), b"/", &path].concat()
}
