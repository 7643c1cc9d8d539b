//! `stockade restore`: what is in the trash, and out of it again.

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
    out.text(&render(&listing.entries, &home, out.style)).map(|()| 0)
}

fn render(entries: &[Entry], home: &Home, style: Style) -> String {
    let ids: Vec<String> = entries.iter().map(|entry| one_line(&entry.id)).collect();
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
    let ids: Vec<Value> = args.ids.iter().map(|id| id.as_str().into()).collect();
    let mut change = Change::new(METHOD, "ids", ids, &Batch::default());
    if args.force {
        change.set("overwrite", true);
    }
    change.run(session, out, |_, done, out| -> Result<(), Failure> {
        let path = done.path.as_deref().unwrap_or_default();
        let bytes = home.as_ref().map(|home| home.relative(path, done.path_bytes.as_deref()));
        out.text(&format!("restored {}\n", escape::name(&bytes.unwrap_or_default())))
    })
}
