//! `stockade restore`: lists the trash, and restores entries of it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CommandResult, FileSession,
    args::{BatchOptions, RestoreArgs},
    change::ChangeCommand,
    escape::{self, display_width, escape_text},
    failure::{CliFailure, unexpected_result},
    output::{Output, OutputStyle, Paint},
    paths::{PathBase, set_path},
    progress,
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::restore";

/// The fewest characters of an id that are shown: they encode the time of the removal in milliseconds.
const SHORTEST_ID: usize = 11;

#[derive(Debug, Deserialize)]
struct CliTrashListing {
    entries: Vec<CliTrashEntry>,
}

#[derive(Debug, Deserialize)]
struct CliTrashEntry {
    id: String,
    path: String,
    path_bytes: Option<String>,
    kind: Option<String>,
    size: u64,
    deleted_at: i64,
}

pub(super) fn run(args: &RestoreArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    match args.ids.is_empty() {
        true => list_trash(args, session, out),
        false => restore_entries(args, session, out),
    }
}

fn list_trash(args: &RestoreArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let mut request = json!({ "list": true });
    if let Some(path) = &args.below {
        match args.base_dir {
            Some(_) => set_path(&mut request, "path", path),
            None => set_path(&mut request, "path", &session.path_base().sent(path)),
        }
    }
    if let Some(folder) = &args.base_dir {
        request["base_dir"] = session.path_base().sent_text(folder).into();
    }
    let reply = progress::show_during("looking", || session.call(METHOD, &request.to_string()))?;
    if out.json {
        return out.write_json_line(reply.get()).map(|()| 0);
    }
    let listing: CliTrashListing = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    if listing.entries.is_empty() {
        return out.write_remark("the trash is empty").map(|()| 0);
    }
    // The shortened ids must be unique in the whole trash, not only among those that are shown.
    let all = if args.below.is_some() { read_trash(session)? } else { Vec::new() };
    let ids: Vec<&str> = all.iter().chain(&listing.entries).map(|entry| entry.id.as_str()).collect();
    let length = distinct_length(&ids);
    out.write_text(&render(&listing.entries, length, session.path_base(), out.style)).map(|()| 0)
}

fn read_trash(session: &mut dyn FileSession) -> Result<Vec<CliTrashEntry>, CliFailure> {
    let reply = session.call(METHOD, &json!({ "list": true }).to_string())?;
    let listing: CliTrashListing = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    Ok(listing.entries)
}

/// The number of characters that make every id unique.
fn distinct_length(ids: &[&str]) -> usize {
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    let shortened = |length: usize| distinct.iter().map(|id| prefix(id, length)).collect::<BTreeSet<_>>();
    let longest = distinct.iter().map(|id| id.len()).max().unwrap_or(0);
    (SHORTEST_ID..longest).find(|length| shortened(*length).len() == distinct.len()).unwrap_or(longest)
}

fn prefix(id: &str, length: usize) -> &str {
    id.get(..length).unwrap_or(id)
}

/// Completes an id that was typed in part. The service refuses an unknown one.
fn complete_id(typed: &str, entries: &[CliTrashEntry]) -> Result<String, CliFailure> {
    let mut fitting = entries.iter().filter(|entry| entry.id.starts_with(typed));
    match (fitting.next(), fitting.next()) {
        (Some(entry), None) => Ok(entry.id.clone()),
        (Some(_), Some(_)) if entries.iter().all(|entry| entry.id != typed) => {
            Err(CliFailure::Usage(format!("several things in the trash begin with {typed}; give more of the id")))
        }
        _ => Ok(typed.to_owned()),
    }
}

fn render(entries: &[CliTrashEntry], length: usize, base: &PathBase, style: OutputStyle) -> String {
    let ids: Vec<String> = entries.iter().map(|entry| escape_text(prefix(&entry.id, length))).collect();
    let id_width = ids.iter().map(|id| display_width(id)).max().unwrap_or(0);
    let line = |(entry, id): (&CliTrashEntry, &String)| {
        let time = utc_minute(entry.deleted_at);
        let (kind, paint, mark) = match entry.kind.as_deref() {
            Some("dir") => ('d', Some(Paint::Folder), "/"),
            Some("symlink") => ('l', Some(Paint::Link), "@"),
            Some("file") => ('-', None, ""),
            _ => ('?', None, ""),
        };
        let name = escape::name(&base.shorten(&entry.path, entry.path_bytes.as_deref()));
        let name = paint.map_or_else(|| name.clone(), |paint| style.paint(paint, &name));
        format!("{id:id_width$}  {time}  {kind} {:>5}  {name}{mark}\n", human_size(entry.size))
    };
    entries.iter().zip(&ids).map(line).collect()
}

fn restore_entries(args: &RestoreArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let base = session.path_base().clone();
    let entries = read_trash(session)?;
    let whole = |id: &String| complete_id(id, &entries).map(Value::from);
    let ids: Vec<Value> = args.ids.iter().map(whole).collect::<Result<_, _>>()?;
    let mut change = ChangeCommand::new(METHOD, "ids", ids, &BatchOptions::default());
    if args.force {
        change.set("overwrite", true);
    }
    if args.dry_run {
        change.set("dry_run", true);
    }
    if let Some(folder) = &args.base_dir {
        change.set("base_dir", folder.as_str());
    }
    change.run(session, out, |_, done, out| -> Result<(), CliFailure> {
        let path = done.path.as_deref().unwrap_or_default();
        let bytes = base.shorten(path, done.path_bytes.as_deref());
        let restored = done.verb("restored", "restore");
        out.write_text(&format!("{restored} {}\n", escape::name(&bytes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> CliTrashEntry {
        CliTrashEntry { id: id.into(), path: "/r/a".into(), path_bytes: None, kind: None, size: 0, deleted_at: 0 }
    }

    #[test]
    fn as_much_of_an_id_is_shown_as_tells_it_apart() {
        assert_eq!(distinct_length(&["0123456789a-1-ff", "0123456789b-1-ff"]), 11);
        assert_eq!(distinct_length(&["0123456789a-1-ff", "0123456789a-1-fe", "0123456789a-1-fe"]), 16);
        assert_eq!(distinct_length(&["7-0"]), 3);
        assert_eq!(distinct_length(&[]), 0);
    }

    #[test]
    fn part_of_an_id_is_enough_where_one_begins_so() {
        let entries = ["10-0", "10-1", "10", "7-0"].map(entry);
        for (typed, meant) in [("7", "7-0"), ("10-1", "10-1"), ("10", "10"), ("9", "9")] {
            assert_eq!(complete_id(typed, &entries).unwrap(), meant);
        }
        assert_eq!(complete_id("1", &entries).unwrap_err().exit_code(), 2);
    }
}
