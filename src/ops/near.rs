//! Runs in the worker: names near one that was not found, for the error about it. Trusts the jail's rules, and no name.
//!
//! Offers only names that the caller may see: no denied ones, and none of the service. A denied name gets the same answer as a
//! missing one, near names included, because it is not among those that are compared.

use std::ops::ControlFlow;

use crate::{
    broker::Intent,
    jail::{Call, Jail},
    path::RawPath,
    wire::{Code, Error, Result, nearest::NearNames},
};

/// Names of one error.
pub(super) const MAX_NEAR: usize = 3;
/// Entries of a folder that are compared: some milliseconds.
const MAX_COMPARED: u32 = 4096;

/// Adds the near names to C211 about a path as sent. Any other error stays as it is.
pub(super) fn explain_missing(
    jail: &Jail,
    call: &mut Call,
    sent: &RawPath,
    base_dir: Option<&RawPath>,
    error: Error,
) -> Error {
    if error.code != Code::NotFound {
        return error;
    }
    match std::str::from_utf8(sent.as_bytes()).map(|sent| names_in_folder(jail, call, sent, base_dir)) {
        Ok(Ok(near)) => error.with_near_names(&near),
        _ => error,
    }
}

/// Names near the last one of `sent`, in its folder.
fn names_in_folder(jail: &Jail, call: &mut Call, sent: &str, base_dir: Option<&RawPath>) -> Result<Vec<String>> {
    let path = sent.trim_end_matches('/');
    let (prefix, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    let Some(mut near) = NearNames::new(name, MAX_NEAR) else { return Ok(Vec::new()) };
    let folder = RawPath::text(if prefix.is_empty() { "." } else { prefix });
    // A denied folder gets no names, and no record in the audit besides the one of the call itself.
    if jail.locate_early(&folder, base_dir).is_none() {
        return Ok(Vec::new());
    }
    let folder = jail.locate(call, &folder, base_dir)?;
    let dir = jail.open(call, &folder, Intent::Read)?.open_dir(jail, call)?;
    let is_denied = jail.denied_entries(dir.path().clone());
    let mut left = MAX_COMPARED;
    dir.for_each(call, |entry| {
        let is_shown = !jail.is_private_entry(dir.path(), entry.name) && !is_denied(entry.name);
        if let Some(name) = std::str::from_utf8(entry.name).ok().filter(|_| is_shown) {
            near.offer(name, || format!("{prefix}{name}"));
        }
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(near.into_names())
}
