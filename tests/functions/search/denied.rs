//! What is denied leaves no trace: a tree with denied files and the same tree without them give the same replies to every
//! question, also to those that name what is denied.

use std::{fs, path::Path};

use crate::support::{Client, Options, TestJail, Value, json};

const DENIED: &[&str] = &[
    ".env",
    "a/.env",
    "a/.ENV.local",
    "b/server.pem",
    "b/ID.KEY",
    "secrets/password.txt",
    "a/secrets/deep/token",
    "Secrets/x",
    "zz.pem",
    ".envrc",
    "a/.NPMRC",
    ".aws/credentials",
    "b/id_rsa.pub",
    "b/terraform.tfstate.backup",
    ".ssh/config",
    ".env.d/.env.example",
    "secrets/.env.example",
];

/// The same in both, with folders that hold nothing but what is denied.
fn plant(root: &Path) {
    for name in [
        "a/one.txt",
        "a/two.rs",
        "b/three.txt",
        ".envx",
        "a/key",
        "z/password.txt",
        "secretsx/y",
        ".env.example",
        "a/.ENV.sample",
        ".aws/config",
        "a/credentials",
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "password token needle\nsecond line\n".repeat(3)).unwrap();
    }
    ["secrets", "a/secrets/deep", "Secrets", ".env.d", ".ssh"]
        .iter()
        .for_each(|folder| fs::create_dir_all(root.join(folder)).unwrap());
}

fn plant_denied(root: &Path) {
    plant(root);
    // Content that every question would find, and a name that rules could hide others by.
    DENIED.iter().for_each(|name| fs::write(root.join(name), "password token needle\n*.txt\n").unwrap());
}

fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = Vec::new();
    for query in ["password", "token", "needle", "env", "pem", "secrets", "KEY", "second", "e"] {
        for more in [
            json!({}),
            json!({"ignore_case": true}),
            json!({"regex": true, "multiline": true}),
            json!({"search_content": false}),
            json!({"files_only": true}),
            json!({"count_only": true}),
            json!({"search_content": false, "count_only": true}),
            json!({"gitignore": true}),
            json!({"use_default_excludes": false, "context_lines_after": 2}),
            json!({"include_globs": ["**/.env", "**/*.pem", "**/secrets/**", "**/*.txt"]}),
            json!({"exclude_globs": ["**/*.txt"]}),
            json!({"path": "a"}),
            json!({"path": "secrets"}),
            json!({"path": "a/secrets/deep"}),
            json!({"path": ".env"}),
            json!({"paths": ["**/.env*", "b/*.pem", "a/secrets/**", "z"]}),
            json!({"paths": ["secrets/password.txt", "z"]}),
            json!({"paths": [".env"]}),
            json!({"paths": ["b/{server,x}.pem"]}),
            json!({"paths": [{"path": "a/.env", "lines": [[1, 1]]}, "a/one.txt"]}),
        ] {
            let mut request = more;
            request["query"] = json!(query);
            requests.push(("coder::search", request));
        }
    }
    for paths in [
        json!(["."]),
        json!([".env"]),
        json!(["**/.env*"]),
        json!(["*.pem", "*.key"]),
        json!(["secrets"]),
        json!(["secrets/*"]),
        json!(["a/secrets/deep/token"]),
        json!(["secrets/password.txt", "a"]),
        json!([".env, a"]),
        json!([".env a"]),
        json!(["{.env,a}"]),
        json!(["**/[.]env"]),
        json!(["Secrets/**"]),
        json!(["b/ID.KEY"]),
        json!(["b/id.key"]),
    ] {
        for kind in ["any", "file", "dir"] {
            requests.push(("coder::find", json!({"paths": paths, "kind": kind, "sort": "path", "render": "grouped", "use_default_excludes": false})));
            requests.push((
                "coder::find",
                json!({"paths": paths, "kind": kind, "sort": "path", "gitignore": false, "min_size": 1}),
            ));
        }
    }
    requests
}

/// All pages of a reply, without what differs between two places: where they lie, and when they were made.
fn told(client: &mut Client, root: &Path, method: &str, mut request: Value, page: u64) -> Vec<String> {
    request[if method == "coder::find" { "limit" } else { "max_matches" }] = json!(page);
    let mut pages = Vec::new();
    for _ in 0..200 {
        let mut reply = match client.call(method, request.clone()) {
            Ok(reply) => reply,
            Err(failure) => {
                pages.push(format!("{} {}", failure.code(), failure.message()).replace(root.to_str().unwrap(), "ROOT"));
                return pages;
            }
        };
        let cursor = reply["next_cursor"].take();
        for found in reply["files"].as_array_mut().into_iter().flatten() {
            found["mtime"].take();
            // Of a folder the kernel says how much room its entries take, which is no business of a search.
            if found["kind"] == "dir" {
                found["size"].take();
            }
        }
        pages.push(reply.to_string().replace(root.to_str().unwrap(), "ROOT"));
        if cursor.is_null() {
            return pages;
        }
        request["cursor"] = cursor;
    }
    panic!("pages without end: {request}");
}

#[test]
fn nobody_can_tell_whether_denied_files_are_there() {
    let with = TestJail::with_tree(Options { in_memory: true, ..Options::default() }, plant_denied);
    let without = TestJail::with_tree(Options { in_memory: true, ..Options::default() }, plant);
    let (mut first, mut second) = (with.connect(), without.connect());
    for (method, request) in requests() {
        for page in [1, 3, 1000] {
            let there = told(&mut first, &with.root, method, request.clone(), page);
            let absent = told(&mut second, &without.root, method, request.clone(), page);
            assert_eq!(there, absent, "{method} {request}");
        }
    }
}

#[test]
fn a_denied_ignore_file_hides_nothing() {
    let policy =
        "[[root]]\npath = \"ROOT\"\n[deny]\nnon_accessible_globs = [\"**/.gitignore\", \"**/.ignore\", \".git/**\"]\n";
    let jail = TestJail::with_policy(policy);
    jail.write(".gitignore", "x\n");
    jail.write("d/.ignore", "x\n");
    jail.write(".git/info/exclude", "x\n");
    jail.write("x", "needle\n");
    jail.write("d/x", "needle\n");
    let reply = jail.call("coder::search", json!({"query": "needle", "gitignore": true})).unwrap();
    assert_eq!(reply["content_matches"].as_array().unwrap().len(), 2, "{reply}");
    let reply = jail.call("coder::find", json!({"paths": ["x"]})).unwrap();
    assert_eq!(reply["file_count"], 1, "{reply}");
}

#[test]
fn an_exception_is_listed_found_searched_read_and_changed_like_any_name() {
    for (policy, hidden) in [("", "show"), ("[deny]\nlist_denied = \"hide\"\n", "hide")] {
        let jail = TestJail::with_policy(&format!("[[root]]\npath = \"ROOT\"\n{policy}"));
        for name in [".env", ".env.example", "d/.ENV.Template", "secrets/.env.example", ".env.d/.env.example"] {
            jail.write(name, "needle\n");
        }
        let mut client = jail.connect();
        let mut ask = |method: &str, params: Value| client.call(method, params).unwrap();
        let listed = ask("coder::list-folder", json!({"path": "."}));
        let shown = |listed: &Value, name: &str| {
            let entries = listed["entries"].as_array().unwrap().clone();
            entries.into_iter().find(|entry| entry["name"] == name)
        };
        let entry = shown(&listed, ".env.example").expect("listed");
        assert!(entry.get("non_accessible").is_none_or(|flag| flag == false) && entry["size"] == 7, "{entry}");
        assert_eq!(shown(&listed, ".env").is_some(), hidden == "show", "{listed}");
        let inner = ask("coder::list-folder", json!({"path": "secrets"}));
        assert_eq!(shown(&inner, ".env.example").is_some(), hidden == "show", "{inner}");
        let tree = ask("coder::tree", json!({"path": "."})).to_string();
        assert!(tree.contains(".env.example") && tree.contains(".ENV.Template"), "{tree}");
        let found = ask("coder::search", json!({"query": "needle"}));
        let path = |one: &Value| Path::new(one["path"].as_str().unwrap()).strip_prefix(&jail.root).unwrap().to_owned();
        let paths: Vec<_> = found["content_matches"].as_array().unwrap().iter().map(path).collect();
        assert_eq!(paths, [".env.example", "d/.ENV.Template"].map(std::path::PathBuf::from), "{found}");
        let found = ask("coder::find", json!({"paths": ["**/.env*"], "sort": "path"}));
        assert_eq!(found["file_count"], 1, "{found}");
        let append = json!({"files": [{"path": ".env.example", "ops": [{"op": "append", "content": "x"}]}]});
        assert_eq!(ask("coder::update-file", append)["results"][0]["success"], true);
        assert!(jail.read(".env.example").is_ok());
        for denied in [".env", "secrets/.env.example", ".env.d/.env.example"] {
            assert_eq!(jail.read(denied).unwrap_err().code(), "C211", "{denied}");
        }
        // A folder that holds an exception and nothing denied can be moved; one with a denied name cannot.
        let moved = |to: &str, from: &str| json!({"files": [{"from": from, "to": to}]});
        assert_eq!(ask("coder::move", moved("e", "d"))["results"][0]["success"], true);
        let inside = ask("coder::move", moved("secrets/e", "e"));
        assert_eq!(inside["results"][0]["error"]["code"], "C211", "{inside}");
    }
}
