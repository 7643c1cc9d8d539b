//! The error type of all functions. Its codes are those of `terms`; an agent reads its texts.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::terms::Code;

/// `{"code": "C211", "message": "…"}` on the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, schemars::JsonSchema)]
#[error("{code} {message}")]
pub struct Error {
    pub code: Code,
    pub message: String,
    /// With C219: the version that is there now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
    /// With C221: why the name cannot be changed; absent in a read-only root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// With `protected`: the glob of the policy's `[protect]`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// With C210 for `old` that is not in the file: the lines that are most like it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nearest: Option<Box<NearestLines>>,
    /// A rule of the policy, and not the disk, refused the name. For the audit: a client gets the same answer for both.
    #[serde(skip)]
    pub is_denied: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A glob of `[protect]` matches the name: clients can read but not change it.
    Protected,
}

/// Lines of a file, to be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NearestLines {
    /// Number of the first line, 1-based.
    pub from_line: u64,
    /// Without line ends; invalid bytes become U+FFFD. A line above 1,000 bytes is cut and ends with `…`.
    pub lines: Vec<String>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), etag: None, reason: None, rule: None, nearest: None, is_denied: false }
    }

    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(Code::BadInput, message)
    }

    /// A missing and a denied name have the same error: no answer about a denied name may depend on whether it exists.
    pub fn not_found(path_as_sent: &str) -> Self {
        Self::new(
            Code::NotFound,
            format!(
                "{path_as_sent}: not found or not accessible; see what is there with coder::list-folder or coder::tree"
            ),
        )
    }

    /// C211 with names that were perhaps meant. Each is quoted, because names are data.
    pub fn with_near_names(mut self, names: &[String]) -> Self {
        const NEXT: &str = "; see what is there";
        let quoted: Vec<String> = names.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
        if let (false, Some(at)) = (quoted.is_empty(), self.message.rfind(NEXT)) {
            self.message.insert_str(at, &format!("; names near it: {}", quoted.join(", ")));
        }
        self
    }

    /// The error for a name that a rule denies. The client gets the same answer as for a missing file.
    pub fn denied(path_as_sent: &str) -> Self {
        Self { is_denied: true, ..Self::not_found(path_as_sent) }
    }

    /// C221 for a change of a protected name.
    pub fn protected(message: String, rule: &str) -> Self {
        let rule = Some(rule.to_owned());
        Self { reason: Some(Reason::Protected), rule, ..Self::new(Code::ReadOnly, message) }
    }

    /// Other I/O errors, with the text of the system and the path as sent.
    pub fn io(path_as_sent: &str, what: impl fmt::Display) -> Self {
        Self::new(Code::Io, format!("{path_as_sent}: {what}"))
    }

    pub fn busy(path_as_sent: &str) -> Self {
        Self::new(Code::Busy, format!("{path_as_sent}: changed while it was being opened; retry the call"))
    }
}
