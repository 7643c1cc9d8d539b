//! `stockade policy` and the service agree: what is checked as good starts, and what is explained is what is answered.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use support::{Options, TestJail, Value, bin_dir, json, process::runs_as_root};

fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(bin_dir(false).join("stockade"));
    let output = command.args(arguments).stdin(Stdio::null()).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A policy file in a folder with `root/`.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(TestJail::directory());
        fs::create_dir(ground.path("root")).unwrap();
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `DIR` is this folder.
    fn policy(&self, text: &str) -> String {
        let file = self.path("policy.toml");
        fs::write(&file, text.replace("DIR", self.0.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn check(&self, text: &str) -> (i32, String, String) {
        run(&["policy", "check", &self.policy(text)])
    }

    fn checked(&self, text: &str) -> Value {
        let (code, out, err) = run(&["policy", "check", "--json", &self.policy(text)]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        serde_json::from_str(&out).unwrap()
    }
}

const ROOT: &str = "[[root]]\npath = \"DIR/root\"\n";

fn shipped() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let policies = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    policies.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn shipped_policies_are_good_as_they_are() {
    assert!(shipped().len() >= 3);
    for (path, _) in shipped() {
        let (code, out, err) = run(&["policy", "check", "--offline", "--json", path.to_str().unwrap()]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let checked: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&checked["valid"], &checked["warnings"]), (&json!(true), &json!([])), "{checked}");
    }
}

#[test]
fn a_check_by_root_tells_what_a_start_by_root_refuses() {
    if !runs_as_root("a_check_by_root_tells_what_a_start_by_root_refuses") {
        return;
    }
    let ground = Ground::new();
    let give = |name: &str, uid: u32| std::os::unix::fs::chown(ground.path(name), Some(uid), Some(uid)).unwrap();
    fs::create_dir_all(ground.path("home/project")).unwrap();
    give("home", 4242);
    let policy = "[[root]]\npath = \"DIR/home/project\"\n";
    let (code, _, err) = ground.check(policy);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("policy.toml:1:1") && err.contains("home belongs to uid 4242"), "{err}");
    let (code, out, err) = ground.check(&format!("run_as = \"user:root\"\n{policy}"));
    assert_eq!(code, 0, "{out}{err}");
    give("policy.toml", 4242);
    let file = ground.path("policy.toml");
    let (code, _, err) = run(&["policy", "check", file.to_str().unwrap()]);
    assert!(code == 1 && err.contains("chown root"), "{err}");
    let (code, _, err) = run(&["policy", "check", "--offline", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn shipped_policies_are_good_where_what_they_name_is_there() {
    let ground = Ground::new();
    for folder in ["srv/project", "srv/agents/work", "srv/checkout", "log"] {
        fs::create_dir_all(ground.path(folder)).unwrap();
    }
    for (path, text) in shipped() {
        let text = text
            .replace("/srv/", "DIR/srv/")
            .replace("/var/log/stockade/", "DIR/log/")
            .replace("user:stockade", "user:daemon")
            .replace("group = \"stockade\"", "group = \"daemon\"")
            .replace("\"agents\"", "\"daemon\"")
            .replace("\"reviewer\"", "\"nobody\"");
        let (code, out, err) = ground.check(&text);
        assert_eq!(code, 0, "{}: {out}{err}", path.display());
        assert!(out.contains(": good\n") && out.contains("srv/"), "{out}");
    }
}

#[test]
fn a_check_tells_what_a_service_would_run_under() {
    let ground = Ground::new();
    std::os::unix::fs::symlink(ground.path("root"), ground.path("link")).unwrap();
    fs::create_dir(ground.path("docs")).unwrap();
    let text = "[[root]]\npath = \"DIR/link\"\nsymlinks = \"beneath\"\n[[root]]\npath = \"DIR/docs\"\nmode = \"ro\"\n\
                [limits]\nmax_read_bytes = 1048576\ncall_timeout_ms = 30000\n[[peer]]\nuid = 4242\nroots = [\"DIR/docs\"]\n\
                [audit]\nlevel = \"denials\"\n";
    let checked = ground.checked(text);
    let (root, docs) = (ground.path("root"), ground.path("docs"));
    assert_eq!(checked["roots"][0]["path"], root.to_str().unwrap(), "the real one");
    assert_eq!(checked["roots"][0]["given"], ground.path("link").to_str().unwrap());
    assert_eq!((&checked["roots"][0]["mode"], &checked["roots"][0]["symlinks"]), (&json!("rw"), &json!("beneath")));
    assert_eq!(checked["peers"], json!([{"who": "uid 4242", "roots": [[docs.to_str().unwrap(), "ro"]]}]));
    assert_eq!(checked["limits"], json!({"max_read_bytes": {"value": 1048576, "default": 10485760}}));
    assert_eq!(checked["audit"], json!({"path": "stderr", "level": "denials"}));
    assert_eq!(checked["warnings"], json!([]));
    // The same in words.
    let (code, out, _) = ground.check(text);
    assert_eq!(code, 0);
    for words in [
        "rw  DIR/root  (primary; written as DIR/link; follows links that stay inside)",
        "ro  DIR/docs",
        "uid 4242: ro DIR/docs",
        "max_read_bytes  1.0MiB  (default 10MiB)",
        "stderr, level denials",
    ] {
        let words = words.replace("DIR", ground.0.path().to_str().unwrap());
        assert!(out.contains(&words), "{words}\n{out}");
    }
    assert!(!out.contains('\x1b') && !out.contains("call_timeout_ms") && !out.contains("Warnings"), "{out}");
}

#[test]
fn what_stops_a_service_stops_a_check_with_one_line_and_a_hint() {
    let ground = Ground::new();
    for (text, place, words) in [
        ("[[root]]\npath = \"DIR/root\"\nmod = \"ro\"\n", ":3:1: ", "did you mean `mode`?"),
        ("[[root]]\npath = \"DIR/gone\"\n", ":1:1: ", "does not exist"),
        ("confinement = \"userspace\"\n", ": ", "no root is named"),
        ("[[root]]\npath = \"DIR/root\"\n[[peer]]\nuser = \"no-such-user\"\n", ":3:1: ", "no user"),
        ("run_as = \"user:no-such-user\"\n[[root]]\npath = \"DIR/root\"\n", ": ", "no such user"),
        ("[[root]]\npath = \"DIR/root\"\n[socket]\ngroup = \"no-such-group\"\n", ": ", "no such group"),
        ("[[root]]\npath = \"DIR/root\"\n[audit]\npath = \"DIR/gone/a\"\n", ": ", "its folder is not there"),
        ("[limits\n", ":1:", ""),
    ] {
        let (code, out, err) = ground.check(text);
        assert_eq!((code, out.as_str()), (1, ""), "{text}: {err}");
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines.len(), 2, "{err}");
        assert!(lines[0].starts_with("stockade: ") && lines[1].starts_with("hint: "), "{err}");
        assert!(lines[0].contains(&format!("policy.toml{place}")) && lines[0].contains(words), "{err}");
        let (code, out, err) = run(&["policy", "check", "--json", &ground.policy(text)]);
        let wrong: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, err.as_str(), &wrong["valid"]), (1, "", &json!(false)));
        assert!(lines[0].ends_with(wrong["message"].as_str().unwrap()), "{wrong}");
    }
    for arguments in [
        &["policy"][..],
        &["policy", "check"],
        &["policy", "explain", "x"],
        &["policy", "check", "/nonexistent/policy.toml"],
        &["policy", "frobnicate"],
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
    }
    let user = run(&["policy", "explain", "--as", "no-such-user", &ground.policy(ROOT), "x"]);
    assert_eq!(user.0, 2, "{}", user.2);
}

#[test]
fn globs_that_match_nothing_and_other_doubts_are_warnings() {
    let ground = Ground::new();
    fs::create_dir_all(ground.path("root/Secrets")).unwrap();
    let globs = "[deny]\nnon_accessible_globs = [\"secrets/**\", \"sercets/**\", \"**/.env\", \"\u{202e}x\"]\n";
    let checked = ground.checked(&format!("{ROOT}{globs}"));
    let warnings: Vec<&str> = checked["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("\"sercets/**\" matches nothing"), "{warnings:?}");
    let (code, out, _) = ground.check(&format!("{ROOT}{globs}"));
    assert!(code == 0 && out.contains("sercets") && !out.contains('\u{202e}'), "{out}");
    for (text, words) in [
        (format!("confinement = \"userspace\"\n{ROOT}"), "only our own checks hold"),
        (format!("min_landlock_abi = 2\n{ROOT}"), "could empty files"),
        (format!("{ROOT}[deny]\nnon_accessible_globs = []\n"), "every name in the roots can be read"),
        (format!("{ROOT}[socket]\ngroup = \"daemon\"\n"), "only the service's own user is served"),
        (format!("{ROOT}[[root]]\npath = \"DIR/gone\"\noptional = true\n"), "left out"),
    ] {
        let checked = ground.checked(&text);
        assert!(checked["warnings"].to_string().contains(words), "{words}: {checked}");
    }
}

/// What a client is answered: `"ok"`, or a code. Folders are listed, everything else is read.
fn answered(jail: &TestJail, path: &str) -> String {
    let function = if jail.root.join(path).is_dir() { "coder::list-folder" } else { "coder::read-file" };
    jail.call(function, json!({"path": path})).map_or_else(|failure| failure.code(), |_| "ok".into())
}

/// The same for a whole new content.
fn written(jail: &TestJail, path: &str) -> String {
    let files = json!([{"path": path, "content": "new\n", "overwrite": true}]);
    let reply = jail.call("coder::create-file", json!({"files": files}));
    let of_entry = |result: Value| result["results"][0]["error"]["code"].as_str().unwrap_or("ok").to_owned();
    reply.map_or_else(|failure| failure.code(), of_entry)
}

#[test]
fn what_is_explained_is_what_is_answered() {
    for symlinks in ["refuse", "beneath"] {
        let policy = format!(
            "[[root]]\npath = \"ROOT\"\nsymlinks = \"{symlinks}\"\nhardlinks = \"refuse\"\n\
             [deny]\nnon_accessible_globs = [\"**/.env\", \"geheim/**\"]\n[audit]\npath = \"ROOT/audit.jsonl\"\n"
        );
        let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, |root| {
            for folder in ["src", "geheim", "locked", "unreadable-folder"] {
                fs::create_dir(root.join(folder)).unwrap();
            }
            for file in ["a.txt", "src/b.txt", ".env", "geheim/x", "locked/x", "unreadable", "first"] {
                fs::write(root.join(file), "x\n").unwrap();
            }
            fs::hard_link(root.join("first"), root.join("second")).unwrap();
            for (name, target) in [
                ("to-file", "a.txt"),
                ("to-folder", "src"),
                ("to-denied", ".env"),
                ("out", "../outside/secret.txt"),
                ("dangling", "nowhere"),
                ("loop", "loop"),
            ] {
                std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            }
            drop(UnixListener::bind(root.join("socket")).unwrap());
            for (name, mode) in [("locked", 0o600), ("unreadable", 0o200), ("unreadable-folder", 0o300)] {
                fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        });
        let file = jail.dir.path().join("policy.toml");
        let absolute = jail.root.join("src/b.txt");
        for path in [
            "a.txt",
            "./src/../a.txt",
            "src",
            "src/b.txt",
            absolute.to_str().unwrap(),
            "",
            ".",
            "no/such",
            "nothing",
            ".env",
            "src/.ENV",
            "geheim",
            "geheim/x",
            "geheim/none",
            ".stockade",
            ".stockade/x",
            "audit.jsonl",
            "audit.jsonl.1",
            "to-file",
            "to-folder",
            "to-folder/b.txt",
            "to-denied",
            "out",
            "out/x",
            "dangling",
            "loop",
            "loop/x",
            "second",
            "socket",
            "locked",
            "locked/x",
            "unreadable",
            "unreadable-folder",
            "a.txt/x",
            "..",
            "../x",
            "/etc/passwd",
            "/",
            "nul\u{1}",
            &"x".repeat(256),
            &"x/".repeat(2100),
        ] {
            let (code, out, err) = run(&["policy", "explain", "--json", file.to_str().unwrap(), path]);
            assert_eq!(code, 0, "{path}: {err}");
            let explained: Value = serde_json::from_str(&out).unwrap();
            let read = &explained["access"][0]["read"];
            let expected = read["code"].as_str().unwrap_or("ok");
            assert_eq!(answered(&jail, path), expected, "{symlinks}: {path}: {explained}");
            assert_eq!(read["allowed"], expected == "ok");
            assert!(!read["rule"].as_str().unwrap().is_empty() && !read["why"].as_str().unwrap().is_empty());
            if !jail.root.join(path).is_dir() {
                let write = &explained["access"][0]["write"];
                assert_eq!(
                    written(&jail, path),
                    write["code"].as_str().unwrap_or("ok"),
                    "{symlinks}: {path}: {explained}"
                );
            }
        }
        let (_, out, _) = run(&["policy", "explain", file.to_str().unwrap(), "to-denied"]);
        assert_eq!(out.contains("/.env; \"**/.env\""), symlinks == "beneath", "where it leads, and the rule: {out}");
        jail.assert_intact();
    }
}

#[test]
fn an_explanation_names_the_rule_for_reading_and_for_writing() {
    let ground = Ground::new();
    fs::create_dir(ground.path("docs")).unwrap();
    fs::write(ground.path("root/.env"), "").unwrap();
    fs::write(ground.path("docs/a.md"), "").unwrap();
    std::os::unix::fs::symlink("/etc", ground.path("root/link")).unwrap();
    let file = ground.policy(&format!(
        "{ROOT}[[root]]\npath = \"DIR/docs\"\nmode = \"ro\"\n[[peer]]\nuid = 4242\nmode = \"ro\"\n[[peer]]\ngid = 0\n"
    ));
    let explained = |arguments: &[&str]| -> Value {
        let (code, out, err) = run(&[&["policy", "explain", "--json", &file][..], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    };
    let docs = ground.path("docs/a.md");
    for (path, read, write) in [
        ("new.txt", ("C211", "disk"), ("", "root mode")),
        (".env", ("C211", "deny glob"), ("C211", "deny glob")),
        (".stockade/x", ("C211", "own state"), ("C211", "own state")),
        (".git/config", ("C211", "disk"), ("C221", "protected")),
        (".env.example", ("C211", "disk"), ("", "root mode")),
        ("link/passwd", ("C215", "symlinks"), ("C215", "symlinks")),
        ("../x", ("C215", "roots"), ("C215", "roots")),
        (docs.to_str().unwrap(), ("", "root"), ("C221", "root mode")),
    ] {
        let explained = explained(&[path]);
        let access = explained["access"].as_array().unwrap();
        assert_eq!((access.len(), &access[1]["who"]), (2, &json!("gid 0")));
        for (want, (code, rule)) in [("read", read), ("write", write)] {
            let verdict = &access[1][want];
            assert_eq!((verdict["code"].as_str().unwrap_or(""), &verdict["rule"]), (code, &json!(rule)), "{path}");
        }
    }
    assert_eq!(explained(&[".env"])["access"][1]["read"]["why"], "\"**/.env\"");
    let protected = explained(&["sub/.vscode/x"]);
    assert_eq!(protected["access"][1]["write"]["why"], "by **/.vscode (readable, not writable)");
    let (_, text, _) = run(&["policy", "explain", &file, ".git/config"]);
    assert!(text.contains("C221 protected: by **/.git (readable, not writable)\n"), "{text}");
    let (_, text, _) = run(&["policy", "check", &file]);
    assert!(text.contains("Protected names (readable, not writable)\n  **/.git  **/.githooks"), "{text}");
    let narrowed = explained(&["--as", "4242", "new.txt"]);
    assert_eq!(narrowed["access"][0]["write"]["rule"], "peer mode");
    let stranger = explained(&["--as", "4243", "new.txt"]);
    assert_eq!(
        (&stranger["access"][0]["read"]["rule"], stranger["access"].as_array().unwrap().len()),
        (&json!("peer"), 1)
    );
    let root = explained(&["--as", "root", "new.txt"]);
    assert_eq!(root["access"][0]["who"], "root (uid 0)");
    assert_eq!(root["access"][0]["write"]["allowed"], true, "by its group");
    let (code, out, _) = run(&["policy", "explain", &file, "link/\u{1b}[31mx"]);
    assert!(code == 0 && out.contains("C215 symlinks: ") && !out.contains('\u{1b}'), "{out}");
}

#[test]
fn an_explanation_sees_what_the_service_s_identity_may_not() {
    if !runs_as_root("an_explanation_sees_what_the_service_s_identity_may_not") {
        return;
    }
    let ground = Ground::new();
    fs::create_dir(ground.path("root/private")).unwrap();
    fs::write(ground.path("root/private/x"), "").unwrap();
    fs::write(ground.path("root/mine"), "").unwrap();
    fs::set_permissions(ground.path("root/private"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(ground.path("root/mine"), fs::Permissions::from_mode(0o600)).unwrap();
    let file = ground.policy(&format!("run_as = \"user:nobody\"\n{ROOT}"));
    for (path, code) in [("private/x", "C211"), ("mine", "C216"), ("private", "C216")] {
        let (_, out, _) = run(&["policy", "explain", "--json", &file, path]);
        let explained: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(explained["identity"]["because"], "run_as = \"user:nobody\"");
        let read = &explained["access"][0]["read"];
        assert_eq!((&read["code"], &read["rule"]), (&json!(code), &json!("identity")), "{path}: {explained}");
    }
}
