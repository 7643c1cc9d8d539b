//! `stockade mkdir`: folders, with those above them.

use serde_json::Value;

use super::{
    Outcome, Session,
    args::MkdirArgs,
    change::Change,
    home::{shown, wire_path},
    output::Output,
};

const METHOD: &str = "coder::mkdir";

pub(super) fn run(args: &MkdirArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    let entries: Vec<Value> = args.paths.iter().map(wire_path).collect();
    let mut change = Change::new(METHOD, "paths", entries, &args.batch);
    if args.no_parents {
        change.set("parents", false);
    }
    if let Some(mode) = &args.mode {
        change.set("mode", mode.as_str());
    }
    change.run(session, out, |at, done, out| {
        let name = shown(&args.paths[at]);
        out.text(&match done.created {
            true => format!("{} {name}\n", done.verb("made", "make")),
            false => format!("{name} was there already\n"),
        })
    })
}
