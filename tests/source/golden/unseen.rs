//! Which texts of the sources no call has brought out. Not a parser: it takes every literal that reads like a sentence.

use std::{fs, path::Path, sync::LazyLock};

use regex::Regex;

/// Where texts for clients are written. `wire/types` is not here: descriptions have their own golden files.
const SOURCES: [&str; 7] = ["src/jail", "src/ops", "src/path", "src/text", "src/wire", "src/wire/decode", "src/worker"];
/// Its texts depend on the kernel and not on the call, so the golden files leave them out.
const OF_THE_KERNEL: &str = "confinement.rs";
/// A shorter literal, or one of fewer words, is a part of another text.
const MIN_CHARS: usize = 20;
const MIN_SPACES: usize = 2;

/// What unseen.toml says about texts that stay unseen.
#[derive(Debug)]
struct Excused {
    text: String,
    why: String,
}

pub fn check(seen: &str) {
    let excused = excused();
    let texts: Vec<(String, String)> = literals();
    assert!(texts.len() > 100, "the sources are read: {} texts", texts.len());
    let wrong: Vec<String> = texts
        .iter()
        .filter(|(_, text)| !seen.contains(fragment(text)))
        .filter(|(_, text)| !excused.iter().any(|excused| text.contains(&excused.text)))
        .map(|(path, text)| format!("{path}: {text:?}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "no call brings these out; add one to tests/source/golden/calls, or the reason why not to tests/source/golden/unseen.toml\n  {}",
        wrong.join("\n  ")
    );
    for Excused { text, why } in excused {
        assert!(texts.iter().any(|(_, literal)| literal.contains(&text)), "{text:?} is gone; remove its excuse");
        assert!(!why.is_empty(), "{text:?} needs a reason");
    }
}

fn excused() -> Vec<Excused> {
    let text = fs::read_to_string(super::folder().join("unseen.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let field = |entry: &toml::Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let entries = table["unseen"].as_array().unwrap().iter();
    entries.map(|entry| Excused { text: field(entry, "text"), why: field(entry, "why") }).collect()
}

/// The longest part that no value is put into.
fn fragment(text: &str) -> &str {
    static HOLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[^{}]*\}").unwrap());
    // Doubled braces stand for themselves; around them the text is cut as well.
    HOLE.split(text).flat_map(|part| part.split(['{', '}', '"', '\\'])).max_by_key(|part| part.len()).unwrap_or(text)
}

/// `(file, text)` of every literal that reads like a sentence, outside of tests and comments.
fn literals() -> Vec<(String, String)> {
    static LITERAL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap());
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let mut found = Vec::new();
    for (path, code) in files() {
        for literal in LITERAL.captures_iter(&code) {
            let text = CONTINUED.replace_all(&literal[1], "").into_owned();
            if text.chars().count() >= MIN_CHARS && text.matches(' ').count() >= MIN_SPACES {
                found.push((path.clone(), text));
            }
        }
    }
    found
}

/// Files that serve, without their tests and comments.
fn files() -> Vec<(String, String)> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<_> = SOURCES.iter().map(|folder| (package.join(folder), *folder == "src/wire")).collect();
    let mut files = Vec::new();
    while let Some((path, is_flat)) = open.pop() {
        for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            if entry.is_dir() {
                if !is_flat {
                    open.push((entry, false));
                }
            } else if name.ends_with(".rs")
                && !name.ends_with("tests.rs")
                && !["testing.rs", OF_THE_KERNEL].contains(&name.as_str())
            {
                let text = fs::read_to_string(&entry).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                let shown = entry.strip_prefix(package).unwrap().to_str().unwrap().to_owned();
                files.push((shown, lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    files.sort();
    files
}
