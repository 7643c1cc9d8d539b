//! `coder::update-file`: edits of files that exist. Each file is claimed, read, edited in memory and replaced as a whole;
//! the files of a call follow one another, so that the same file may be named twice.

mod convert;
mod edit;

use serde_json::Value;

use super::{
    Handler,
    batch::sent,
    names::{named, shown, shown_path},
};
use crate::{
    broker::Question,
    jail::{Call, Jail},
    path::RawPath,
    wire::{
        Code, Error, Result,
        decode::decode,
        types::update_file::{UpdateEntry, UpdateFile, UpdateFileRequest, UpdateFileResponse, UpdateResult},
    },
};

use edit::{Asked, Done, Room};

impl Handler for UpdateFile {
    /// A change waits for its lease when its turn has come, and not before.
    fn questions(_: &Jail, _: &UpdateFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: UpdateFileRequest) -> Result<UpdateFileResponse> {
        check_len(call, &request.files)?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let dry_run = request.dry_run == Some(true);
        let asked = Asked { dry_run, diff: dry_run || request.diff == Some(true) };
        let mut room = Room::of(&call.limits);
        let mut results = Vec::with_capacity(request.files.len());
        for (index, value) in request.files.into_iter().enumerate() {
            let sent = sent(&value);
            let done = update(jail, call, value, index, base_dir.as_ref(), asked, &mut room);
            results.push(done.unwrap_or_else(|error| failed(sent, error)));
        }
        // Nothing was done and the time is up: the call failed, not its entries. Once something was done, that is worth
        // more than a word about the rest.
        let is_late =
            |result: &UpdateResult| result.error.as_ref().is_some_and(|error| error.code == Code::C220);
        if results.iter().all(is_late) {
            call.checkpoint()?;
        }
        Ok(UpdateFileResponse { results })
    }
}

fn check_len(call: &Call, files: &[Value]) -> Result<()> {
    if files.is_empty() {
        let text = "files: empty; give at least one file, for example {\"files\": [{\"path\": \"src/main.rs\", \"ops\": \
                    [{\"op\": \"append\", \"content\": \"x\\n\"}]}]}";
        return Err(Error::bad_input(text));
    }
    let most = call.limits.max_batch_entries as usize;
    if files.len() > most {
        let text = format!("files: {} entries, at most {most} in one call; split the batch", files.len());
        return Err(Error::new(Code::C213, text));
    }
    Ok(())
}

fn update(
    jail: &Jail,
    call: &mut Call,
    value: Value,
    index: usize,
    base_dir: Option<&RawPath>,
    asked: Asked,
    room: &mut Room,
) -> Result<UpdateResult> {
    let entry: UpdateEntry = decode(value, &format!("files[{index}]"), &mut call.warnings)?;
    let name = named(entry.path.as_deref(), entry.path_bytes.as_deref())?.ok_or_else(|| {
        Error::bad_input(format!(
            "files[{index}].path: missing; expected a path, for example \"src/main.rs\""
        ))
    })?;
    convert::warn_of_backspace(call, index, &entry.ops);
    call.checkpoint()?;
    let name = jail.locate(call, &name, base_dir)?;
    let done = edit::run(jail, call, &name, &entry, asked, room)?;
    let (path, path_bytes) = shown_path(jail, &name.path);
    Ok(succeeded(path, path_bytes, done))
}

fn succeeded(path: String, path_bytes: Option<String>, done: Done) -> UpdateResult {
    UpdateResult {
        path,
        path_bytes,
        success: true,
        applied: done.applied,
        new_line_count: done.new_line_count,
        echoes: done.echoes,
        echoes_truncated: done.echoes_truncated,
        changed: done.changed,
        etag: Some(done.etag),
        diff_truncated: done.diff.as_ref().is_some_and(|diff| diff.truncated),
        diff: done.diff.map(|diff| diff.text),
        owner_changed: done.owner_changed,
        lost_attributes: done.lost_attributes,
        error: None,
        bodies: done.bodies,
    }
}

fn failed(sent: Option<RawPath>, error: Error) -> UpdateResult {
    let (path, path_bytes) = sent.map_or_else(Default::default, |sent| shown(sent.as_bytes()));
    UpdateResult { path, path_bytes, error: Some(error), ..UpdateResult::default() }
}

#[cfg(test)]
mod tests;
