//! Names that want to be more than names.

use std::{fs, os::unix::ffi::OsStrExt};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    Options, Value, audit_of, make_log_folder, of_connection, policy,
    support::{TestJail, json},
};

/// Each is one file name: no slash, no NUL, at most 255 bytes.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "a\nb",
        "a\rb",
        "\n",
        "\"",
        "\\",
        "\\n",
        "\\\"",
        "\",\"uid\":0,\"x\":\"",
        "\"}\n{\"event\":\"accepted\",\"uid\":0,\"connection\":1}\n{\"x\":\"",
        "{\"event\":\"decided\",\"decision\":\"granted\"}",
        "x\",\"decision\":\"granted\",\"path\":\"y",
        "reported_function\":\"coder::info",
        "\u{1b}[2J\u{1b}[1;1H",
        "\u{1b}]0;owned\u{7}",
        "\u{1b}]8;;http:\u{7}",
        "\u{9b}31m",
        "\u{90}tmux;\u{9c}",
        "\u{7f}\u{8}\u{8}",
        "\u{b}\u{c}\u{85}\u{2028}\u{2029}",
        "\u{202e}txt.exe\u{202c}",
        "\u{feff}",
        "\u{fffd}",
        "\u{10ffff}\u{e0001}",
        "%0a%00",
        "$(id)`id`",
        "<!--]]>",
        " ",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.extend([
        b"\xff".to_vec(),
        b"\xff\n\"".to_vec(),
        b"\xc0\x8a".to_vec(),
        b"\xed\xa0\x80".to_vec(),
        b"a\xe2\x80".to_vec(),
        b"\xf4\x90\x80\x80\x1b".to_vec(),
        [b'\n'; 255].to_vec(),
        [b'"'; 255].to_vec(),
        [0xff; 255].to_vec(),
        [b'\\'; 255].to_vec(),
    ]);
    names
}

/// What a record says its path is.
fn path_of(record: &Value) -> (Vec<u8>, bool) {
    let field = |name: &str| record.get(name).or_else(|| record.get(format!("reported_{name}")));
    let text = field("path").unwrap().as_str().unwrap();
    let bytes = field("path_bytes").map(|bytes| STANDARD.decode(bytes.as_str().unwrap()).unwrap());
    (bytes.unwrap_or_else(|| text.as_bytes().to_vec()), field("path_cut").is_some())
}

/// A call, and what its one record has to say.
struct Case {
    params: Value,
    event: &'static str,
    path: Vec<u8>,
}

fn cases(name: &[u8]) -> Vec<Case> {
    let joined = |before: &[u8]| [before, name].concat();
    let by_bytes = |before: &[u8]| json!({"path_bytes": STANDARD.encode(joined(before))});
    let mut cases = vec![
        // There is such a file: granted. A link on the way: refused by the supervisor. A climb, a denied name: reported.
        Case { params: by_bytes(b""), event: "granted", path: name.into() },
        Case { params: by_bytes(b"link/"), event: "escape", path: joined(b"link/") },
        Case { params: by_bytes(b"no/such/"), event: "missing", path: joined(b"no/such/") },
        Case { params: by_bytes(b"../"), event: "C215", path: joined(b"../") },
        Case { params: by_bytes(b"secrets/"), event: "C211", path: joined(b"secrets/") },
        Case { params: by_bytes(b"/outside/"), event: "C215", path: joined(b"/outside/") },
    ];
    if let Ok(text) = std::str::from_utf8(name) {
        cases.push(Case { params: json!({"path": text}), event: "granted", path: name.into() });
        let params = json!({"path": "../x", "base_dir": format!("sub/{text}")});
        cases.push(Case { params, event: "C218", path: format!("sub/{text}/../x").into_bytes() });
    }
    cases
}

/// A few records of many names are ours: who was refused what must be in exactly one line each, whatever is in it.
#[test]
fn no_name_forges_or_splits_a_record() {
    let names = names();
    let evil_root = "[[root]]\npath = \"ROOT/../ro\\\"ot\\n{\\u001b\\u2028}\"\n";
    let jail = TestJail::with_tree(policy("all", evil_root), |root| {
        make_log_folder(root);
        let evil_root = root.parent().unwrap().join("ro\"ot\n{\u{1b}\u{2028}}");
        fs::create_dir(&evil_root).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("link")).unwrap();
        for name in &names {
            fs::write(root.join(std::ffi::OsStr::from_bytes(name)), "content\n").unwrap();
        }
    });
    let mut client = jail.connect();
    let cases: Vec<Case> = names.iter().flat_map(|name| cases(name)).collect();
    for case in &cases {
        let _ = client.call("coder::read-file", case.params.clone());
    }
    let evil_root = jail.dir.path().join("ro\"ot\n{\u{1b}\u{2028}}");
    client.call("coder::list-folder", json!({"path": evil_root.to_str().unwrap()})).unwrap();
    let records = of_connection(&jail, client);
    assert_eq!(records.len(), cases.len() + 3, "one record for each call, for the beginning and for the end");
    assert_eq!(records[0]["event"], "accepted");
    for (case, record) in cases.iter().zip(&records[1..]) {
        let decided = record.get("decision").or(record.get("reported_code")).unwrap();
        assert_eq!(decided, case.event, "{}: {record}", case.params);
        let (path, was_cut) = path_of(record);
        assert_eq!(path.escape_ascii().to_string(), case.path.escape_ascii().to_string(), "{}", case.params);
        assert!(!was_cut, "{record}");
    }
    assert_eq!(records[cases.len() + 1]["root"], evil_root.to_str().unwrap());
    assert_eq!(records[cases.len() + 2]["event"], "ended");
    assert_untouched_by_names(&jail);
}

/// The file as bytes: printable ASCII, lines that a pipe takes whole, and no voice but the supervisor's.
fn assert_untouched_by_names(jail: &TestJail) {
    let bytes = fs::read(jail.dir.path().join("log/audit.jsonl")).unwrap();
    assert!(bytes.iter().all(|byte| *byte == b'\n' || (b' '..=b'~').contains(byte)));
    assert!(bytes.split(|byte| *byte == b'\n').all(|line| line.len() < 4096));
    let own = rustix::process::geteuid().as_raw();
    for record in audit_of(jail) {
        assert_eq!((&record["uid"], &record["pid"]), (&json!(own), &json!(std::process::id())), "{record}");
    }
}

#[test]
fn names_longer_than_a_record_are_cut_and_say_so() {
    let jail = TestJail::with_tree(policy("denials", ""), make_log_folder);
    let mut client = jail.connect();
    let longest = |letter: &str| format!("../{}", format!("{}/", letter.repeat(200 / letter.len())).repeat(20));
    for letter in ["x", "\"", "\n", "\u{1}", "é", "😀"] {
        assert_eq!(client.call("coder::read-file", json!({"path": longest(letter)})).unwrap_err().code(), "C215");
    }
    let raw = [b"../".to_vec(), vec![b"\xff".repeat(200); 20].join(&b'/')].concat();
    let params = json!({"path_bytes": STANDARD.encode(&raw)});
    assert_eq!(client.call("coder::read-file", params).unwrap_err().code(), "C215");
    super::eventually("all are told", || audit_of(&jail).len() == 7);
    for (record, letter) in audit_of(&jail).iter().zip(["x", "\"", "\n", "\u{1}", "é", "😀"]) {
        let (path, was_cut) = path_of(record);
        assert!(was_cut && path.len() > 300, "{record}");
        assert!(longest(letter).as_bytes().starts_with(&path), "{record}");
    }
    let (path, was_cut) = path_of(&audit_of(&jail)[6]);
    assert!(was_cut && path.len() > 300 && raw.starts_with(&path));
    assert_untouched_by_names(&jail);
}

/// Requests that fail before they name anything are no accesses; what they say is nowhere.
#[test]
fn what_is_no_access_is_no_record() {
    let options: Options = policy("all", "");
    let jail = TestJail::with_tree(options, make_log_folder);
    let mut client = jail.connect();
    client.send_line("{\"event\":\"accepted\"}");
    client.send_line("\u{1b}[2J");
    for path in ["nul\0", &"x".repeat(300), &"x/".repeat(4000)] {
        let _ = client.call("coder::read-file", json!({"path": path}));
    }
    let _ = client.call("coder::no-such-function\n{}", json!({"path": "x"}));
    let records = of_connection(&jail, client);
    assert_eq!(super::events(&records), ["accepted", "ended closed"]);
}
