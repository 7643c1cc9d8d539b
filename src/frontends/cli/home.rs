//! Paths as a person would type them: below the primary root without it, elsewhere in full.

use std::ffi::OsString;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;

use super::{Session, failure::Failure, failure::unexpected};

/// Where relative paths begin.
#[derive(Debug)]
pub(super) struct Home {
    prefix: Vec<u8>,
}

#[derive(Deserialize)]
struct Info {
    primary_root: String,
}

impl Home {
    pub(super) fn ask(session: &mut dyn Session) -> Result<Self, Failure> {
        let reply = session.call("coder::info", "{}")?;
        let info: Info = serde_json::from_str(reply.get()).map_err(unexpected)?;
        let mut prefix = info.primary_root.into_bytes();
        if prefix.last() != Some(&b'/') {
            prefix.push(b'/');
        }
        Ok(Self { prefix })
    }

    /// The bytes that a path stands for, shortened.
    pub(super) fn relative(&self, path: &str, path_bytes: Option<&str>) -> Vec<u8> {
        let bytes = path_bytes.and_then(|bytes| BASE64.decode(bytes).ok());
        let bytes = bytes.unwrap_or_else(|| path.as_bytes().to_vec());
        bytes.strip_prefix(self.prefix.as_slice()).map(<[u8]>::to_vec).unwrap_or(bytes)
    }
}

/// What a call is given for the paths of a command line; everything where there is none.
pub(super) fn wire_paths(paths: &[OsString]) -> Vec<serde_json::Value> {
    if paths.is_empty() {
        return vec![".".into()];
    }
    paths.iter().map(super::read::wire_path).collect()
}
