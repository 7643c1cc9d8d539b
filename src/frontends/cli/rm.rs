//! `stockade rm`: files, links and folders, for good or into the trash.

use serde_json::Value;

use super::{
    Outcome, Session,
    args::RmArgs,
    change::{Change, Done, put_version},
    escape::one_line,
    failure::Failure,
    home::{shown, wire_path},
    output::Output,
};

const METHOD: &str = "coder::delete-file";

pub(super) fn plan(args: &RmArgs) -> Result<Change, Failure> {
    let mut entries: Vec<Value> = args.paths.iter().map(wire_path).collect();
    put_version(&args.version, &mut entries)?;
    let mut change = Change::new(METHOD, "paths", entries, &args.batch);
    if args.recursive {
        change.set("recursive", true);
    }
    if args.trash || args.no_trash {
        change.set("trash", args.trash);
    }
    Ok(change)
}

/// How much a folder holds that a dry run would remove.
fn inside(done: &Done) -> String {
    let Some(entries) = done.entries else { return String::new() };
    let more = if done.entries_more { "more than " } else { "" };
    let noun = if entries == 1 { "entry" } else { "entries" };
    format!(" with {more}{entries} {noun}")
}

pub(super) fn run(args: &RmArgs, change: Change, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    change.run(session, out, |at, done, out| {
        let name = shown(&args.paths[at]);
        out.text(&match (&done.trash_id, done.removed) {
            (Some(id), _) => format!("removed {name}, restore it with {}\n", one_line(id)),
            (None, true) => format!("{} {name}{}\n", done.verb("removed", "remove"), inside(done)),
            (None, false) => format!("{name} was not there\n"),
        })
    })
}
