//! Which version a read reports. Every read reports one: the hash of the content where the file is small or read whole anyway,
//! else the stat version, so that a window of a large file costs no more than its window.

use std::time::SystemTime;

use super::plan::ReadPlan;
use crate::{
    jail::{Call, JailFile},
    ops::{
        survey::{Surveyed, survey, survey_within},
        versions,
    },
    wire::Result,
};

/// A file up to this size is read whole and hashed by every read, which takes less than a millisecond.
const HASHED_BYTES: u64 = 1 << 20;

/// Bytes that a read takes for a version that was not asked for.
pub(super) fn most_unasked(call: &Call) -> u64 {
    call.limits.max_read_bytes.max(HASHED_BYTES)
}

/// How a read determines the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VersionSource {
    /// The hash of the whole content.
    Content,
    Stat(String),
    /// The file was changed just now, so a stat version could not identify the content. It is also too large to be hashed
    /// without a request for it.
    Unknown,
}

impl VersionSource {
    pub(super) fn of(file: &JailFile, call: &Call, plan: &ReadPlan) -> Self {
        let size = file.stat().size_bytes;
        if plan.etag || size <= HASHED_BYTES {
            return Self::Content;
        }
        match versions::stat_version(file.stat(), SystemTime::now()) {
            Some(version) => Self::Stat(version),
            None if size <= call.limits.max_read_bytes => Self::Content,
            None => Self::Unknown,
        }
    }

    /// Reads the whole file if the version is its hash or if the caller asks for its totals.
    pub(super) fn survey(&self, file: &JailFile, call: &Call, plan: &ReadPlan) -> Result<Option<Surveyed>> {
        if plan.etag || plan.count_lines {
            return survey(file, call).map(Some);
        }
        match self {
            Self::Content => survey_within(file, call, most_unasked(call)),
            Self::Stat(_) | Self::Unknown => Ok(None),
        }
    }

    pub(super) fn stat_version(self) -> Option<String> {
        match self {
            Self::Stat(version) => Some(version),
            Self::Content | Self::Unknown => None,
        }
    }
}
