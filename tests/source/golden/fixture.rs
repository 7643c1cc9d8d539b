//! The services that the calls are made on, and one call.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use super::{
    support::{Client, Options, TestJail},
    told,
};

/// Small limits, so that small calls meet them.
const POLICY: &str = r#"
durability = "none"
[[root]]
path = "ROOT"
[limits]
max_read_bytes = 2000
max_write_bytes = 2000
max_output_bytes = 200
batch_read_budget_bytes = 300
max_batch_entries = 9
tree_per_folder_limit = 6
tree_default_depth = 3
tree_max_depth = 4
tree_response_budget_bytes = 3000
max_frame_bytes = 600000
call_timeout_max_ms = 60000
[trash]
max_bytes = 1000
"#;

/// `jail` of a call, and what it changes in the policy.
const VARIANTS: [(&str, &str, &str); 9] = [
    ("usual", "", ""),
    ("read-only", "path = \"ROOT\"", "path = \"ROOT\"\nmode = \"ro\""),
    ("hardlinks", "path = \"ROOT\"", "path = \"ROOT\"\nhardlinks = \"refuse\""),
    ("older", "durability", "wire_compat = \"0.2\"\ndurability"),
    ("links", "path = \"ROOT\"", "path = \"ROOT\"\nsymlinks = \"beneath\""),
    ("two roots", "path = \"ROOT\"", "path = \"ROOT/src\"\n[[root]]\npath = \"ROOT/wide\""),
    ("no trash", "[trash]", "[trash]\nenabled = false"),
    (
        "protect",
        "[limits]",
        "[protect]\nread_only_globs = [\"**/wide/03\", \"n/01\", \"guarded\"]\nexcept_globs = [\"guarded/ok\"]\n[limits]",
    ),
    ("tight", "max_batch_entries = 9", "max_batch_entries = 1"),
];

/// Started when the first call wants them.
#[derive(Default)]
pub struct Jails(BTreeMap<String, TestJail>);

impl Jails {
    /// The call of one line, and what the service told. `{"params": …}` calls the file's own function; `method`,
    /// `timeout_ms` and `jail` are optional, ROOT stands for the root; `{"line": …}` is sent as it is, `{"begin": …, "repeat": …, "times": n}` likewise.
    pub fn told(&mut self, function: &str, line: &str) -> String {
        let call: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{function}: {line}: {error}"));
        let variant = call["jail"].as_str().unwrap_or("usual");
        let jail = self.0.entry(variant.to_owned()).or_insert_with(|| start(variant));
        let root = jail.root.to_str().unwrap();
        let call: Value = serde_json::from_str(&line.replace("ROOT", root)).unwrap();
        let mut client = jail.connect();
        match (&call["line"], &call["repeat"]) {
            (Value::String(raw), _) => client.send_line(raw),
            (_, Value::String(part)) => {
                let begin = call["begin"].as_str().unwrap_or_default();
                client.send_line(&(begin.to_owned() + &part.repeat(call["times"].as_u64().unwrap() as usize)));
            }
            _ => send(&mut client, function, &call),
        }
        let reply = client.line().expect("every call is answered");
        let said = told::lines(&reply).join("\n").replace(root, "ROOT");
        format!("{line}\n{said}\n")
    }
}

fn send(client: &mut Client, function: &str, call: &Value) {
    let method = call["method"].as_str().map_or_else(|| function.replace('.', "::"), Into::into);
    let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": call["params"]});
    if let Some(timeout_ms) = call.get("timeout_ms") {
        message["timeout_ms"] = timeout_ms.clone();
    }
    client.send_line(&message.to_string());
}

fn start(variant: &str) -> TestJail {
    let change = VARIANTS.iter().find(|(name, ..)| *name == variant);
    let (_, from, to) = change.unwrap_or_else(|| panic!("no jail is called {variant}"));
    let policy = if from.is_empty() { POLICY.to_owned() } else { POLICY.replace(from, to) };
    TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, plant)
}

fn plant(root: &Path) {
    let write = |name: &str, content: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("a.txt", b"one\ntwo\nthree\n");
    write("b.txt", b"two words\r\nand two more\r\n");
    write("lines.txt", "a line of text\n".repeat(30).as_bytes());
    write("long.txt", "a line of text\n".repeat(200).as_bytes());
    write("one-line.txt", &[b'x'; 1500]);
    write("endless.txt", &[b'x'; 2500]);
    write("latin.txt", b"caf\xe9\n");
    write("src/main.rs", b"fn main() {\n    println!(\"hello\");\n}\n");
    write("src/a/b/c/d/e/f.rs", b"\n");
    write("node_modules/m/index.js", b"\n");
    write(".env", b"TOKEN=1\n");
    write("app/.env", b"TOKEN=1\n");
    write("secrets/key", b"k\n");
    (0..12).for_each(|n| write(&format!("wide/{n:02}"), b""));
    (0..60).for_each(|n| write(&format!("many/{:060}", n), b""));
    fs::create_dir(root.join("empty")).unwrap();
    symlink("a.txt", root.join("link")).unwrap();
    symlink("src", root.join("linked")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    fs::hard_link(root.join("a.txt"), root.join("hard.txt")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    fs::create_dir(root.join("special")).unwrap();
    for name in ["fifo", "special/fifo", "src/fifo"] {
        rustix::fs::mknodat(rustix::fs::CWD, root.join(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
}
