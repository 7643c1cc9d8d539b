//! Pure. Schema descriptions of fields that several types have, each written once; a field that only one type has is
//! described by its doc comment.

// Requests: the paths.

pub(super) const BASE_DIR: &str =
    "Relative paths begin here instead of at the primary root, and all paths must stay inside.";
pub(super) const BASE_DIR_OF_ONE: &str =
    "Relative paths begin here instead of at the primary root, and the path must stay inside.";
pub(super) const PATH_BYTES: &str = "The path in base64, for names that are not UTF-8. Instead of `path`.";
pub(super) const FILE_BYTES: &str = "The file's path in base64, for names that are not UTF-8. Instead of `path`.";
pub(super) const FOLDER: &str = "The folder; default `.`, the primary root.";
pub(super) const FOLDER_BYTES: &str = "The folder's name in base64, for names that are not UTF-8. Instead of `path`.";
pub(super) const GLOB_BYTES: &str =
    "The path in base64, for names that are not UTF-8; never a glob. Instead of `path`.";
pub(super) const CURSOR: &str = "`next_cursor` of the reply before, with the same request otherwise.";

// Requests that change something.

pub(super) const ATOMIC: &str = "All entries or none. Default false: each succeeds or fails alone.";
pub(super) const DRY_RUN: &str = "Change nothing: the same checks and results, each with `dry_run: true`. Entries see what earlier ones would have done.";
pub(super) const ENTRY_DRY_RUN: &str =
    "As `dry_run` of the request, for this entry alone. C210 if it is false where the request says true.";
pub(super) const PARENTS: &str = "Make missing folders. Default true.";
pub(super) const OVERWRITE: &str = "Replace what is there. Default false.";
pub(super) const VERBATIM: &str = "Content whose every line begins with a number and `→`, as a numbered read shows them, is meant so: no warning, and no C210 with \
`strict`.";
pub(super) const STRIP_READ_PREFIXES: &str =
    "Leave out the numbers and `→` before the lines of content, if every line has them and the numbers rise by one.";
pub(super) const IF_MATCH: &str = "Only if the file that is there has this etag; otherwise C219.";
pub(super) const IF_MATCH_FROM: &str = "Only if the file at `from` has this etag; otherwise C219.";

// Windows of a file.

pub(super) const LINE_FROM: &str = "First line of a window, 1-based.";
pub(super) const LINE_TO: &str = "Last line of a window, inclusive.";
pub(super) const BYTE_TO: &str = "End of a byte window, exclusive.";
pub(super) const FIRST_LINE: &str = "First line, 1-based.";
pub(super) const LAST_LINE: &str = "Last line, inclusive.";

// Replies: the entry, and whether it succeeded.

pub(super) const RESULTS_OF_PATHS: &str = "One per entry of `paths`, in request order.";
pub(super) const RESULTS_OF_FILES: &str = "One per entry of `files`, in request order.";
pub(super) const MISSING_PATHS: &str = "Entries of `paths` that are not there, as sent; the others were searched.";
pub(super) const RESULT_PATH: &str = "Canonical absolute path; as sent when the entry failed.";
pub(super) const SHOWN_PATH: &str = "Canonical absolute path.";
pub(super) const SHOWN_FOLDER: &str = "Canonical absolute path of the folder.";
pub(super) const SHOWN_PATH_BYTES: &str = "The path in base64, when it is not UTF-8.";
pub(super) const SHOWN_BYTES: &str = "In base64, when it is not UTF-8.";
pub(super) const NAME: &str = "One name, without its folder.";
pub(super) const NAME_BYTES: &str = "The name in base64, when it is not UTF-8: use it to build `path_bytes`.";
pub(super) const ERROR: &str = "Absent on success.";
pub(super) const WAS_DRY_RUN: &str = "It was a dry run: this is what would have happened. Present only when true.";
pub(super) const OWNER_CHANGED: &str = "The file that was replaced had an owner or group that could not be kept.";

/// A count that is absent when there is nothing to count.
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

// Replies: facts about an entry.

pub(super) const ENTRY_SIZE: &str = "Bytes; 0 for a mount point and for an entry that is not accessible.";
pub(super) const ENTRY_MTIME: &str =
    "Last change, whole seconds since 1970; 0 for a mount point and for an entry that is not accessible.";
pub(super) const MTIME: &str = "Last change, whole seconds since 1970.";
pub(super) const MTIME_NS: &str = "Last change, nanoseconds below the second.";
pub(super) const PERMISSIONS: &str = "The nine permission bits, as a decimal number.";
pub(super) const MOUNT_POINT: &str = "True: something is mounted here, and it was not looked at. Absent otherwise.";
pub(super) const ETAG: &str = "The file's version: the first 32 hex digits of BLAKE3 of its bytes.";
