//! `etag` and `if_match`: which version of a file a caller means. Runs in the worker.
//!
//! A version is the hash of a file's bytes, or for a large file that is not read whole a stat version: a hash of what identifies
//! the file and its last change. A stat version sees every write, because each one sets the time of the last change, which no
//! program can choose. It does not see two things. A write within the same tick of the clock as the write before it: so a file
//! that has just been changed has no stat version. And stores through a shared memory mapping, of which the kernel notes only
//! the first one after a page was written back: so a change that was guarded by a stat version says that in a warning.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    broker::Intent,
    jail::{Call, Claim, Jail, JailFile, Located, ReadControl},
    sys::fs::FileStat,
    text::Etag,
    wire::{Code, Error, Result},
};

/// The coarsest clock of a file system (FAT). A further write can leave the same time for no longer than this.
const TICK: Duration = Duration::from_secs(2);

const STAT_PREFIX: &str = "stat:";

/// Follows the position of the field in a warning.
pub(super) const STAT_WARNING: &str = "compared by size, times and inode, which do not show stores through a shared memory \
                                       mapping; a read with etag: true gives a version of the content";

pub(super) fn is_stat_version(etag: &str) -> bool {
    etag.starts_with(STAT_PREFIX)
}

/// None if the file was changed so short a time ago that a further change could leave the same time.
pub(super) fn stat_version(stat: &FileStat, now: SystemTime) -> Option<String> {
    let seconds = u64::try_from(stat.ctime).ok()?;
    let changed = UNIX_EPOCH.checked_add(Duration::new(seconds, stat.ctime_ns))?;
    // A time in the future, by the clock of a file server, is an error here.
    let is_settled = now.duration_since(changed).is_ok_and(|age| age > TICK);
    is_settled.then(|| stat_hash(stat))
}

/// The stat version, even if the file has just been changed: to be compared with one that was given out before.
fn stat_hash(stat: &FileStat) -> String {
    let mut hash = Etag::default();
    let nanoseconds = u64::from(stat.mtime_ns) << 32 | u64::from(stat.ctime_ns);
    for number in [stat.dev, stat.ino, stat.size_bytes, nanoseconds] {
        hash.push(&number.to_le_bytes());
    }
    for seconds in [stat.mtime, stat.ctime] {
        hash.push(&seconds.to_le_bytes());
    }
    format!("{STAT_PREFIX}{}", hash.finish())
}

/// True if the open file, whose whole content has the hash `etag`, has the version that the caller means.
pub(super) fn is_version(wanted: &str, file: &JailFile, etag: &str) -> bool {
    if is_stat_version(wanted) { stat_hash(file.stat()) == wanted } else { wanted == etag }
}

pub(super) fn read_etag(call: &Call, file: &JailFile) -> Result<String> {
    let mut etag = Etag::default();
    file.read_chunks(call, 0, u64::MAX, |chunk| {
        etag.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    Ok(etag.finish())
}

pub(super) fn etag_of_bytes(bytes: &[u8]) -> String {
    Etag::of(bytes)
}

/// The hash of the file that is there, or that an earlier entry of the batch will put there.
pub(super) fn etag_of_claim(jail: &Jail, call: &Call, claim: &Claim) -> Result<String> {
    match claim.foreseen_content() {
        Some(content) => Ok(etag_of_bytes(content)),
        None => read_etag(call, &claim.open_content(jail)?),
    }
}

/// C219 unless the existing file has this version. C210 if it has no content and so no version.
pub(super) fn check_if_match(jail: &Jail, call: &Call, claim: &Claim, if_match: Option<&str>) -> Result<()> {
    let Some(wanted) = if_match else { return Ok(()) };
    let sent = &claim.name().sent;
    if claim.stat().is_none() {
        return Err(stale_error(sent, None));
    }
    if is_stat_version(wanted) {
        claim.check_content(jail)?;
        // No stat version matches a file that an earlier entry of the batch makes or renames.
        if claim.disk_stat().is_some_and(|stat| stat_hash(stat) == wanted) {
            return Ok(());
        }
    }
    let found = etag_of_claim(jail, call, claim)?;
    if found == wanted { Ok(()) } else { Err(stale_error(sent, Some(found))) }
}

/// C219 with the version that is there now. None if that is the version that the caller means, or if the file cannot be read: then
/// another process is only about to change it.
pub(super) fn stale_error_if_changed(jail: &Jail, call: &mut Call, name: &Located, wanted: &str) -> Option<Error> {
    let file = jail.open(call, name, Intent::Read).and_then(|entry| entry.open_content(jail, call));
    match file.and_then(|file| Ok((read_etag(call, &file)?, file))) {
        Ok((found, file)) if !is_version(wanted, &file, &found) => Some(stale_error(&name.sent, Some(found))),
        Err(error) if error.code == Code::NotFound => Some(stale_error(&name.sent, None)),
        _ => None,
    }
}

pub(super) fn stale_error(sent: &str, found: Option<String>) -> Error {
    let what = match &found {
        Some(etag) => format!("is now {etag}, not the version in if_match"),
        None => "is gone, so no version of it can match if_match".into(),
    };
    let mut error = Error::new(Code::Stale, format!("{sent}: {what}; read it again before you change it"));
    error.etag = found;
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fs::FileKind;

    fn stat() -> FileStat {
        let planned = FileStat::planned(FileKind::File, 0o644, 7);
        FileStat { dev: 1, ino: 2, mtime: 3, mtime_ns: 4, ctime: 5, ctime_ns: 6, ..planned }
    }

    fn at(seconds: u64, nanoseconds: u32) -> SystemTime {
        UNIX_EPOCH + Duration::new(seconds, nanoseconds)
    }

    #[test]
    fn a_stat_version_changes_with_everything_that_a_write_changes() {
        let version = |stat: FileStat| stat_version(&stat, at(100, 0)).unwrap();
        let first = version(stat());
        assert!(is_stat_version(&first) && first.len() == "stat:".len() + 32, "{first}");
        assert_eq!(version(stat()), first);
        let others = [
            FileStat { dev: 0, ..stat() },
            FileStat { ino: 0, ..stat() },
            FileStat { size_bytes: 0, ..stat() },
            FileStat { mtime: 0, ..stat() },
            FileStat { mtime_ns: 0, ..stat() },
            FileStat { ctime: 0, ..stat() },
            FileStat { ctime_ns: 0, ..stat() },
        ];
        others.into_iter().for_each(|other| assert_ne!(version(other), first, "{other:?}"));
    }

    #[test]
    fn a_file_that_has_just_been_changed_has_no_stat_version() {
        for (now, is_some) in
            [(at(7, 6), false), (at(7, 7), true), (at(5, 6), false), (at(4, 0), false), (at(1000, 0), true)]
        {
            assert_eq!(stat_version(&stat(), now).is_some(), is_some, "{now:?}");
        }
        assert_eq!(stat_version(&FileStat { ctime: -1, ..stat() }, at(100, 0)), None);
    }
}
