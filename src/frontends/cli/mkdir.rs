//! `stockade mkdir`: folders, with those above them.

use serde_json::Value;

use super::{
    CommandResult, FileSession,
    args::MkdirArgs,
    change::ChangeCommand,
    output::Output,
    paths::{display_path, wire_path},
};

const METHOD: &str = "coder::mkdir";

pub(super) fn run(args: &MkdirArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let entries: Vec<Value> = args.paths.iter().map(|path| wire_path(path)).collect();
    let mut change = ChangeCommand::new(METHOD, "paths", entries, &args.batch);
    if args.no_parents {
        change.set("parents", false);
    }
    if let Some(mode) = &args.mode {
        change.set("mode", mode.as_str());
    }
    change.run(session, out, |at, done, out| {
        let name = display_path(&args.paths[at]);
        out.write_text(&match done.created {
            true => format!("{} {name}\n", done.verb("made", "make")),
            false => format!("{name} was there already\n"),
        })
    })
}
