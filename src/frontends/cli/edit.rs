//! `stockade edit`: operations on existing files, and the diff they make.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use serde_json::{Value, json};

use super::{
    Outcome, Session,
    args::{EditArgs, Op},
    change::{Change, Done, put_version},
    failure::Failure,
    home::{shown, wire_path},
    output::Output,
    source,
    units::counted,
};

const METHOD: &str = "coder::update-file";

/// What to edit, read before a connection exists.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    paths: &'a [OsString],
    change: Change,
    is_dry: bool,
}

impl<'a> Plan<'a> {
    pub(super) fn new(args: &'a EditArgs) -> Result<Self, Failure> {
        let inputs = args.ops.0.iter().filter(|op| op.text() == Some("-")).count();
        if inputs > 1 {
            return Err(Failure::Usage("standard input can be read only once".into()));
        }
        let ops: Vec<Value> = args.ops.0.iter().map(wire_op).collect::<Result<_, _>>()?;
        let entry = |path| {
            let mut entry = wire_path(path);
            entry["ops"] = ops.clone().into();
            entry
        };
        let mut entries: Vec<Value> = args.paths.iter().map(entry).collect();
        put_version(&args.version, &mut entries)?;
        let mut change = Change::new(METHOD, "files", entries, &args.batch);
        if args.diff && !args.batch.dry_run {
            change.set("diff", true);
        }
        Ok(Self { paths: &args.paths, change, is_dry: args.batch.dry_run })
    }

    pub(super) fn run(self, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
        let Self { paths, change, is_dry } = self;
        change.run(session, out, |at, done, out| show(&paths[at], done, is_dry, out))
    }
}

impl Op {
    /// What may come from elsewhere than the command line.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Insert { text, .. }
            | Self::Lines { text, .. }
            | Self::Append(text)
            | Self::Prepend(text) => Some(text),
            Self::Replace { .. } | Self::Regex { .. } | Self::Remove { .. } => None,
        }
    }
}

fn wire_op(op: &Op) -> Result<Value, Failure> {
    let text = match op.text() {
        Some(text) => source::text("the text", source::read("the text", OsStr::new(text))?)?,
        None => String::new(),
    };
    let mut wire = match op {
        Op::Replace { old, new, .. } => json!({"op": "str_replace", "old": old, "new": new}),
        Op::Regex { pattern, replacement, .. } => {
            json!({"op": "replace", "pattern": pattern, "replacement": replacement})
        }
        Op::Insert { at_line, .. } => json!({"op": "insert", "at_line": at_line, "content": text}),
        Op::Lines { from, to, .. } => {
            json!({"op": "update_lines", "from_line": from, "to_line": to, "content": text})
        }
        Op::Remove { from, to } => json!({"op": "remove", "from_line": from, "to_line": to}),
        Op::Append(_) => json!({"op": "append", "content": text}),
        Op::Prepend(_) => json!({"op": "prepend", "content": text}),
    };
    if let Op::Replace { expect: Some(count), .. } | Op::Regex { expect: Some(count), .. } = op {
        wire["expect_matches"] = (*count).into();
    }
    Ok(wire)
}

/// Where a diff was asked for, standard output is the diff and nothing else.
fn show(path: &OsStr, done: &Done, is_dry: bool, out: &mut Output<'_>) -> Result<(), Failure> {
    let name = shown(path);
    if done.diff.is_none() {
        return out.text(&summary(&name, done));
    }
    done.show_diff(&name, out)?;
    match (done.changed, is_dry) {
        (true, _) => Ok(()),
        (false, true) => out.remark(&format!("{name}: would not change")),
        (false, false) => out.remark(&format!("{name}: unchanged")),
    }
}

fn summary(name: &str, done: &Done) -> String {
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
    format!("edited {name}{replaced}, {lines}{}\n", done.caveat())
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
