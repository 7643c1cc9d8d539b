//! `stockade rm`: files, links and folders, for good or into the trash.

use serde_json::Value;

use super::{
    Outcome, Session,
    args::RmArgs,
    change::{Change, put_version},
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

pub(super) fn run(args: &RmArgs, change: Change, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    change.run(session, out, |at, done, out| {
        let name = shown(&args.paths[at]);
        out.text(&match (&done.trash_id, done.removed) {
            (Some(id), _) => format!("removed {name}, restore it with {}\n", one_line(id)),
            (None, true) => format!("removed {name}\n"),
            (None, false) => format!("{name} was not there\n"),
        })
    })
}
