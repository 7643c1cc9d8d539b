//! Options that ripgrep has, too: `invert`, `only_matching` and their counts, on those parts of the corpus where the two agree
//! about every line.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    corpus,
    differential::path_below,
    ripgrep::{self, Answer, Match},
    support::random::{Random, seed},
    support::{Client, Options, TestJail, Value, json},
};

/// Questions of an ordinary run, to each of the two.
const QUERIES: usize = 120;

const FOLDERS: &[&str] = &["plain", "wide", "deep", "crlf", "bom", "utf16", "empty", "long"];

const PATTERNS: &[&str] = &[
    "foo",
    "a",
    "é",
    "日",
    "bar",
    "K",
    " ",
    "[a-f]+",
    r"\w+",
    "(foo|bar)",
    "a*",
    "x?",
    ".+",
    ".",
    r"\d",
    r"\s+",
    "^.",
    "(?i)beta",
    "end|x1",
    r"[^a]\S",
    "foo.*bar",
    "needle",
    r"^\s*$",
];

fn jail(seed: u64) -> TestJail {
    let policy = format!("[[root]]\npath = \"ROOT\"\n{}", corpus::LIMITS);
    TestJail::with_tree(Options { policy: Some(policy), in_memory: true, ..Options::default() }, |root| {
        corpus::plant(root, seed)
    })
}

struct Question {
    pattern: &'static str,
    folder: &'static str,
    ignore_case: bool,
    page: u64,
}

impl Question {
    fn random(random: &mut Random) -> Self {
        Self {
            pattern: random.pick(PATTERNS),
            folder: random.pick(FOLDERS),
            ignore_case: random.one_in(3),
            page: if random.one_in(3) { random.below(30) as u64 + 1 } else { 100_000 },
        }
    }

    fn request(&self, flag: &str) -> Value {
        json!({"query": self.pattern, "regex": true, "repair": false, "path": self.folder, "ignore_case": self.ignore_case,
            "max_matches": self.page, "search_paths": false, "use_default_excludes": false, "multiline": false, flag: true})
    }

    fn arguments(&self, flags: &[&str]) -> Vec<String> {
        let own = ["--no-config", "--hidden", "--crlf", "--no-mmap", "--no-messages", "--threads=1", "--no-ignore"];
        let case = self.ignore_case.then_some("--ignore-case");
        let all = own.iter().chain(flags).copied().chain(case);
        let all = all.chain(["--regexp", self.pattern, "--"]);
        all.map(Into::into).chain([format!("./{}", self.folder)]).collect()
    }
}

/// All pages of the list `field`.
fn all(client: &mut Client, mut request: Value, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let mut reply = client.call("coder::search", request.clone()).unwrap();
        found.append(reply[field].as_array_mut().unwrap());
        if reply["next_cursor"].is_null() {
            assert_eq!(reply["truncated"], false, "{reply}");
            return found;
        }
        request["cursor"] = reply["next_cursor"].take();
    }
}

fn each(ask: impl Fn(&mut Client, &TestJail, &Question)) {
    let seed = seed("options");
    let (jail, mut random) = (jail(seed), Random::new(seed));
    let mut client = jail.connect();
    for _ in 0..QUERIES {
        ask(&mut client, &jail, &Question::random(&mut random));
    }
}

fn describe(question: &Question) -> String {
    let Question { pattern, folder, ignore_case, page } = question;
    format!("{pattern:?} in {folder}, ignore_case: {ignore_case}, pages of {page}")
}

#[test]
fn inverted_lines_are_those_of_ripgrep() {
    each(|client, jail, question| {
        let arguments = question.arguments(&["--json", "--invert-match"]);
        let Answer::Found(theirs) = ripgrep::search(&jail.root, &arguments) else { return };
        let found = all(client, question.request("invert"), "content_matches");
        let at = |found: &Value| (path_below(&jail.root, found), found["line"].as_u64().unwrap());
        let ours: Vec<_> = found.iter().map(at).collect();
        assert!(found.iter().all(|found| found["spans"] == json!([])), "nothing of such a line is a match");
        assert_eq!(ours.len(), ours.iter().collect::<BTreeSet<_>>().len(), "each line once");
        let ours: BTreeSet<_> = ours.into_iter().collect();
        assert_eq!(ours, theirs.keys().cloned().collect(), "{}", describe(question));
    });
}

#[test]
fn single_matches_are_those_of_ripgrep() {
    each(|client, jail, question| {
        let Some(theirs) = ripgrep::matches(&jail.root, &question.arguments(&["--json"])) else { return };
        let mut ours: Vec<Match> = all(client, question.request("only_matching"), "content_matches")
            .iter()
            .map(|found| Match {
                path: path_below(&jail.root, found),
                line: found["line"].as_u64().unwrap(),
                column: found["column"].as_u64().unwrap(),
                text: found["text"].as_str().unwrap().to_owned(),
            })
            .collect();
        // Their order of paths is theirs.
        ours.sort();
        // A match that is longer than `max_line_bytes` is cut, and says so; the corpus has such lines.
        let shorten = |found: &Match| Match { text: found.text.chars().take(1000).collect(), ..found.clone() };
        let shortened = |all: &[Match]| all.iter().map(shorten).collect::<Vec<_>>();
        assert_eq!(shortened(&ours), shortened(&theirs), "{}", describe(question));
    });
}

/// `path: count`, as `--count` prints it with a NUL behind the path.
fn counts(jail: &TestJail, arguments: &[String]) -> Option<BTreeMap<Vec<u8>, u64>> {
    let output = ripgrep::run("rg", &jail.root, arguments);
    if !matches!(output.status.code(), Some(0 | 1)) {
        return None;
    }
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let count = |line: &[u8]| {
        let (path, count) = line.split_at(line.iter().position(|&byte| byte == 0).unwrap());
        let path = path.strip_prefix(b"./").unwrap_or(path).to_vec();
        (path, std::str::from_utf8(&count[1..]).unwrap().trim_end().parse().unwrap())
    };
    Some(lines.map(count).collect())
}

#[test]
fn counts_of_both_are_those_of_ripgrep() {
    each(|client, jail, question| {
        for (flag, theirs) in [("invert", "--invert-match"), ("only_matching", "--only-matching")] {
            // ripgrep also counts empty matches, which show nothing.
            if flag == "only_matching" && ["a*", "x?", r"^\s*$"].contains(&question.pattern) {
                continue;
            }
            let arguments = question.arguments(&["--count", "--with-filename", "--null", theirs]);
            let Some(theirs) = counts(jail, &arguments) else { continue };
            let mut request = question.request(flag);
            request["count_only"] = true.into();
            let files = all(client, request, "files");
            let count = |file: &Value| (path_below(&jail.root, file), file["count"].as_u64().unwrap());
            let ours: BTreeMap<_, _> = files.iter().map(count).collect();
            assert_eq!(ours, theirs, "{flag}: {}", describe(question));
        }
    });
}
