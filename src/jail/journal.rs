//! What a worker writes down before it does it, one JSON line each. Pure.
//! Read again only by `recovery`, which trusts a journal no further than its header: the device and inode of the folder
//! it lies in, which nobody who planted it can have known.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::sys::fs::Stat;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Record {
    Header {
        dev: u64,
        ino: u64,
    },
    /// A name of ours in a folder below the root.
    Temporary {
        folder: Bytes,
        name: Bytes,
    },
}

/// Names are bytes, JSON is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> Self {
        STANDARD.encode(bytes.0)
    }
}

impl TryFrom<String> for Bytes {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

impl Record {
    pub(super) fn header(folder: &Stat) -> Self {
        Self::Header { dev: folder.dev, ino: folder.ino }
    }

    pub(super) fn temporary(folder: &[u8], name: &[u8]) -> Self {
        Self::Temporary { folder: Bytes(folder.to_vec()), name: Bytes(name.to_vec()) }
    }

    pub(super) fn to_line(&self) -> Vec<u8> {
        // Numbers and strings always serialise; an empty line would be skipped by the reader.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
