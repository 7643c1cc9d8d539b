//! Runs in the worker: the records of journals and notes, in which a worker describes changes before it makes them, one JSON line
//! each. Pure.
//! Only `recovery` reads them. It trusts a worker's folder no further than the header of its journal: the inode number of that
//! folder, which a process that planted the folder cannot have known. Device numbers are recorded but not compared: a file system
//! that is mounted again, for example after a power cut, can have another one.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::sys::fs::{FileKind, FileStat};

/// The largest journal or note that a worker writes and that recovery reads. The steps of a batch take less, unless thousands of
/// missing folders are nested in each other; such a batch is refused before its first step.
pub(in crate::jail) const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(in crate::jail) enum JournalRecord {
    /// The first record of a journal: the folder that the journal lies in.
    Header(InodeId),
    /// A temporary name in a user's folder.
    Temporary { folder: NameBytes, name: NameBytes },
    /// In a note: steps that belong together, written before the first of them is done. In a journal: steps that its worker could
    /// not undo.
    Batch { steps: Vec<JournalStep> },
    /// All steps of the note are done. A note without this record is undone.
    Committed,
}

/// One change of names, with what recovery needs to see whether it was done and to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(in crate::jail) enum JournalStep {
    MakeDir {
        path: NameBytes,
        mode: u32,
    },
    /// Moves `moved` from `from` to `to`. If something lay at `to`, it goes to `from`.
    Rename {
        from: NameLocation,
        to: NameLocation,
        moved: FileIdentity,
        displaced: Option<FileIdentity>,
    },
}

/// The identity of a file or folder. Includes more than the inode number, which another file can get once this one is gone:
/// recovery must never take a user's newer file for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jail) struct FileIdentity {
    id: InodeId,
    /// None for a folder, because its times change with its entries.
    content: Option<ContentStamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentStamp {
    size: u64,
    mtime: i64,
    mtime_ns: u32,
}

impl From<&FileStat> for FileIdentity {
    fn from(stat: &FileStat) -> Self {
        let content = ContentStamp { size: stat.size_bytes, mtime: stat.mtime, mtime_ns: stat.mtime_ns };
        Self { id: InodeId::from(stat), content: (stat.kind != FileKind::Dir).then_some(content) }
    }
}

impl FileIdentity {
    pub(in crate::jail) fn matches(&self, found: &FileStat) -> bool {
        self.id.is_inode_of(found) && self.content == Self::from(found).content
    }
}

/// The place of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::jail) enum NameLocation {
    /// Below the root.
    Path(NameBytes),
    /// Below the state folder.
    Own(NameBytes),
}

/// Device and inode number: unique as long as the file is open or has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jail) struct InodeId {
    dev: u64,
    ino: u64,
}

impl From<&FileStat> for InodeId {
    fn from(stat: &FileStat) -> Self {
        Self { dev: stat.dev, ino: stat.ino }
    }
}

impl InodeId {
    /// Compares inode numbers alone, because the device number can change when the file system is mounted again.
    pub(in crate::jail) fn is_inode_of(&self, found: &FileStat) -> bool {
        self.ino == found.ino
    }
}

/// The bytes of a name, in base64, because JSON strings hold only text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(in crate::jail) struct NameBytes(pub(in crate::jail) Vec<u8>);

impl From<&[u8]> for NameBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<NameBytes> for String {
    fn from(bytes: NameBytes) -> Self {
        STANDARD.encode(bytes.0)
    }
}

impl TryFrom<String> for NameBytes {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

impl JournalRecord {
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
        let id = InodeId { dev: 1, ino: u64::MAX };
        let thing = FileIdentity { id, content: Some(ContentStamp { size: 1, mtime: -1, mtime_ns: 999_999_999 }) };
        let rename = JournalStep::Rename {
            from: NameLocation::Own(b"work/id/1"[..].into()),
            to: NameLocation::Path(b"a/\xff\n"[..].into()),
            moved: thing,
            displaced: Some(FileIdentity { id, content: None }),
        };
        let make = JournalStep::MakeDir { path: b"a"[..].into(), mode: 0o755 };
        let records = [
            JournalRecord::Header(id),
            JournalRecord::Temporary { folder: b""[..].into(), name: b".t"[..].into() },
            JournalRecord::Batch { steps: vec![make, rename] },
            JournalRecord::Committed,
        ];
        let text: Vec<u8> = records.iter().flat_map(JournalRecord::to_line).collect();
        assert_eq!(JournalRecord::read_all(&text), records);
        for cut in 1..=records[3].to_line().len() {
            assert_eq!(JournalRecord::read_all(&text[..text.len() - cut]), records[..3]);
        }
        assert!(JournalRecord::read_all(b"").is_empty() && JournalRecord::read_all(b"nonsense\n").is_empty());
    }
}
