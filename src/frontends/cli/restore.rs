//! `stockade restore`: what is in the trash, and out of it again.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Outcome, Session,
    args::{Batch, RestoreArgs},
    change::Change,
    escape::{self, one_line, width},
    failure::{Failure, unexpected},
    home::{Home, put_name},
    output::{Output, Paint, Style},
    progress,
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::restore";

/// Characters of an id that are shown at least: when it was removed, to the millisecond.
const SHORTEST_ID: usize = 11;

#[derive(Debug, Deserialize)]
struct Listing {
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    id: String,
    path: String,
    path_bytes: Option<String>,
    kind: Option<String>,
    size: u64,
    deleted_at: i64,
}

pub(super) fn run(args: &RestoreArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    match args.ids.is_empty() {
        true => list(args, session, out),
        false => bring_back(args, session, out),
    }
}

fn list(args: &RestoreArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    let mut request = json!({ "list": true });
    if let Some(path) = &args.below {
        put_name(&mut request, "path", path);
    }
    if let Some(folder) = &args.base_dir {
        request["base_dir"] = folder.as_str().into();
    }
    let reply = progress::during("looking", || session.call(METHOD, &request.to_string()))?;
    if out.json {
        return out.json_line(reply.get()).map(|()| 0);
    }
    let listing: Listing = serde_json::from_str(reply.get()).map_err(unexpected)?;
    if listing.entries.is_empty() {
        return out.remark("the trash is empty").map(|()| 0);
    }
    let home = Home::ask(session)?;
    // What is short enough for a person has to tell apart all that is in the trash, not only what is shown.
    let all = if args.below.is_some() { all(session)? } else { Vec::new() };
    let ids: Vec<&str> = all.iter().chain(&listing.entries).map(|entry| entry.id.as_str()).collect();
    let length = telling_length(&ids);
    out.text(&render(&listing.entries, length, &home, out.style)).map(|()| 0)
}

fn all(session: &mut dyn Session) -> Result<Vec<Entry>, Failure> {
    let reply = session.call(METHOD, &json!({ "list": true }).to_string())?;
    let listing: Listing = serde_json::from_str(reply.get()).map_err(unexpected)?;
    Ok(listing.entries)
}

/// How many characters of an id are enough to say which is meant.
fn telling_length(ids: &[&str]) -> usize {
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    let shortened = |length: usize| distinct.iter().map(|id| prefix(id, length)).collect::<BTreeSet<_>>();
    let longest = distinct.iter().map(|id| id.len()).max().unwrap_or(0);
    (SHORTEST_ID..longest).find(|length| shortened(*length).len() == distinct.len()).unwrap_or(longest)
}

fn prefix(id: &str, length: usize) -> &str {
    id.get(..length).unwrap_or(id)
}

/// The whole of an id that was typed in part; one that is unknown goes to the service, which says so.
fn whole_id(typed: &str, entries: &[Entry]) -> Result<String, Failure> {
    let mut fitting = entries.iter().filter(|entry| entry.id.starts_with(typed));
    match (fitting.next(), fitting.next()) {
        (Some(entry), None) => Ok(entry.id.clone()),
        (Some(_), Some(_)) if entries.iter().all(|entry| entry.id != typed) => Err(Failure::Usage(format!(
            "several things in the trash begin with {typed}; give more of the id"
        ))),
        _ => Ok(typed.to_owned()),
    }
}

fn render(entries: &[Entry], length: usize, home: &Home, style: Style) -> String {
    let ids: Vec<String> = entries.iter().map(|entry| one_line(prefix(&entry.id, length))).collect();
    let id_width = ids.iter().map(|id| width(id)).max().unwrap_or(0);
    let line = |(entry, id): (&Entry, &String)| {
        let time = utc_minute(entry.deleted_at);
        let (kind, paint, mark) = match entry.kind.as_deref() {
            Some("dir") => ('d', Some(Paint::Folder), "/"),
            Some("symlink") => ('l', Some(Paint::Link), "@"),
            Some("file") => ('-', None, ""),
            _ => ('?', None, ""),
        };
        let name = escape::name(&home.relative(&entry.path, entry.path_bytes.as_deref()));
        let name = paint.map_or_else(|| name.clone(), |paint| style.paint(paint, &name));
        format!("{id:id_width$}  {time}  {kind} {:>5}  {name}{mark}\n", human_size(entry.size))
    };
    entries.iter().zip(&ids).map(line).collect()
}

fn bring_back(args: &RestoreArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    let home = if out.json { None } else { Some(Home::ask(session)?) };
    let entries = all(session)?;
    let whole = |id: &String| whole_id(id, &entries).map(Value::from);
    let ids: Vec<Value> = args.ids.iter().map(whole).collect::<Result<_, _>>()?;
    let mut change = Change::new(METHOD, "ids", ids, &Batch::default());
    if args.force {
        change.set("overwrite", true);
    }
    if args.dry_run {
        change.set("dry_run", true);
    }
    if let Some(folder) = &args.base_dir {
        change.set("base_dir", folder.as_str());
    }
    change.run(session, out, |_, done, out| -> Result<(), Failure> {
        let path = done.path.as_deref().unwrap_or_default();
        let bytes = home.as_ref().map(|home| home.relative(path, done.path_bytes.as_deref()));
        let restored = done.verb("restored", "restore");
        out.text(&format!("{restored} {}\n", escape::name(&bytes.unwrap_or_default())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> Entry {
        Entry { id: id.into(), path: "/r/a".into(), path_bytes: None, kind: None, size: 0, deleted_at: 0 }
    }

    #[test]
    fn as_much_of_an_id_is_shown_as_tells_it_apart() {
        assert_eq!(telling_length(&["0123456789a-1-ff", "0123456789b-1-ff"]), 11);
        assert_eq!(telling_length(&["0123456789a-1-ff", "0123456789a-1-fe", "0123456789a-1-fe"]), 16);
        assert_eq!(telling_length(&["7-0"]), 3);
        assert_eq!(telling_length(&[]), 0);
    }

    #[test]
    fn part_of_an_id_is_enough_where_one_begins_so() {
        let entries = ["10-0", "10-1", "10", "7-0"].map(entry);
        for (typed, meant) in [("7", "7-0"), ("10-1", "10-1"), ("10", "10"), ("9", "9")] {
            assert_eq!(whole_id(typed, &entries).unwrap(), meant);
        }
        assert_eq!(whole_id("1", &entries).unwrap_err().exit_code(), 2);
    }
}
