//! Random calls of every tool with random sizes: no reply is longer than the limit, and the calls that replies name yield exactly
//! what was asked for. The oracle is the disk.

use std::{collections::BTreeMap, fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{
    host::{Host, Place},
    support::random::{Random, seed},
    support::{Value, json},
};

/// Calls of each kind.
const CALLS: usize = 25;
/// Replies to one call; more would be a call that leads nowhere.
const MAX_REPLIES: usize = 2_000;
/// The smallest limit that the command takes, and the usual one.
const LIMITS: [usize; 2] = [16 << 10, 64 << 10];

struct Service {
    host: Host,
    max_reply: usize,
}

impl Service {
    fn new(place: &Place, max_reply: usize) -> Self {
        Self { host: place.host(&["--max-reply", &max_reply.to_string()]), max_reply }
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let said = self.host.tool(tool, arguments.clone());
        assert!(said.text.len() <= self.max_reply, "{tool} {arguments}: {} bytes", said.text.len());
        assert!(!said.is_error, "{tool} {arguments}: {}", said.text);
        said.text
    }

    /// Every reply to a call and to the calls that its replies name, with the call that it answers.
    #[track_caller]
    fn follow(&mut self, tool: &str, arguments: Value) -> Vec<(Value, String)> {
        let mut replies = Vec::new();
        let mut open = vec![arguments];
        while let Some(call) = open.pop() {
            let reply = self.call(tool, &call);
            open.extend(next_calls(tool, &call, &reply));
            replies.push((call, reply));
            assert!(replies.len() < MAX_REPLIES, "{tool}: {:?}", replies.last());
        }
        replies
    }
}

/// The calls that a reply names. They stand in lines of their own.
fn next_calls(tool: &str, call: &Value, reply: &str) -> Vec<Value> {
    let lines = reply.lines().filter(|line| line.starts_with("… "));
    lines.filter_map(|line| line.split_once("next: ")).map(|(_, next)| read_call(tool, call, next)).collect()
}

fn read_call(tool: &str, call: &Value, next: &str) -> Value {
    if let Some(count) = next.strip_prefix("the same call without its first ") {
        let count: usize = count.split(' ').next().unwrap().parse().unwrap();
        let mut call = call.clone();
        call["paths"].as_array_mut().unwrap().drain(..count);
        return call;
    }
    if let Some(changed) = next.strip_prefix("the same call with ") {
        let mut call = call.clone();
        let changed: Value = serde_json::from_str(changed).unwrap();
        call.as_object_mut().unwrap().append(&mut changed.as_object().unwrap().clone());
        return call;
    }
    let arguments = next.strip_prefix(&format!("{tool} ")).unwrap_or_else(|| panic!("{next}"));
    serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {next}"))
}

/// A file, and how often each of its bytes was read.
struct ReadFile {
    bytes: Vec<u8>,
    /// Where each line begins, and the end of the file.
    begins: Vec<usize>,
    seen: Vec<u8>,
}

impl ReadFile {
    fn new(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let mut begins = vec![0];
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            begins.push(begins.last().unwrap() + line.len());
        }
        Self { seen: vec![0; bytes.len()], begins, bytes }
    }

    /// The bytes of line `number`, its end included.
    fn line(&self, number: usize) -> std::ops::Range<usize> {
        let end = self.begins.len() - 1;
        self.begins[(number - 1).min(end)]..self.begins[number.min(end)]
    }

    fn lines(&self) -> usize {
        self.begins.len() - 1
    }

    fn see_line(&mut self, number: usize, text: &str) {
        let range = self.line(number);
        let line = String::from_utf8_lossy(&self.bytes[range.clone()]);
        assert_eq!(line.strip_suffix('\n').unwrap_or(&line), text, "line {number}");
        self.seen[range].iter_mut().for_each(|seen| *seen += 1);
    }

    fn see_bytes(&mut self, begin: usize, bytes: &[u8]) {
        let range = begin..begin + bytes.len();
        assert_eq!(&self.bytes[range.clone()], bytes, "bytes from {begin}");
        self.seen[range].iter_mut().for_each(|seen| *seen += 1);
    }

    #[track_caller]
    fn assert_read(&self, asked: std::ops::Range<usize>, call: &Value) {
        for (at, seen) in self.seen.iter().enumerate() {
            assert_eq!(*seen, u8::from(asked.contains(&at)), "byte {at} of {}: {call}", self.bytes.len());
        }
    }
}

/// Takes the files of a reply of `read` apart. Every line of a file has its number; other lines are headers and next calls.
fn see_reply(files: &mut BTreeMap<String, ReadFile>, reply: &str) {
    let mut current = String::new();
    let mut rest = reply;
    while let Some(line) = rest.split_inclusive('\n').next() {
        rest = &rest[line.len()..];
        let text = line.strip_suffix('\n').unwrap_or(line);
        if text.starts_with("warning: ") {
            continue;
        }
        if let Some((number, text)) = text.split_once('→').filter(|(number, _)| number.parse::<usize>().is_ok()) {
            files.get_mut(&current).unwrap().see_line(number.parse().unwrap(), text);
        } else if !text.starts_with("… ") {
            let (path, extent) = text.split_once(": ").unwrap_or_else(|| panic!("{text}"));
            current = path.to_owned();
            let Some((first, last)) =
                extent.strip_prefix("bytes ").and_then(|extent| extent.split(' ').next()?.split_once('-'))
            else {
                continue;
            };
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let file = files.get_mut(path).unwrap();
            while rest.starts_with("warning: ") {
                rest = rest.split_once('\n').unwrap().1;
            }
            if extent.ends_with(", base64") {
                let content = rest.split('\n').next().unwrap();
                let bytes = BASE64.decode(content).unwrap();
                assert_eq!(bytes.len(), last - first, "{text}");
                file.see_bytes(first, &bytes);
                rest = &rest[content.len()..];
                rest = rest.strip_prefix('\n').unwrap_or(rest);
            } else {
                file.see_bytes(first, &rest.as_bytes()[..last - first]);
                rest = &rest[last - first..];
                rest = rest.strip_prefix('\n').unwrap_or(rest);
            }
        }
    }
}

/// Lines of random lengths; some files have lines that are longer than a reply.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    let long_lines = random.one_in(3);
    for _ in 0..random.below(1500) {
        let letter = random.pick(&["a", "word ", "ä", "→", "x\"y\\", "日本"]);
        let length = if long_lines && random.one_in(200) { 60_000 } else { 60 };
        text.push_str(&letter.repeat(random.below(length)));
        text.push_str(random.pick(&["\n", "\n", "\n", "\r\n"]));
    }
    if random.one_in(2) {
        text.truncate(text.trim_end().len());
    }
    text
}

fn texts(place: &Place, random: &mut Random) -> Vec<String> {
    let names: Vec<String> = (0..12).map(|at| format!("d{}/{}{at}.txt", at % 3, "long-".repeat(at))).collect();
    for name in &names {
        place.write(name, text(random));
    }
    names
}

#[test]
fn reads_of_one_file_fit_and_yield_what_was_asked() {
    let random = &mut Random::new(seed("reads_of_one_file_fit_and_yield_what_was_asked"));
    let place = Place::new();
    let names = texts(&place, random);
    for limit in LIMITS {
        let mut service = Service::new(&place, limit);
        for _ in 0..CALLS {
            let name = &names[random.below(names.len())];
            let mut file = ReadFile::new(&place.root.join(name));
            let lines = file.lines().max(1);
            let (first, last) = (1 + random.below(lines), 1 + random.below(lines));
            let (first, last) = (first.min(last), first.max(last));
            let (begin, end) = (random.below(file.bytes.len() + 1), random.below(file.bytes.len() + 1));
            let (begin, end) = (begin.min(end), begin.max(end));
            let whole = 0..file.bytes.len();
            let (call, asked) = match random.below(6) {
                0 => (json!({"path": name}), whole),
                1 => (json!({"path": name, "line_from": first}), file.line(first).start..whole.end),
                2 => (
                    json!({"path": name, "offset": first, "limit": last - first + 1}),
                    file.line(first).start..file.line(last).end,
                ),
                3 => (
                    json!({"path": name, "tail": last}),
                    file.line((lines + 1).saturating_sub(last).max(1)).start..whole.end,
                ),
                4 => (json!({"path": name, "encoding": "base64"}), whole),
                _ => (json!({"path": name, "byte_from": begin, "byte_to": end, "encoding": "base64"}), begin..end),
            };
            let replies = service.follow("read", call.clone());
            let mut files = BTreeMap::from([(name.clone(), file)]);
            replies.iter().for_each(|(_, reply)| see_reply(&mut files, reply));
            file = files.remove(name).unwrap();
            file.assert_read(asked, &call);
        }
    }
}

#[test]
fn reads_of_many_files_fit_and_yield_all_of_them() {
    let random = &mut Random::new(seed("reads_of_many_files_fit_and_yield_all_of_them"));
    let place = Place::new();
    let mut names = texts(&place, random);
    for at in 0..300 {
        names.push(format!("many/{}{at}", "name-".repeat(1 + at % 20)));
        place.write(names.last().unwrap(), "one\ntwo\n".repeat(random.below(20)));
    }
    for limit in LIMITS {
        let mut service = Service::new(&place, limit);
        for count in [2, 5, 12, names.len()] {
            let mut chosen = names.clone();
            while chosen.len() > count {
                chosen.swap_remove(random.below(chosen.len()));
            }
            let replies = service.follow("read", json!({ "paths": chosen }));
            let open = |name: &String| (name.clone(), ReadFile::new(&place.root.join(name)));
            let mut files: BTreeMap<String, ReadFile> = chosen.iter().map(open).collect();
            replies.iter().for_each(|(_, reply)| see_reply(&mut files, reply));
            for (name, file) in files {
                file.assert_read(0..file.bytes.len(), &json!(name));
            }
        }
    }
}

/// A folder whose names alone are longer than a reply.
fn many_names(place: &Place, random: &mut Random) -> Vec<String> {
    let mut names: Vec<String> = (0..900)
        .map(|at| match random.below(3) {
            0 => format!("wide/{}{at}.txt", "n".repeat(random.below(120))),
            1 => format!("deep/a/b{}/c/{at}.txt", random.below(4)),
            _ => format!("wide/sub{}/{}{at}.txt", random.below(9), "ü".repeat(random.below(40))),
        })
        .collect();
    names.sort();
    for name in &names {
        place.write(name, format!("{}needle in {name}\nlast line\n", "before\n".repeat(random.below(9))));
    }
    names
}

fn without_next(reply: &str) -> impl Iterator<Item = &str> {
    reply.lines().filter(|line| !line.starts_with("… "))
}

#[test]
fn lists_and_trees_fit_and_name_every_entry_once() {
    let random = &mut Random::new(seed("lists_and_trees_fit_and_name_every_entry_once"));
    let place = Place::new();
    let names = many_names(&place, random);
    for limit in LIMITS {
        let mut service = Service::new(&place, limit);
        let replies = service.follow("list", json!({"path": "wide", "page_size": 300 + random.below(700)}));
        let mut listed: Vec<String> = replies
            .iter()
            .flat_map(|(_, reply)| without_next(reply))
            .filter(|line| !line.starts_with("wide: ") && !line.ends_with('/'))
            .map(|line| format!("wide/{}", line.split("  ").next().unwrap()))
            .collect();
        listed.sort();
        let is_direct = |name: &&String| name.matches('/').count() == 1 && name.starts_with("wide/");
        assert_eq!(listed, names.iter().filter(is_direct).cloned().collect::<Vec<_>>());

        let replies = service.follow("tree", json!({"path": ".", "max_depth": 9, "per_folder_limit": 2000}));
        let (mut above, mut found): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for line in replies.iter().flat_map(|(_, reply)| without_next(reply)) {
            let name = line.trim_start();
            let (name, is_repeated) = name.strip_suffix(" (continued)").map_or((name, false), |name| (name, true));
            above.truncate((line.len() - line.trim_start().len()) / 2);
            above.push(name.trim_end_matches('/').to_owned());
            if !name.ends_with('/') && !is_repeated {
                found.push(above[1..].join("/"));
            }
        }
        found.sort();
        assert_eq!(found, names);
    }
}

#[test]
fn searches_and_finds_fit_and_name_every_match_once() {
    let random = &mut Random::new(seed("searches_and_finds_fit_and_name_every_match_once"));
    let place = Place::new();
    let names = many_names(&place, random);
    for limit in LIMITS {
        let mut service = Service::new(&place, limit);
        for _ in 0..3 {
            let call = json!({"query": "needle", "-C": random.below(11), "max_matches": 1 + random.below(400)});
            let replies = service.follow("search", call);
            let lines = replies.iter().flat_map(|(_, reply)| without_next(reply));
            let matches = lines.filter_map(|line| line.split_once(": needle in ")).map(|(place, name)| {
                assert!(place.starts_with(&format!("{name}:")), "{place}");
                name.to_owned()
            });
            let mut matches: Vec<String> = matches.collect();
            matches.sort();
            assert_eq!(matches, names);
            let sort = random.pick(&["path", "mtime"]);
            let replies =
                service.follow("find", json!({"paths": ["*.txt"], "sort": sort, "limit": 1 + random.below(2000)}));
            let mut found: Vec<&str> = replies.iter().flat_map(|(_, reply)| without_next(reply)).collect();
            found.sort_unstable();
            assert_eq!(found, names);
        }
    }
}

/// A dry run changes nothing, so it can be made again for the rest of its reply.
#[test]
fn dry_runs_and_the_trash_come_in_parts() {
    let random = &mut Random::new(seed("dry_runs_and_the_trash_come_in_parts"));
    let place = Place::new();
    let body: String = (0..4000).map(|at| format!("line {at} {}\n", "x".repeat(random.below(60)))).collect();
    place.write("a.txt", &body);
    (0..400).for_each(|at| drop(place.write(&format!("t/{at}-{}", "name".repeat(9)), "x\n")));
    let mut whole = Service::new(&place, 4 << 20);
    for limit in LIMITS {
        let mut service = Service::new(&place, limit);
        let edit = json!({"path": "a.txt", "ops": [{"op": "replace", "pattern": "line", "replacement": "row"}], "dry_run": true});
        assert_parts(&mut whole, &mut service, "edit", edit);
    }
    let mut service = Service::new(&place, LIMITS[0]);
    let deletions: Vec<String> = (0..400).map(|at| format!("t/{at}-{}", "name".repeat(9))).collect();
    assert_parts(&mut whole, &mut service, "delete", json!({"paths": deletions, "dry_run": true}));
    whole.call("delete", &json!({"path": "t", "recursive": true, "trash": true}));
    for _ in 0..300 {
        place.write("again", "x\n");
        whole.call("delete", &json!({"path": "again", "trash": true}));
    }
    assert_parts(&mut whole, &mut service, "restore", json!({"list": true}));
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), body);
}

/// The parts of a reply make the reply of a service that sends it whole.
#[track_caller]
fn assert_parts(whole: &mut Service, service: &mut Service, tool: &str, call: Value) {
    let expected = whole.call(tool, &call);
    let parts = service.follow(tool, call);
    assert!(parts.len() > 1, "{tool}: it is one reply");
    let lines: Vec<&str> = parts.iter().flat_map(|(_, reply)| without_next(reply)).collect();
    assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{tool}");
}

#[test]
fn changes_of_many_files_fit_and_name_what_they_do_not_show() {
    let random = &mut Random::new(seed("changes_of_many_files_fit_and_name_what_they_do_not_show"));
    let place = Place::new();
    let mut service = Service::new(&place, LIMITS[0]);
    let name = |at: usize| format!("made/{}{at}.txt", "name-".repeat(at % 15));
    let line = |random: &mut Random| format!("old {}\n", "x".repeat(random.below(300)));
    let files: Vec<Value> = (0..700)
        .map(|at| json!({"path": name(at), "content": (0..40).map(|_| line(random)).collect::<String>()}))
        .collect();
    let said = service.call("create", &json!({"files": files, "atomic": true}));
    assert!(said.contains(" done, … more") || said.contains("done more, not listed"), "{said}");
    let changed = format!("new line of text {}", "y".repeat(60));
    let ops =
        json!([{"op": "update_lines", "from_line": 1, "to_line": 40, "content": format!("{changed}\n").repeat(40)}]);
    let edits: Vec<Value> = (0..25).map(|at| json!({"path": name(at), "ops": ops})).collect();
    let said = service.call("edit", &json!({ "files": edits }));
    let next: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("… more changed lines; next: read ")).collect();
    assert!(!next.is_empty(), "{said}");
    for call in next {
        let read = service.call("read", &serde_json::from_str(call).unwrap());
        assert!(read.lines().skip(1).all(|line| line.ends_with(&format!("→{changed}"))), "{read}");
    }
    assert_eq!(said.lines().filter(|line| line.starts_with("edited ")).count(), 25);
    let refused = service.host.tool("edit", json!({"path": "x".repeat(5000), "old": "a", "new": "b"}));
    assert!(refused.is_error && refused.text.len() <= LIMITS[0]);
}
