//! The scanner must be able to find what it looks for: small bad snippets, each of which a rule has to catch.

use super::{
    hidden_file_access,
    source::{Source, pattern},
    wrong_imports, wrong_uses,
};

fn source(path: &str, text: &str) -> Source {
    Source::new(path, text)
}

#[test]
fn a_supervisor_that_imports_operations_is_caught() {
    for text in [
        "use crate::ops::read_file;",
        "use crate::{wire::Error, ops::{self, names}};",
        "fn f() { crate::jail::open() }",
        "use crate::{\n    broker,\n    text,\n};",
        "use super::super::worker;",
    ] {
        assert!(!wrong_imports(&source("src/supervisor/serve.rs", text)).is_empty(), "{text}");
    }
    let harmless = "use super::lease::Key;\nuse crate::{VERSION, broker::{Refusal, codec::Asked}, sys};";
    assert_eq!(wrong_imports(&source("src/supervisor/serve.rs", harmless)), Vec::<String>::new());
}

#[test]
fn a_part_of_a_module_does_not_open_the_rest_of_it() {
    let frontend = |text| wrong_imports(&source("src/frontends/cli/call.rs", text)).len();
    assert_eq!(frontend("use crate::sys::file::read_file;"), 0);
    assert_eq!(frontend("use crate::sys::{file, fs};"), 1);
    assert_eq!(frontend("use crate::sys::filesystem;"), 1);
    assert_eq!(frontend("use crate::sys::*;"), 1);
    assert_eq!(frontend("use crate::sys;"), 1);
    assert_eq!(wrong_imports(&source("src/resolve/mod.rs", "use crate::broker::{Refusal, Channel};")).len(), 1);
}

#[test]
fn a_module_without_a_rule_is_caught() {
    assert_eq!(wrong_imports(&source("src/shortcut.rs", "")).len(), 1);
}

#[test]
fn crates_out_of_place_are_caught() {
    for (path, text) in [
        ("src/worker/start.rs", "use tokio::net::UnixStream;"),
        ("src/jail/file.rs", "fn f() { libc::close(0); }"),
        ("src/ops/info.rs", "use std::{fmt, fs::File};"),
        ("src/ops/info.rs", "fn f() { std::fs::read(\"x\"); }"),
        ("src/supervisor/start.rs", "use ::landlock::{AccessFs, BitFlags};"),
        ("src/wire/json.rs", "use libc as c;"),
        ("src/worker/start.rs", "use rustix;"),
        ("src/jail/dir.rs", "use std :: fs;"),
    ] {
        assert!(!wrong_uses(&source(path, text)).is_empty(), "{path}: {text}");
    }
}

#[test]
fn look_alikes_are_not_crates() {
    for text in [
        "use std::os::unix::fs::MetadataExt;",
        "use crate::sys::fs::open_beneath;",
        "fn f() { super::landlock::restrict() }",
        "// use tokio::net;",
        "/* libc::close */",
        "const BYTES: &[u8] = br\"libc::close\";",
        "const TEXT: &str = \"use tokio::net and libc::close\";",
        "const TEXT: &str = r#\"say \"libc::close(0)\"\"#;",
        "#[cfg(test)]\nmod tests {\n    use tokio::net;\n    fn f() { if true { libc::close(0) } }\n}",
    ] {
        assert_eq!(wrong_uses(&source("src/jail/file.rs", text)), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn code_behind_a_test_module_is_seen_again() {
    let text = "#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap() }\n}\nfn g() { y.unwrap() }\n";
    let found = source("src/jail/file.rs", text);
    assert_eq!(found.lines_with(&pattern(r"\.unwrap\(\)")), [(5, "fn g() { y.unwrap() }")]);
    assert_eq!(found.code_lines(), 1);
}

#[test]
fn quotes_do_not_hide_code() {
    let text = "fn f<'a>(x: &'a str) { let q = '\"'; let e = '\\''; x.unwrap(); let s = \"\\\"\"; s.unwrap() }";
    let found = source("src/jail/file.rs", text);
    assert_eq!(found.code.matches(".unwrap()").count(), 2, "{}", found.code);
    let comment = "let a = \"//\"; b.unwrap(); // c.unwrap()\n";
    assert_eq!(source("src/jail/file.rs", comment).code.matches(".unwrap()").count(), 1);
}

#[test]
fn text_in_several_lines_counts_as_code_and_comments_do_not() {
    let text = "//! header\n\nconst HELP: &str = \"\\\none\ntwo\n\";\n/// doc\nfn f() {}\n";
    assert_eq!(source("src/jail/file.rs", text).code_lines(), 5);
    assert_eq!(source("src/jail/file.rs", "fn f() {\n    g(\n        1,\n    )?;\n}\n").code_lines(), 5);
}

#[test]
fn unsafe_without_its_reason_directly_above_is_caught() {
    let unexplained = |text| source("src/sys/raw.rs", text).unexplained_unsafe();
    assert_eq!(unexplained("// SAFETY: fine\nlet x = unsafe { f() };"), Vec::<usize>::new());
    assert_eq!(unexplained("// SAFETY: a long\n// reason\nSome(unsafe { f() })"), Vec::<usize>::new());
    assert_eq!(unexplained("// SAFETY: fine\n\nlet x = unsafe { f() };"), [3]);
    assert_eq!(unexplained("// because\nunsafe { f() }"), [2]);
    assert_eq!(unexplained("#![allow(unsafe_code)]\n// unsafe is a word here\n"), Vec::<usize>::new());
}

#[test]
fn a_path_that_asks_the_disk_is_caught() {
    let asks = |path, text| hidden_file_access(&source(path, text)).len();
    assert_eq!(asks("src/ops/info.rs", "if path.exists() {}"), 1);
    assert_eq!(asks("src/policy/roots.rs", "if path.exists() {}"), 0);
    assert_eq!(asks("src/ops/info.rs", "let it = entry.kind();"), 0);
}
