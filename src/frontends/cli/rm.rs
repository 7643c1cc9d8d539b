//! `stockade rm`: removes files, links and folders, for good or into the trash.

use serde_json::Value;

use super::{
    CommandResult, FileSession,
    args::RmArgs,
    change::{ChangeCommand, EntryOutcome, set_if_match},
    escape::escape_text,
    failure::CliFailure,
    output::Output,
    paths::{display_path, wire_path},
};

const METHOD: &str = "coder::delete-file";

pub(super) fn plan_removal(args: &RmArgs) -> Result<ChangeCommand, CliFailure> {
    let mut entries: Vec<Value> = args.paths.iter().map(|path| wire_path(path)).collect();
    set_if_match(&args.version, &mut entries)?;
    let mut change = ChangeCommand::new(METHOD, "paths", entries, &args.batch);
    if args.recursive {
        change.set("recursive", true);
    }
    if args.trash || args.no_trash {
        change.set("trash", args.trash);
    }
    Ok(change)
}

/// The number of entries in a folder that a dry run would remove.
fn removed_contents(done: &EntryOutcome) -> String {
    let Some(entries) = done.entries else { return String::new() };
    let more = if done.entries_more { "more than " } else { "" };
    let noun = if entries == 1 { "entry" } else { "entries" };
    format!(" with {more}{entries} {noun}")
}

pub(super) fn run(
    args: &RmArgs,
    change: ChangeCommand,
    session: &mut dyn FileSession,
    out: &mut Output<'_>,
) -> CommandResult {
    change.run(session, out, |at, done, out| {
        let name = display_path(&args.paths[at]);
        out.write_text(&match (&done.trash_id, done.removed) {
            (Some(id), _) => format!("removed {name}, restore it with {}\n", escape_text(id)),
            (None, true) => format!("{} {name}{}\n", done.verb("removed", "remove"), removed_contents(done)),
            (None, false) => format!("{name} was not there\n"),
        })
    })
}
