//! `stockade edit`: operations on existing files, and the diff of the result.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use serde_json::{Value, json};

use super::{
    CommandResult, FileSession,
    args::{EditArgs, EditOp},
    change::{ChangeCommand, EntryOutcome, set_if_match},
    failure::CliFailure,
    output::Output,
    paths::{display_path, wire_path},
    units::counted,
    user_input,
};

const METHOD: &str = "coder::update-file";

/// The edits, read before a connection exists.
#[derive(Debug)]
pub(super) struct EditCommand<'a> {
    paths: &'a [OsString],
    change: ChangeCommand,
    is_dry: bool,
}

impl<'a> EditCommand<'a> {
    pub(super) fn new(args: &'a EditArgs) -> Result<Self, CliFailure> {
        let inputs = args.ops.0.iter().filter(|op| op.text() == Some("-")).count();
        if inputs > 1 {
            return Err(CliFailure::Usage("standard input can be read only once".into()));
        }
        let mut ops: Vec<Value> = args.ops.0.iter().map(build_wire_op).collect::<Result<_, _>>()?;
        for op in ops.iter_mut().filter(|op| args.ignore_whitespace && op["op"] == "str_replace") {
            op["whitespace"] = "ignore".into();
        }
        let entry = |path: &OsString| {
            let mut entry = wire_path(path);
            entry["ops"] = ops.clone().into();
            for (field, is_set) in [("verbatim", args.verbatim), ("binary", args.binary)] {
                if is_set {
                    entry[field] = true.into();
                }
            }
            entry
        };
        let mut entries: Vec<Value> = args.paths.iter().map(entry).collect();
        set_if_match(&args.version, &mut entries)?;
        let mut change = ChangeCommand::new(METHOD, "files", entries, &args.batch);
        // If a regular expression matches nothing, the user has made a mistake.
        change.set("strict", true);
        if args.diff && !args.batch.dry_run {
            change.set("diff", true);
        }
        Ok(Self { paths: &args.paths, change, is_dry: args.batch.dry_run })
    }

    pub(super) fn run(self, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
        let Self { paths, change, is_dry } = self;
        change.run(session, out, |at, done, out| print_outcome(&paths[at], done, is_dry, out))
    }
}

impl EditOp {
    /// The text, if it may come from a file or from standard input.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Insert { text, .. } | Self::Lines { text, .. } | Self::Append(text) | Self::Prepend(text) => {
                Some(text)
            }
            Self::Replace { .. } | Self::Regex { .. } | Self::Remove { .. } => None,
        }
    }
}

fn build_wire_op(op: &EditOp) -> Result<Value, CliFailure> {
    let text = match op.text() {
        Some(text) => user_input::decode_utf8("the text", user_input::read_argument("the text", OsStr::new(text))?)?,
        None => String::new(),
    };
    let mut wire = match op {
        EditOp::Replace { old, new, .. } => json!({"op": "str_replace", "old": old, "new": new}),
        EditOp::Regex { pattern, replacement, .. } => {
            json!({"op": "replace", "pattern": pattern, "replacement": replacement})
        }
        EditOp::Insert { at_line, .. } => json!({"op": "insert", "at_line": at_line, "content": text}),
        EditOp::Lines { from, to, .. } => {
            json!({"op": "update_lines", "from_line": from, "to_line": to, "content": text})
        }
        EditOp::Remove { from, to } => json!({"op": "remove", "from_line": from, "to_line": to}),
        EditOp::Append(_) => json!({"op": "append", "content": text}),
        EditOp::Prepend(_) => json!({"op": "prepend", "content": text}),
    };
    if let EditOp::Replace { expect: Some(count), .. } | EditOp::Regex { expect: Some(count), .. } = op {
        wire["expect_matches"] = (*count).into();
    }
    Ok(wire)
}

/// Prints the result of one file. With a diff, standard output contains only the diff.
fn print_outcome(path: &OsStr, done: &EntryOutcome, is_dry: bool, out: &mut Output<'_>) -> Result<(), CliFailure> {
    let name = display_path(path);
    if done.diff.is_none() {
        return out.write_text(&summary(&name, done));
    }
    done.print_diff(&name, out)?;
    match (done.changed, is_dry) {
        (true, _) => Ok(()),
        (false, true) => out.write_remark(&format!("{name}: would not change")),
        (false, false) => out.write_remark(&format!("{name}: unchanged")),
    }
}

fn summary(name: &str, done: &EntryOutcome) -> String {
    if !done.changed {
        return format!("unchanged {name}\n");
    }
    let made: BTreeMap<usize, u64> =
        done.echoes.iter().filter_map(|echo| Some((echo.op_index, echo.total_replacements?))).collect();
    let replaced = match made.values().sum() {
        0 => String::new(),
        count => format!(", {}", counted(count, "replacement")),
    };
    let lines = counted(done.new_line_count.unwrap_or(0), "line");
    format!("edited {name}{replaced}, {lines}{}\n", done.owner_note())
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
