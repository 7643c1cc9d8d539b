//! Paths as a person would type them: below the primary root without it, elsewhere in full.

use std::ffi::{OsStr, OsString};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CallSession, escape,
    failure::{CliFailure, unexpected_result},
};

/// Where relative paths begin.
#[derive(Debug)]
pub(super) struct PrimaryRoot {
    prefix: Vec<u8>,
}

#[derive(Deserialize)]
struct PrimaryRootInfo {
    primary_root: String,
}

impl PrimaryRoot {
    pub(super) fn query(session: &mut dyn CallSession) -> Result<Self, CliFailure> {
        let reply = session.call("coder::info", "{}")?;
        let info: PrimaryRootInfo = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let mut prefix = info.primary_root.into_bytes();
        if prefix.last() != Some(&b'/') {
            prefix.push(b'/');
        }
        Ok(Self { prefix })
    }

    /// The bytes that a path stands for, shortened.
    pub(super) fn shorten(&self, path: &str, path_bytes: Option<&str>) -> Vec<u8> {
        let bytes = path_bytes.and_then(|bytes| BASE64.decode(bytes).ok());
        let bytes = bytes.unwrap_or_else(|| path.as_bytes().to_vec());
        bytes.strip_prefix(self.prefix.as_slice()).map(<[u8]>::to_vec).unwrap_or(bytes)
    }
}

/// `path`, or `path_bytes` for a name that is not UTF-8.
pub(super) fn wire_path(path: &OsString) -> Value {
    let mut entry = json!({});
    set_path(&mut entry, "path", path);
    entry
}

/// A name in the field, or in base64 in the field with `_bytes` behind it.
pub(super) fn set_path(entry: &mut Value, field: &str, name: &OsStr) {
    match name.to_str() {
        Some(name) => entry[field] = name.into(),
        None => entry[format!("{field}_bytes")] = BASE64.encode(name.as_encoded_bytes()).into(),
    }
}

/// What a call is given for the paths of a command line; everything where there is none.
pub(super) fn wire_paths(paths: &[OsString]) -> Vec<Value> {
    if paths.is_empty() {
        return vec![".".into()];
    }
    paths.iter().map(wire_path).collect()
}

/// A name as it was typed, safe for a terminal.
pub(super) fn display_path(path: &OsStr) -> String {
    escape::name(path.as_encoded_bytes())
}
