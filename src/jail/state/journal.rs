//! Runs in the worker: the records of journals and notes, in which a worker describes changes before it makes them, one JSON line
//! each. Pure.
//! Only `recovery` reads them. It trusts a worker's folder no further than the header of its journal: the inode number of that
//! folder, which a process that planted the folder cannot have known. Device numbers are recorded but not compared: a file system
//! that is mounted again, for example after a power cut, can have another one.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::sys::fs::{Kind, Stat};

/// The largest journal or note that a worker writes and that recovery reads. The steps of a batch take less, unless thousands of
/// missing folders are nested in each other; such a batch is refused before its first step.
pub(in crate::jail) const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(in crate::jail) enum Record {
    /// The first record of a journal: the folder that the journal lies in.
    Header(Id),
    /// A temporary name in a user's folder.
    Temporary { folder: Bytes, name: Bytes },
    /// In a note: steps that belong together, written before the first of them is done. In a journal: steps that its worker could
    /// not undo.
    Batch { steps: Vec<Step> },
    /// All steps of the note are done. A note without this record is undone.
    Committed,
}

/// One change of names, with what recovery needs to see whether it was done and to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(in crate::jail) enum Step {
    MakeDir {
        path: Bytes,
        mode: u32,
    },
    /// Moves `moved` from `from` to `to`. If something lay at `to`, it goes to `from`.
    Rename {
        from: At,
        to: At,
        moved: Thing,
        displaced: Option<Thing>,
    },
}

/// The identity of a file or folder. Includes more than the inode number, which another file can get once this one is gone:
/// recovery must never take a user's newer file for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jail) struct Thing {
    id: Id,
    /// None for a folder, because its times change with its entries.
    content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    size: u64,
    mtime: i64,
    mtime_ns: u32,
}

impl From<&Stat> for Thing {
    fn from(stat: &Stat) -> Self {
        let content = Content { size: stat.size_bytes, mtime: stat.mtime, mtime_ns: stat.mtime_ns };
        Self { id: Id::from(stat), content: (stat.kind != Kind::Dir).then_some(content) }
    }
}

impl Thing {
    pub(in crate::jail) fn is(&self, found: &Stat) -> bool {
        self.id.is_inode_of(found) && self.content == Self::from(found).content
    }
}

/// The place of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::jail) enum At {
    /// Below the root.
    Path(Bytes),
    /// Below the state folder.
    Own(Bytes),
}

/// Device and inode number: unique as long as the file is open or has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jail) struct Id {
    dev: u64,
    ino: u64,
}

impl From<&Stat> for Id {
    fn from(stat: &Stat) -> Self {
        Self { dev: stat.dev, ino: stat.ino }
    }
}

impl Id {
    /// Compares inode numbers alone, because the device number can change when the file system is mounted again.
    pub(in crate::jail) fn is_inode_of(&self, found: &Stat) -> bool {
        self.ino == found.ino
    }
}

/// The bytes of a name, in base64, because JSON strings hold only text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(in crate::jail) struct Bytes(pub(in crate::jail) Vec<u8>);

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

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
    pub(in crate::jail) fn to_line(&self) -> Vec<u8> {
        // Numbers and strings can always be serialised. An empty line would be skipped by the reader.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Reads complete lines only. A line without an end was being written when its worker died, and counts as not written.
    pub(in crate::jail) fn read_all(text: &[u8]) -> Vec<Self> {
        let whole = memchr::memrchr(b'\n', text).map_or(&[][..], |end| &text[..end]);
        whole.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_a_torn_line_did_not_happen() {
        let id = Id { dev: 1, ino: u64::MAX };
        let thing = Thing { id, content: Some(Content { size: 1, mtime: -1, mtime_ns: 999_999_999 }) };
        let rename = Step::Rename {
            from: At::Own(b"work/id/1"[..].into()),
            to: At::Path(b"a/\xff\n"[..].into()),
            moved: thing,
            displaced: Some(Thing { id, content: None }),
        };
        let make = Step::MakeDir { path: b"a"[..].into(), mode: 0o755 };
        let records = [
            Record::Header(id),
            Record::Temporary { folder: b""[..].into(), name: b".t"[..].into() },
            Record::Batch { steps: vec![make, rename] },
            Record::Committed,
        ];
        let text: Vec<u8> = records.iter().flat_map(Record::to_line).collect();
        assert_eq!(Record::read_all(&text), records);
        for cut in 1..=records[3].to_line().len() {
            assert_eq!(Record::read_all(&text[..text.len() - cut]), records[..3]);
        }
        assert!(Record::read_all(b"").is_empty() && Record::read_all(b"nonsense\n").is_empty());
    }
}
