//! The same questions to ours and to ripgrep: the same lines, except where `differences.toml` says otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Mutex,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    corpus,
    differences::{Differences, Side},
    query::Query,
    ripgrep::{self, Answer},
    support::random::{Random, seed},
    support::{Client, Failure, Options, TestJail, Value, json},
};

/// Questions of an ordinary run; `STOCKADE_SOAK_QUERIES` asks more.
const QUERIES: usize = 3_000;
/// Each with a connection of its own: what a question costs is the start of ripgrep.
const THREADS: usize = 3;

/// A line as ours shows it: all of it, or a window.
#[derive(Debug, Clone)]
struct Shown {
    text: String,
    /// Bytes before the window, if it is one; None for lines of a window over several that cannot be told apart.
    window: Option<Option<u64>>,
}

type Ours = BTreeMap<(Vec<u8>, u64), Shown>;

pub fn path_below(root: &Path, found: &Value) -> Vec<u8> {
    let path = match &found["path_bytes"] {
        Value::String(bytes) => STANDARD.decode(bytes).unwrap(),
        _ => found["path"].as_str().unwrap().as_bytes().to_vec(),
    };
    let root = root.as_os_str().as_encoded_bytes();
    path[root.len()..].strip_prefix(b"/").unwrap().to_vec()
}

fn add(root: &Path, found: &Value, ours: &mut Ours) {
    let path = path_below(root, found);
    let first = found["line"].as_u64().unwrap();
    let last = found["last_line"].as_u64().unwrap_or(first);
    let text = found["text"].as_str().unwrap();
    let offset = found["text_offset"].as_u64();
    assert_eq!(offset.is_some(), found["text_truncated"] == true, "{found}");
    for (from, to) in serde_json::from_value::<Vec<(usize, usize)>>(found["spans"].clone()).unwrap() {
        assert!(text.get(from..to).is_some(), "a span within the text, on characters: {found}");
    }
    let texts: Vec<&str> = text.split('\n').collect();
    for line in first..=last {
        let (text, window) = match (offset, last > first) {
            (None, _) => {
                let text = texts[(line - first) as usize];
                // Between two lines of one match the terminator is part of the text.
                (text.strip_suffix('\r').filter(|_| line < last).unwrap_or(text), None)
            }
            (Some(offset), false) => (text, Some(Some(offset))),
            (Some(_), true) => ("", Some(None)),
        };
        let known = ours.insert((path.clone(), line), Shown { text: text.into(), window });
        assert!(known.is_none(), "a line is found once: {found}");
    }
}

/// All pages.
fn ask(client: &mut Client, root: &Path, id: u64, mut request: Value) -> Result<Ours, Failure> {
    let mut ours = Ours::new();
    let mut reply = client.reply_to(id)?;
    loop {
        reply["content_matches"].as_array().unwrap().iter().for_each(|found| add(root, found, &mut ours));
        if reply["next_cursor"].is_null() {
            return Ok(ours);
        }
        request["cursor"] = reply["next_cursor"].take();
        reply = client.call("coder::search", request.clone())?;
    }
}

fn is_same(line: &[u8], shown: &Shown) -> bool {
    match shown.window {
        None => String::from_utf8_lossy(line) == shown.text,
        Some(None) => true,
        Some(Some(offset)) => {
            let rest = String::from_utf8_lossy(&line[offset as usize..]).into_owned();
            // A window may end within bytes that are no character.
            rest.starts_with(shown.text.trim_end_matches('\u{fffd}'))
        }
    }
}

/// Compares one question; the differences that apply, by number, or what nobody allows.
fn compare(
    client: &mut Client,
    root: &Path,
    differences: &Differences,
    query: &Query,
    page: Option<u64>,
) -> Result<BTreeSet<usize>, String> {
    let mut request = query.request();
    if let Some(page) = page {
        request["max_matches"] = json!(page);
    }
    let id = client.send("coder::search", request.clone());
    let theirs = ripgrep::search(root, &query.arguments());
    let ours = ask(client, root, id, request);
    let (theirs, ours) = match (theirs, ours) {
        (Answer::Found(theirs), Ok(ours)) => (theirs, ours),
        (Answer::Crashed, Ok(_)) => return Ok(BTreeSet::new()),
        (Answer::Refused, Err(failure)) if ["C210", "C211"].contains(&failure.code().as_str()) => {
            return Ok(BTreeSet::new());
        }
        (theirs, ours) => {
            let refuses = matches!(theirs, Answer::Refused);
            return Err(format!("ripgrep refuses it: {refuses}, ours: {:?}", ours.err()));
        }
    };
    let mut applied = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut allow =
        |side, (path, number): &(Vec<u8>, u64), line: &[u8]| match differences.allowing(query, side, path, line) {
            Some(entry) => _ = applied.insert(entry),
            None => wrong.push(format!(
                "{side:?} alone: {}:{number}: {:?}",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(&line[..line.len().min(200)])
            )),
        };
    theirs.iter().filter(|(at, _)| !ours.contains_key(at)).for_each(|(at, line)| allow(Side::Ripgrep, at, line));
    let extra = ours.iter().filter(|(at, _)| !theirs.contains_key(at));
    extra.for_each(|(at, shown)| allow(Side::Ours, at, shown.text.as_bytes()));
    for (at, line) in &theirs {
        if let Some(shown) = ours.get(at)
            && !is_same(line, shown)
        {
            wrong.push(format!("{at:?}: {:?} is shown as {shown:?}", String::from_utf8_lossy(line)));
        }
    }
    if wrong.is_empty() { Ok(applied) } else { Err(wrong[..wrong.len().min(5)].join("\n")) }
}

fn queries() -> usize {
    std::env::var("STOCKADE_SOAK_QUERIES").map_or(QUERIES, |queries| queries.parse().unwrap())
}

fn jail(seed: u64) -> TestJail {
    let policy = format!("[[root]]\npath = \"ROOT\"\n{}", corpus::LIMITS);
    TestJail::with_tree(Options { policy: Some(policy), in_memory: true, ..Options::default() }, |root| {
        corpus::plant(root, seed)
    })
}

#[test]
fn the_lines_are_those_of_ripgrep() {
    let seed = seed("the_lines_are_those_of_ripgrep");
    let jail = jail(seed);
    let differences = Differences::read();
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (jail, differences, wrong) = (&jail, &differences, &wrong);
            scope.spawn(move || {
                let mut client = jail.connect();
                let mut random = Random::new(seed ^ thread as u64);
                for _ in 0..queries().div_ceil(THREADS) {
                    let query = Query::random(&mut random);
                    let page = random.one_in(10).then(|| random.below(40) as u64 + 1);
                    if let Err(text) = compare(&mut client, &jail.root, differences, &query, page) {
                        wrong.lock().unwrap().push(format!("{query:?}\n{text}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n\n"));
}

#[test]
fn every_listed_difference_is_one() {
    let jail = jail(seed("every_listed_difference_is_one"));
    let differences = Differences::read();
    let mut client = jail.connect();
    for (at, (entry, ..)) in differences.0.iter().enumerate() {
        let applied = compare(&mut client, &jail.root, &differences, &entry.example, None)
            .unwrap_or_else(|wrong| panic!("{}: its example shows another difference\n{wrong}", entry.name));
        assert!(applied.contains(&at), "{}: its example shows no such difference; says: {}", entry.name, entry.says);
    }
}
