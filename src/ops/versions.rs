//! `etag` and `if_match`: which version of a file a caller means.

use crate::{
    broker::Intent,
    jail::{Call, Claim, Jail, JailFile, Located, ReadControl},
    text::Etag,
    wire::{Code, Error, Result},
};

pub(super) fn read_etag(call: &Call, file: &JailFile) -> Result<String> {
    let mut etag = Etag::default();
    file.read_chunks(call, 0, u64::MAX, |chunk| {
        etag.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    Ok(etag.finish())
}

pub(super) fn etag_of_bytes(bytes: &[u8]) -> String {
    let mut etag = Etag::default();
    etag.push(bytes);
    etag.finish()
}

/// The version of the file that is there, or that an earlier entry of the batch will put there.
pub(super) fn etag_of_claim(jail: &Jail, call: &Call, claim: &Claim) -> Result<String> {
    match claim.foreseen_content() {
        Some(content) => Ok(etag_of_bytes(content)),
        None => read_etag(call, &claim.open_content(jail)?),
    }
}

/// C219 unless the file that is there has this etag. What lies there and has no content has no etag either: C210.
pub(super) fn check_if_match(jail: &Jail, call: &Call, claim: &Claim, if_match: Option<&str>) -> Result<()> {
    let Some(wanted) = if_match else { return Ok(()) };
    let sent = &claim.name().sent;
    if claim.stat().is_none() {
        return Err(stale_error(sent, None));
    }
    let found = etag_of_claim(jail, call, claim)?;
    if found == wanted { Ok(()) } else { Err(stale_error(sent, Some(found))) }
}

/// C219 with the version that is there now. None if that is the wanted one, or not to be found out: then somebody is
/// only about to change it.
pub(super) fn stale_error_if_changed(jail: &Jail, call: &mut Call, name: &Located, wanted: &str) -> Option<Error> {
    let file = jail.open(call, name, Intent::Read).and_then(|entry| entry.open_content(jail, call));
    match file.and_then(|file| read_etag(call, &file)) {
        Ok(found) if found != wanted => Some(stale_error(&name.sent, Some(found))),
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
