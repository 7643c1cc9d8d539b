//! `stockade mv` and `stockade cp`: a new name, or the same name in another folder.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Outcome, Session,
    args::FromTo,
    change::{Change, put_version},
    failure::{Failure, unexpected},
    home::{put_name, shown, wire_path},
    output::Output,
    units::counted,
};

const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";
const STAT: &str = "coder::stat";

/// The names as typed, checked before a connection exists.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    names: &'a FromTo,
    from: &'a [OsString],
    to: &'a OsStr,
}

impl<'a> Plan<'a> {
    pub(super) fn new(names: &'a FromTo) -> Result<Self, Failure> {
        let Some((to, from @ [_, ..])) = names.paths.split_last() else {
            return Err(Failure::Usage("say from where, and to where".into()));
        };
        if names.no_target_directory && from.len() > 1 {
            return Err(Failure::Usage("-T is for a single FROM".into()));
        }
        put_version(&names.version, &mut vec![json!({}); from.len()])?;
        Ok(Self { names, from, to })
    }

    pub(super) fn run_move(&self, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
        let to = self.targets(session)?;
        self.change(MOVE, &to, false)?.run(session, out, |at, done, out| {
            let (from, to) = (shown(&self.from[at]), shown(&to[at]));
            out.text(&match done.moved {
                true => format!("{} {from} to {to}{}\n", done.verb("moved", "move"), done.caveat()),
                false => format!("{from} is {to} already\n"),
            })
        })
    }

    pub(super) fn run_copy(
        &self,
        recursive: bool,
        session: &mut dyn Session,
        out: &mut Output<'_>,
    ) -> Outcome {
        let to = self.targets(session)?;
        self.change(COPY, &to, recursive)?.run(session, out, |at, done, out| {
            let (from, to, bytes) =
                (shown(&self.from[at]), shown(&to[at]), counted(done.bytes.unwrap_or(0), "byte"));
            let copied = done.verb("copied", "copy");
            out.text(&format!("{copied} {from} to {to}, {bytes}{}\n", done.caveat()))
        })
    }

    /// The new name of each, which the service wants in full.
    fn targets(&self, session: &mut dyn Session) -> Result<Vec<OsString>, Failure> {
        let into = match self.from {
            _ if self.names.no_target_directory => false,
            [_] => self.to.as_bytes().ends_with(b"/") || self.is_folder(session)?,
            _ => true,
        };
        match into {
            true => self.from.iter().map(|from| inside(self.to, from)).collect(),
            false => Ok(vec![self.to.to_owned()]),
        }
    }

    /// What changes between this question and the change is the service's to refuse, by what it then finds.
    fn is_folder(&self, session: &mut dyn Session) -> Result<bool, Failure> {
        #[derive(Deserialize)]
        struct Reply {
            results: Vec<Facts>,
        }
        #[derive(Deserialize)]
        struct Facts {
            kind: Option<String>,
        }
        let mut request = json!({ "paths": [wire_path(&self.to.to_owned())] });
        if let Some(folder) = &self.names.batch.base_dir {
            request["base_dir"] = folder.as_str().into();
        }
        let reply = session.call(STAT, &request.to_string())?;
        let reply: Reply = serde_json::from_str(reply.get()).map_err(unexpected)?;
        Ok(reply.results.first().and_then(|facts| facts.kind.as_deref()) == Some("dir"))
    }

    fn change(&self, method: &'static str, to: &[OsString], recursive: bool) -> Result<Change, Failure> {
        let flags = [
            ("overwrite", self.names.force, true),
            ("parents", self.names.no_parents, false),
            ("recursive", recursive, true),
        ];
        let entry = |(from, to): (&OsString, &OsString)| {
            let mut entry = json!({});
            put_name(&mut entry, "from", from);
            put_name(&mut entry, "to", to);
            for (field, _, value) in flags.iter().filter(|(_, is_set, _)| *is_set) {
                entry[*field] = (*value).into();
            }
            entry
        };
        let mut entries: Vec<Value> = self.from.iter().zip(to).map(entry).collect();
        put_version(&self.names.version, &mut entries)?;
        Ok(Change::new(method, "files", entries, &self.names.batch))
    }
}

/// The name that `from` has, below `folder`.
fn inside(folder: &OsStr, from: &OsStr) -> Result<OsString, Failure> {
    let whole = from.as_bytes();
    let end = whole.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let name = whole[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if [&b""[..], b".", b".."].contains(&name) {
        return Err(Failure::Usage(format!("{} has no name to keep; say the new one", shown(from))));
    }
    let mut path = folder.as_bytes().to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    Ok(OsString::from_vec(path))
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
