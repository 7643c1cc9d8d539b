//! `stockade mv` and `stockade cp`: a new name, or the same name in another folder.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CommandResult, FileSession,
    args::FromToArgs,
    change::{ChangeCommand, set_if_match},
    failure::{CliFailure, unexpected_result},
    output::Output,
    paths::{display_path, set_path, wire_path},
    units::counted,
};

const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";
const STAT: &str = "coder::stat";

/// The names as typed, checked before a connection exists.
#[derive(Debug)]
pub(super) struct MoveCopyCommand<'a> {
    names: &'a FromToArgs,
    from: &'a [OsString],
    to: &'a OsStr,
}

impl<'a> MoveCopyCommand<'a> {
    pub(super) fn new(names: &'a FromToArgs) -> Result<Self, CliFailure> {
        let Some((to, from @ [_, ..])) = names.paths.split_last() else {
            return Err(CliFailure::Usage("say from where, and to where".into()));
        };
        if names.no_target_directory && from.len() > 1 {
            return Err(CliFailure::Usage("-T is for a single FROM".into()));
        }
        set_if_match(&names.version, &mut vec![json!({}); from.len()])?;
        Ok(Self { names, from, to })
    }

    pub(super) fn run_move(&self, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
        let to = self.resolve_targets(session)?;
        self.build_change(MOVE, &to, false)?.run(session, out, |at, done, out| {
            let (from, to) = (display_path(&self.from[at]), display_path(&to[at]));
            out.write_text(&match done.moved {
                true => format!("{} {from} to {to}{}\n", done.verb("moved", "move"), done.owner_note()),
                false => format!("{from} is {to} already\n"),
            })
        })
    }

    pub(super) fn run_copy(
        &self,
        recursive: bool,
        session: &mut dyn FileSession,
        out: &mut Output<'_>,
    ) -> CommandResult {
        let to = self.resolve_targets(session)?;
        self.build_change(COPY, &to, recursive)?.run(session, out, |at, done, out| {
            let (from, to, bytes) =
                (display_path(&self.from[at]), display_path(&to[at]), counted(done.bytes.unwrap_or(0), "byte"));
            let copied = done.verb("copied", "copy");
            out.write_text(&format!("{copied} {from} to {to}, {bytes}{}\n", done.owner_note()))
        })
    }

    /// The new name of each file, which the service needs in full.
    fn resolve_targets(&self, session: &mut dyn FileSession) -> Result<Vec<OsString>, CliFailure> {
        let into = match self.from {
            _ if self.names.no_target_directory => false,
            [_] => self.to.as_bytes().ends_with(b"/") || self.is_target_folder(session)?,
            _ => true,
        };
        match into {
            true => self.from.iter().map(|from| join_last_name(self.to, from)).collect(),
            false => Ok(vec![self.to.to_owned()]),
        }
    }

    /// The target can change between this question and the change. The service then refuses or accepts what it finds.
    fn is_target_folder(&self, session: &mut dyn FileSession) -> Result<bool, CliFailure> {
        #[derive(Deserialize)]
        struct TargetStatResult {
            results: Vec<TargetStatEntry>,
        }
        #[derive(Deserialize)]
        struct TargetStatEntry {
            kind: Option<String>,
        }
        let request = match &self.names.batch.base_dir {
            Some(folder) => json!({ "paths": [wire_path(self.to)], "base_dir": session.path_base().sent_text(folder) }),
            None => json!({ "paths": [session.path_base().wire_path(self.to)] }),
        };
        let reply = session.call(STAT, &request.to_string())?;
        let reply: TargetStatResult = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        Ok(reply.results.first().and_then(|facts| facts.kind.as_deref()) == Some("dir"))
    }

    fn build_change(
        &self,
        method: &'static str,
        to: &[OsString],
        recursive: bool,
    ) -> Result<ChangeCommand, CliFailure> {
        let flags = [
            ("overwrite", self.names.force, true),
            ("parents", self.names.no_parents, false),
            ("recursive", recursive, true),
        ];
        let entry = |(from, to): (&OsString, &OsString)| {
            let mut entry = json!({});
            set_path(&mut entry, "from", from);
            set_path(&mut entry, "to", to);
            for (field, _, value) in flags.iter().filter(|(_, is_set, _)| *is_set) {
                entry[*field] = (*value).into();
            }
            entry
        };
        let mut entries: Vec<Value> = self.from.iter().zip(to).map(entry).collect();
        set_if_match(&self.names.version, &mut entries)?;
        Ok(ChangeCommand::new(method, "files", entries, &self.names.batch))
    }
}

/// The last name of `from`, below `folder`.
fn join_last_name(folder: &OsStr, from: &OsStr) -> Result<OsString, CliFailure> {
    let whole = from.as_bytes();
    let end = whole.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let name = whole[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if [&b""[..], b".", b".."].contains(&name) {
        return Err(CliFailure::Usage(format!("{} has no name to keep; say the new one", display_path(from))));
    }
    let mut path = folder.as_bytes().to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    Ok(OsString::from_vec(path))
}

#[cfg(test)]
#[path = "move_copy_tests.rs"]
mod tests;
