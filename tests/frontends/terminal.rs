//! What a person sees: the commands in a real terminal of 80 and of 200 columns, as its grid shows them, colours as marks.
//! `UPDATE_TERMINAL=1 cargo test --test frontends terminal` writes the pictures anew; look at them before you keep them.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use support::{NO_STATE, Options, TestJail, bin_dir, terminal::Terminal};

const WIDTHS: [u16; 2] = [80, 200];
/// 2026-01-02 03:04:05 UTC, in seconds since 1970.
const MODIFIED: u64 = 1_767_323_045;

struct Picture {
    name: &'static str,
    arguments: &'static [&'static str],
    code: i32,
    kept: [&'static str; 2],
}

macro_rules! pictures {
    ($($name:literal: $arguments:expr => $code:literal;)*) => {
        &[$(Picture {
            name: $name,
            arguments: &$arguments,
            code: $code,
            kept: [
                include_str!(concat!("terminal/", $name, ".80.txt")),
                include_str!(concat!("terminal/", $name, ".200.txt")),
            ],
        }),*]
    };
}

const PICTURES: &[Picture] = pictures! {
    "help": ["help"] => 0;
    "help-edit": ["help", "edit"] => 0;
    "ls": ["ls"] => 0;
    "ls-long": ["ls", "-lh", "src"] => 0;
    "tree": ["tree"] => 0;
    "search": ["search", "hello", "-C", "1"] => 0;
    "find": ["find", "*.rs", "--long"] => 0;
    "stat": ["stat", "README.md", "missing", "passwd", "gone"] => 1;
    "read": ["read", "-n", "src/main.rs"] => 0;
    "edit": ["edit", "src/main.rs", "README.md", "-e", "hello|small", "<$0>", "--dry-run"] => 0;
    "change": ["edit", "src/main.rs", "missing", "README.md", "--append", "end"] => 1;
    "refused": ["mv", "README.md", "src/main.rs"] => 1;
    "removed": ["rm", "src", "docs/guide/one.md", "never", "node_modules", "--base-dir", "."] => 1;
    "usage": ["edit", "README.md", "--replase", "a", "b"] => 2;
};

fn jail() -> TestJail {
    TestJail::with_tree(Options::default(), |root| {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED);
        let write = |name: &OsStr, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::File::open(&path).unwrap().set_modified(modified).unwrap();
        };
        for (name, text) in [
            ("README.md", "# project\n\nA small one.\n"),
            ("src/main.rs", "fn main() {\n    let name = \"you\";\n    println!(\"hello\");\n}\n"),
            ("src/a file with a rather long name, as some people give them to their files.rs", "// hello\n"),
            (
                "src/日本語.rs",
                "// こんにちは, hello to a line that is far longer than eighty columns and so has to go on in the next one\n",
            ),
            ("docs/guide/one.md", "one\n"),
            ("docs/guide/two.md", "two\n"),
            (".env", "TOKEN=hunter2\n"),
            ("node_modules/x/index.js", "x\n"),
        ] {
            write(OsStr::new(name), text);
        }
        write(OsStr::from_bytes(b"caf\xe9 \x1b[31m.txt"), "x\n");
        (0..30).for_each(|number| write(OsStr::new(&format!("data-{number:02}.csv")), ""));
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        // No function of the standard library touches a link itself.
        let link = root.join("passwd");
        let touched = std::process::Command::new("touch").args(["-h", "-d", "@1767323045"]).arg(link).status();
        assert!(touched.unwrap().success());
    })
}

#[test]
fn commands_look_as_they_did() {
    let jail = jail();
    let program = bin_dir(false).join("stockade");
    let environment = [("STOCKADE_SOCKET", jail.socket.to_str().unwrap()), ("LC_ALL", "C.UTF-8"), NO_STATE];
    let is_update = std::env::var_os("UPDATE_TERMINAL").is_some();
    let mut differing = Vec::new();
    for picture in PICTURES {
        for (columns, kept) in WIDTHS.into_iter().zip(picture.kept) {
            let line: Vec<&str> =
                std::iter::once(program.to_str().unwrap()).chain(picture.arguments.iter().copied()).collect();
            let (seen, code) = Terminal::start(columns, &line, &environment).painted();
            assert!(!seen.contains("/root"), "how it is wrapped would depend on where this runs: {seen}");
            assert_eq!(code, picture.code, "{}: {seen}", picture.name);
            let widest = seen.lines().map(width).max().unwrap_or(0);
            assert!(widest <= usize::from(columns), "{}: {widest} columns", picture.name);
            let file = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("tests/frontends/terminal/{}.{columns}.txt", picture.name));
            if is_update {
                fs::write(file, &seen).unwrap();
            } else if seen != kept {
                differing.push(format!("{} at {columns} columns, was:\n{kept}is:\n{seen}", picture.name));
            }
        }
    }
    assert!(differing.is_empty(), "UPDATE_TERMINAL=1 keeps these:\n{}", differing.join("\n"));
}

/// Without the marks; wide characters count as one, which errs on the harmless side.
fn width(line: &str) -> usize {
    let mut inside = false;
    line.chars()
        .filter(|c| {
            inside = (inside || *c == '‹') && *c != '›';
            !inside && *c != '›'
        })
        .count()
}

/// A file can hold sequences that repaint the screen and characters that nobody sees: a person sees them as escapes, a pipe gets
/// the bytes.
#[test]
fn contents_are_escaped_on_a_terminal_and_exact_in_a_pipe() {
    let content = b"needle \x1b[31mred \xc2\x9b1m \xe2\x80\xae \xf3\xa0\x81\x81 caf\xe9\rx\r\n\ttab\n";
    let shown = "needle \\u001b[31mred \\u009b1m \\u202e \\udb40\\udc41 caf";
    let jail = TestJail::with_tree(Options::default(), |root| {
        fs::write(root.join("evil.txt"), content).unwrap();
        fs::write(root.join("more.txt"), "plain\n").unwrap();
    });
    let program = bin_dir(false).join("stockade");
    let environment = [("STOCKADE_SOCKET", jail.socket.to_str().unwrap()), ("LC_ALL", "C.UTF-8"), NO_STATE];
    for (arguments, is_remarked) in [
        (&["read", "evil.txt"][..], true),
        (&["read", "-n", "evil.txt"], true),
        (&["read", "--bytes", "0:70", "evil.txt"], true),
        (&["read", "evil.txt", "more.txt"], true),
        (&["search", "needle"], false),
        (&["edit", "evil.txt", "-r", "tab", "TAB", "--dry-run"], false),
    ] {
        let line: Vec<&str> = std::iter::once(program.to_str().unwrap()).chain(arguments.iter().copied()).collect();
        let (seen, code) = Terminal::start(200, &line, &environment).painted();
        assert_eq!(code, 0, "{arguments:?}: {seen}");
        let plain: String = seen.replace("‹bold red›", "").replace("‹›", "");
        assert!(plain.contains(shown), "{arguments:?}: {seen}");
        assert!(!seen.contains(['\u{202e}', '\u{e0041}', '\u{9b}']), "{arguments:?}: {seen}");
        assert_eq!(seen.contains("shown as escapes; a pipe gets the bytes"), is_remarked, "{arguments:?}: {seen}");
    }
    let piped = |arguments: &[&str]| {
        let ran = std::process::Command::new(&program).args(arguments).envs(environment).output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
        ran.stdout
    };
    assert_eq!(piped(&["read", "evil.txt"]), content);
    let found = piped(&["search", "needle"]);
    let found = String::from_utf8(found).unwrap();
    assert!(found.starts_with("evil.txt:1:needle \x1b[31mred \u{9b}1m \u{202e} \u{e0041} caf"), "{found:?}");
    assert!(String::from_utf8(piped(&["edit", "evil.txt", "-r", "tab", "TAB", "--dry-run"])).unwrap().contains('\x1b'));
}

#[test]
fn progress_is_shown_and_leaves_nothing_behind() {
    let jail = TestJail::new();
    fs::File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    let program = bin_dir(false).join("stockade");
    let environment = [("STOCKADE_SOCKET", jail.socket.to_str().unwrap()), ("LC_ALL", "C.UTF-8"), NO_STATE];
    let line = [program.to_str().unwrap(), "stat", "--lines", "giant", "--timeout", "3s"];
    let terminal = Terminal::start(80, &line, &environment);
    terminal.wait_for(|screen| screen.starts_with("looking ") && screen.contains(" s"));
    let (seen, code) = terminal.painted();
    assert_eq!(code, 1, "{seen}");
    assert!(!seen.contains("looking") && seen.contains("C220"), "{seen}");
}
