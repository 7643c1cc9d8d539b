//! Random operator roots, host root URIs, links, paths and `base_dir` values against a real service: nothing outside what both
//! sides allow is read or changed. The oracle is the disk: a file is allowed if its real path lies below the real path of an
//! operator's root and of a host's root.
//! In half of the cases the service follows links inside its roots.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::{
    host::{Host, Said, command},
    support::random::{Random, seed},
    support::{TestJail, Value, json, state::is_state},
};

const CASES: usize = 40;
const CALLS: usize = 40;

/// Folders that may be roots of either side, or lie beside all of them.
const FOLDERS: [&str; 9] = ["r", "r/s", "r/s/d", "r/t", "q", "q/s", "q/s/d", "rr", "elsewhere"];

struct Tree {
    dir: tempfile::TempDir,
    top: PathBuf,
    /// The real path of every canary; its place is its number.
    canaries: Vec<PathBuf>,
    /// Those that a call may see, so that not nearly all calls are refused.
    allowed: Vec<PathBuf>,
}

impl Tree {
    fn new(random: &mut Random) -> Self {
        let dir = TestJail::directory();
        let top = dir.path().canonicalize().unwrap();
        let mut canaries = Vec::new();
        for folder in FOLDERS {
            fs::create_dir_all(top.join(folder)).unwrap();
            let file = top.join(folder).join(format!("name-{}.txt", canaries.len()));
            fs::write(&file, content(canaries.len())).unwrap();
            canaries.push(file);
        }
        fs::create_dir(top.join("links")).unwrap();
        for number in 0..3 {
            symlink(top.join(random.pick(&FOLDERS)), top.join(format!("links/l{number}"))).unwrap();
            let (folder, target) = (random.pick(&FOLDERS), random.pick(&FOLDERS));
            // Relative, because a service never follows an absolute one.
            let up = "../".repeat(folder.split('/').count());
            let _ = symlink(format!("{up}{target}"), top.join(folder).join(format!("link{number}")));
        }
        Self { dir, top, canaries, allowed: Vec::new() }
    }

    fn folder(&self, random: &mut Random) -> PathBuf {
        self.top.join(random.pick(&FOLDERS))
    }

    /// A folder under any of its names: its own, through a link, or one that is not there.
    fn named(&self, random: &mut Random) -> PathBuf {
        match random.below(6) {
            0 => self.top.join(format!("links/l{}", random.below(3))),
            1 => self.top.join(format!("links/l{}/s", random.below(3))),
            2 => self.folder(random).join(format!("link{}", random.below(3))),
            3 => self.folder(random).join("missing"),
            _ => self.folder(random),
        }
    }

    fn service(&self, operator: &[PathBuf], links: &str) -> Host {
        let root = |root: &PathBuf| format!("[[root]]\npath = \"{}\"\nsymlinks = \"{links}\"\n", root.display());
        let policy = self.dir.path().join("policy.toml");
        fs::write(&policy, operator.iter().map(root).collect::<String>()).unwrap();
        let mut host = Host::start(command(&["--policy", policy.to_str().unwrap()]));
        host.initialize(json!({"roots": {}}));
        host
    }

    /// All names and contents, with links as what they say.
    fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(folder: &Path, state: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                // The service's own folder at the top of a root.
                if is_state(entry.file_name()) {
                    continue;
                }
                let held = match (kind.is_symlink(), kind.is_dir()) {
                    (true, _) => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                    (_, true) => Vec::new(),
                    _ => fs::read(&path).unwrap(),
                };
                if kind.is_dir() {
                    walk(&path, state);
                }
                state.insert(path, held);
            }
        }
        let mut state = BTreeMap::new();
        walk(self.dir.path(), &mut state);
        state
    }
}

fn content(number: usize) -> String {
    format!("content-{number}-of-a-canary\n")
}

/// A `file:` URI of the path in one of its spellings.
fn spelled(path: &Path, random: &mut Random) -> String {
    let mut text = String::new();
    for (at, name) in path.to_str().unwrap().split('/').enumerate() {
        if at > 0 {
            text.push_str(random.pick(&["/", "/", "/", "//", "/./", "/x/../", "/%2E/"]));
        }
        for byte in name.bytes() {
            match random.one_in(6) {
                true => text.push_str(&format!("%{byte:02x}")),
                false => text.push(byte.into()),
            }
        }
    }
    let scheme = random.pick(&["file:", "file://", "FILE://", "File://localhost", "file://LOCALHOST"]);
    // Without an authority a path must not begin with two slashes.
    if scheme == "file:" {
        text = format!("/{}", text.trim_start_matches('/'));
    }
    format!("{scheme}{text}{}", random.pick(&["", "", "/", "?q=1", "#f", "?/../..#x"]))
}

fn not_understood(path: &Path, random: &mut Random) -> String {
    let path = path.display();
    let forms = [
        format!("http://localhost{path}"),
        format!("file://other{path}"),
        format!("file://{path}/%zz"),
        format!("file:.{path}"),
    ];
    forms[random.below(forms.len())].clone()
}

/// What a model may send as a path or as `base_dir`.
fn path_of_a_model(tree: &Tree, random: &mut Random) -> String {
    let from = if tree.allowed.is_empty() || random.one_in(2) { &tree.canaries } else { &tree.allowed };
    let canary = &from[random.below(from.len())];
    let name = canary.file_name().unwrap().to_str().unwrap();
    match random.below(10) {
        0 => name.to_owned(),
        1 => format!("../{}/{name}", random.pick(&["s", "t", "q", "r", "d"])),
        2 => format!("{}/{name}", random.pick(&["s", "t", "d", "s/d", "link0", "link1", "link2"])),
        3 => random.pick(&["", ".", "..", "../..", "s", "t", "s/..", "s/../..", "/", "link0", "link1"]).into(),
        4 => tree.named(random).to_str().unwrap().to_owned(),
        5 => format!("{}/../{}", tree.folder(random).display(), random.pick(&["s", "t", "r", "q"])),
        6 => format!("{}/{name}", tree.named(random).display()),
        _ => canary.to_str().unwrap().to_owned(),
    }
}

fn call_of_a_model(tree: &Tree, random: &mut Random) -> (&'static str, Value) {
    let path = path_of_a_model(tree, random);
    let other = path_of_a_model(tree, random);
    let (tool, mut arguments) = match random.below(16) {
        0..=3 => ("read", json!({ "path": path })),
        4 => ("read", json!({ "paths": [path, other] })),
        5 | 6 => ("list", json!({ "path": path })),
        7 => ("tree", json!({ "path": path })),
        8 => ("search", json!({ "query": "canary", "paths": [path] })),
        9 => ("find", json!({ "paths": [path, "*.txt"] })),
        10 => ("create", json!({ "path": path, "content": "changed\n", "overwrite": true })),
        11 | 12 => ("edit", json!({ "path": path, "old": "content", "new": "changed" })),
        13 => ("copy", json!({ "from": path, "to": other, "overwrite": true, "recursive": true })),
        14 => ("move", json!({ "from": path, "to": other, "overwrite": true })),
        _ => ("delete", json!({ "path": path, "recursive": true })),
    };
    match random.below(8) {
        0..=4 => {}
        5 => arguments["base_dir"] = Value::Null,
        _ => arguments["base_dir"] = json!(path_of_a_model(tree, random)),
    }
    (tool, arguments)
}

#[test]
fn nothing_outside_what_both_sides_allow_is_read_or_changed() {
    let seed = seed("roots");
    let (mut served, mut refused, mut closed) = (0, 0, 0);
    for case in 0..CASES {
        let mut random = Random::new(seed.wrapping_add(case as u64));
        let mut tree = Tree::new(&mut random);
        let mut operator: Vec<PathBuf> = (0..=random.below(4)).map(|_| tree.folder(&mut random)).collect();
        operator.sort();
        // Roots inside one another need a policy that says so.
        operator.dedup_by(|inner, outer| inner.starts_with(outer));
        let mut uris = Vec::new();
        let mut host_roots = Vec::new();
        for _ in 0..=random.below(4) {
            let path = tree.named(&mut random);
            if random.one_in(5) {
                uris.push(not_understood(&path, &mut random));
                continue;
            }
            uris.push(spelled(&path, &mut random));
            host_roots.push(path.canonicalize().unwrap_or(path));
        }
        let is_allowed =
            |path: &Path| [&operator, &host_roots].iter().all(|roots| roots.iter().any(|root| path.starts_with(root)));
        let overlap =
            operator.iter().any(|root| host_roots.iter().any(|host| root.starts_with(host) || host.starts_with(root)));
        let told = format!("case {case}: operator {operator:?}, host {uris:?}");

        let mut host = tree.service(&operator, random.pick(&["refuse", "beneath"]));
        let before = tree.state();
        let asked = loop {
            let line = host.line();
            if line["method"] == "roots/list" {
                break line["id"].clone();
            }
        };
        let roots: Vec<Value> = uris.iter().map(|uri| json!({ "uri": uri })).collect();
        host.send_line(&json!({"jsonrpc": "2.0", "id": asked, "result": {"roots": roots}}).to_string());
        // What a canary holds may have been copied by an allowed call: only those outside must never be seen.
        let outside: Vec<usize> =
            (0..tree.canaries.len()).filter(|number| !is_allowed(&tree.canaries[*number])).collect();
        tree.allowed = tree.canaries.iter().filter(|canary| is_allowed(canary)).cloned().collect();
        // Names that a call sent may have been made where that is allowed.
        let mut sent = String::new();
        let check = |sent: &str, request: &str, reply: &str, is_error: bool| {
            for number in &outside {
                let holds = reply.contains(content(*number).trim_end());
                assert!(!holds, "{told}\n{request}\n{reply}");
                let name = format!("name-{number}.txt");
                let shows = !is_error && !sent.contains(&name) && reply.contains(&name);
                assert!(!shows, "{told}\n{request}\n{reply}");
            }
        };
        for _ in 0..CALLS {
            let (tool, arguments) = call_of_a_model(&tree, &mut random);
            let Said { text, is_error, .. } = host.tool(tool, arguments.clone());
            let request = format!("{tool} {arguments}");
            sent.push_str(&request);
            check(&sent, &request, &text, is_error);
            assert!(overlap || text.starts_with("C218 "), "{told}\n{request}\n{text}");
            *(if is_error { &mut refused } else { &mut served }) += 1;
            let uri = spelled(&tree.canaries[random.below(tree.canaries.len())], &mut random);
            let read = host.request("resources/read", json!({ "uri": uri }));
            // The reply repeats the URI; only contents can be what was not to be seen.
            check("", &uri, &format!("{read:?}"), true);
        }
        closed += usize::from(!overlap);
        let mut cursor = overlap.then(|| json!({}));
        while let Some(from) = cursor {
            let page = host.request("resources/list", from).unwrap();
            check(&sent, "resources/list", &page.to_string(), false);
            cursor = page.get("nextCursor").map(|next| json!({ "cursor": next }));
        }
        drop(host);
        let after = tree.state();
        let outside_of = |state: BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
            state.into_iter().filter(|(path, _)| !is_allowed(path)).collect()
        };
        // A host's root that was not there may have been made, with the folders above it.
        let made = |path: &Path| host_roots.iter().any(|root| root.starts_with(path));
        let (before, mut after) = (outside_of(before), outside_of(after));
        after.retain(|path, held| before.contains_key(path) || !(held.is_empty() && made(path)));
        assert_eq!(before, after, "{told}");
    }
    println!("{served} calls served, {refused} refused; {closed} of {CASES} hosts left nothing");
    assert!(served > 50 && refused > 100 && closed > 0, "it has to try both: {served} {refused} {closed}");
}
