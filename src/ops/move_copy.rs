//! Shared parts of `coder::move` and `coder::copy`: two names in each entry, which kind may replace which, and the copy of a
//! file's content. Runs in the worker. Trusts claims; changes no name.

use super::changes::required_path;
use crate::{
    broker::Intent,
    jail::{Call, Claim, FileProperties, Jail, JailFile, Located, Planning, ReadControl, Staged, check_size},
    path::{JailPath, RawPath, Symlinks},
    sys::fs::FileKind,
    text::Etag,
    wire::{
        Code, Error, Result,
        types::move_copy::{FromTo, ShownFromTo},
    },
};

pub(super) const PATH_FIELDS: [(&str, &str); 2] = [("from", "from_bytes"), ("to", "to_bytes")];

/// `from_intent` is the intent for the source: `Look` for a copy.
pub(super) fn locate_both(
    jail: &Jail,
    call: &Call,
    base_dir: Option<&RawPath>,
    names: &FromTo,
    from_intent: Intent,
) -> Result<(Located, Located)> {
    let from = required_path("from", names.from.as_deref(), names.from_bytes.as_deref())?;
    let to = required_path("to", names.to.as_deref(), names.to_bytes.as_deref())?;
    let from = jail.locate(call, &from, base_dir)?;
    jail.check_operand(call, &from, &from.path, from_intent)?;
    let to = jail.locate(call, &to, base_dir)?;
    if to.path != from.path && !to.path.is_root() {
        jail.check_operand(call, &to, &to.path, Intent::Create)?;
    }
    Ok((from, to))
}

pub(super) fn encode_both(from: (String, Option<String>), to: (String, Option<String>)) -> ShownFromTo {
    ShownFromTo { from: from.0, from_bytes: from.1, to: to.0, to_bytes: to.1 }
}

/// C211 or C221 for a destination that may not be an operand, once links were followed. A root is refused later, with another text.
pub(super) fn check_new_operand(jail: &Jail, call: &Call, to: &Claim) -> Result<()> {
    if to.path().is_root() { Ok(()) } else { jail.check_operand(call, to.name(), to.path(), Intent::Create) }
}

/// C210 for a folder that would end up inside itself.
pub(super) fn check_not_into_itself(verb: &str, sent: &str, from: &JailPath, to: &JailPath) -> Result<()> {
    if to.is_at_or_below(from) {
        return Err(Error::bad_input(format!("{sent}: a folder cannot be {verb} into itself")));
    }
    Ok(())
}

/// The file at the destination that is replaced; None if the name is free. A link is replaced itself where the root follows links,
/// and refused elsewhere.
pub(super) fn open_replaced(jail: &Jail, to: &Claim) -> Result<Option<JailFile>> {
    let follows = jail.roots().rules(to.path()).symlinks == Symlinks::Beneath;
    match to.kind() {
        None => Ok(None),
        Some(FileKind::Symlink) if follows => Ok(None),
        Some(_) => to.open_content(jail).map(Some),
    }
}

/// Checks whether an entry of the kind `source` may be put at the destination.
pub(super) fn check_destination(
    call: &Call,
    source: FileKind,
    from: &Located,
    to: &Claim,
    overwrite: bool,
) -> Result<()> {
    let sent = &to.name().sent;
    let Some(there) = to.stat() else {
        // The slash would be dropped, and the file would get the name that was meant for a folder.
        if source != FileKind::Dir && sent.ends_with('/') {
            let name = from.path.file_name().map(String::from_utf8_lossy).unwrap_or_default();
            return Err(Error::bad_input(format!(
                "{sent}: ends with a slash, but there is no such folder; name the file itself, for example {sent}{name}"
            )));
        }
        return Ok(());
    };
    match (source, there.kind) {
        (kind, FileKind::Dir) if kind != FileKind::Dir => {
            let name = from.path.file_name().map(String::from_utf8_lossy).unwrap_or_default();
            return Err(Error::bad_input(format!(
                "{sent}: destination is a directory; name the file itself, for example {}/{name}",
                sent.trim_end_matches('/')
            )));
        }
        (FileKind::Dir, kind) if kind != FileKind::Dir => {
            return Err(Error::bad_input(format!("{sent}: a folder cannot take the place of a file")));
        }
        _ => {}
    }
    if !overwrite {
        return Err(Error::new(Code::Exists, format!("{sent} already exists; pass overwrite=true to replace it")));
    }
    if to.path().is_root() {
        return Err(Error::bad_input(format!("{sent}: is an allowed root, which is never replaced")));
    }
    if !matches!(there.kind, FileKind::File | FileKind::Dir | FileKind::Symlink) {
        return Err(Error::bad_input(format!(
            "{sent}: is a FIFO, socket or device, which nothing replaces; delete it first"
        )));
    }
    if there.kind == FileKind::Dir && !to.is_empty(call)? {
        return Err(Error::bad_input(format!("{sent}: a folder that is not empty cannot be replaced")));
    }
    Ok(())
}

/// A file's content, staged for its new name; with its size and etag.
pub(super) fn stage_content(
    jail: &Jail,
    call: &Call,
    planning: &Planning,
    file: &JailFile,
    to: &Claim,
) -> Result<(Staged, u64, String)> {
    check_size(call, file.sent(), file.stat())?;
    let old = open_replaced(jail, to)?;
    let like = FileProperties { mode: file.stat().mode, replaced: old.as_ref() };
    let (mut etag, mut bytes) = (Etag::default(), 0);
    let staged = planning.stage_with(jail, call, to, like, |fill| {
        let copied = file.read_chunks(call, 0, u64::MAX, |chunk| {
            etag.push(chunk);
            bytes += chunk.len() as u64;
            fill.write(chunk).map(|()| ReadControl::Continue)
        });
        copied.map(drop)
    })?;
    Ok((staged, bytes, etag.finish()))
}
