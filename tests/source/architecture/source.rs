//! Reads a source file just well enough to ask it questions: comments and strings blanked, test code left out,
//! paths of `use` trees spelled out. Not a parser; what it cannot read it reads as too much rather than too little.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

pub static UNSAFE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bunsafe\b"));

pub fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this test are valid")
}

#[derive(Debug)]
pub struct Source {
    /// Relative to the package, with `/`.
    pub path: String,
    pub raw: String,
    /// As `raw`, line for line: comments blank, strings `"___"`, test code blank.
    pub code: String,
}

impl Source {
    pub fn new(path: &str, raw: &str) -> Self {
        let code = without_tests(&blanked(raw));
        Self { path: path.into(), raw: raw.into(), code }
    }

    /// `broker` for `src/broker/codec.rs`; `lib` for `src/lib.rs`.
    pub fn module(&self) -> &str {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path);
        inner.split(['/', '.']).next().unwrap_or(inner)
    }

    /// Where `super` begins: `["broker"]` for `src/broker/mod.rs`, `["broker", "codec"]` for its neighbour.
    fn module_path(&self) -> Vec<String> {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path).trim_end_matches(".rs");
        let mut parts: Vec<String> = inner.split('/').map(Into::into).collect();
        if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            parts.pop();
        }
        parts
    }

    /// Lines as a reader counts them: neither blank, nor comment, nor test.
    pub fn code_lines(&self) -> usize {
        self.code.lines().filter(|line| !line.trim().is_empty()).count()
    }

    /// Every path into this crate, without `crate::`: `wire::frame::FrameBuffer`.
    pub fn own_imports(&self) -> BTreeSet<String> {
        let mut all = self.paths_from("crate");
        all.extend(self.paths_from("stockade"));
        let own = self.module_path();
        static CLIMB: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(super\s*::\s*)+"));
        for whole in CLIMB.find_iter(&self.code) {
            let up = whole.as_str().matches("super").count();
            let base = own[..own.len().saturating_sub(up)].join("::");
            for tail in use_tree(&self.code[whole.end()..]) {
                all.insert(if base.is_empty() { tail } else { format!("{base}::{tail}") });
            }
        }
        all
    }

    /// Every path that begins with the crate `root`, without it. `crate::landlock::x` is none of the crate `landlock`.
    pub fn paths_from(&self, root: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (at, _) in self.code.match_indices(root) {
            let before = self.code[..at].trim_end();
            let is_tail = self.code[..at].ends_with(is_word)
                || (before.ends_with("::") && before.trim_end_matches("::").ends_with(is_word));
            let rest = &self.code[at + root.len()..];
            if is_tail || rest.starts_with(is_word) {
                continue;
            }
            if let Some(tail) = rest.trim_start().strip_prefix("::") {
                all.extend(use_tree(tail));
            } else if before.ends_with("use") {
                all.insert(String::new());
            }
        }
        all
    }

    /// Numbers (from 1) and text of lines of code that match.
    pub fn lines_with(&self, pattern: &Regex) -> Vec<(usize, &str)> {
        let numbered = self.code.lines().zip(self.raw.lines()).enumerate();
        numbered.filter(|(_, (code, _))| pattern.is_match(code)).map(|(i, (_, raw))| (i + 1, raw)).collect()
    }

    /// Unsafe blocks, functions and impls that no comment with `SAFETY` stands directly above.
    pub fn unexplained_unsafe(&self) -> Vec<usize> {
        let raw: Vec<&str> = self.raw.lines().collect();
        let explained = |line: usize| {
            let above = raw[..line - 1].iter().rev().take_while(|text| text.trim().starts_with("//"));
            above.into_iter().any(|text| text.contains("SAFETY"))
        };
        let lines = self.lines_with(&UNSAFE).into_iter().map(|(line, _)| line);
        lines.filter(|line| !explained(*line)).collect()
    }
}

/// What serves: all of `src` without test code.
pub static PRODUCT: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let texts = rust_files("src");
    let test_only: BTreeSet<PathBuf> = texts.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    texts.iter().filter(|(path, _)| !test_only.contains(path)).map(read).collect()
});

/// Everything, tests and all.
pub static ALL: LazyLock<Vec<Source>> = LazyLock::new(|| {
    ["src", "tests", "fuzz/fuzz_targets"]
        .into_iter()
        .flat_map(rust_files)
        .map(|(path, text)| {
            let mut source = read(&(path, text));
            source.code = blanked(&source.raw);
            source
        })
        .collect()
});

pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read((path, text): &(PathBuf, String)) -> Source {
    let relative = path.strip_prefix(package()).expect("below the package");
    Source::new(relative.to_str().expect("UTF-8"), text)
}

fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut open = vec![package().join(folder)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            files.push((path, text));
        }
    }
    files.sort();
    files
}

/// The files of `#[cfg(test)] mod name;`.
fn test_files(path: &Path, text: &str) -> Vec<PathBuf> {
    static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"#\[cfg\(test\)\]\s*(?:#\[path = "([^"]+)"\]\s*)?(?:pub(?:\([a-z]+\))? )?mod (\w+);"#)
    });
    let beside = path.parent().expect("a file has a folder");
    let is_owner = path.file_name().is_some_and(|name| name == "mod.rs" || name == "lib.rs");
    let inside = if is_owner { beside.to_owned() } else { path.with_extension("") };
    let file = |found: regex::Captures<'_>| match found.get(1) {
        Some(given) => beside.join(given.as_str()),
        None => inside.join(format!("{}.rs", &found[2])),
    };
    DECLARED.captures_iter(text).map(file).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The paths of a `use` tree or expression that `text` begins with: `a::{b, c::d}` → `a::b`, `a::c::d`.
fn use_tree(text: &str) -> Vec<String> {
    let text = text.trim_start();
    if let Some(inner) = text.strip_prefix('{') {
        return split_group(inner).into_iter().flat_map(use_tree).collect();
    }
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if word.is_empty() {
        // `*`: everything of what is in front of it.
        return if text.starts_with('*') { vec!["*".into()] } else { Vec::new() };
    }
    match rest.trim_start().strip_prefix("::") {
        Some(tail) => {
            let tails = use_tree(tail);
            if tails.is_empty() {
                return vec![word.into()];
            }
            tails.into_iter().map(|tail| format!("{word}::{tail}")).collect()
        }
        None => vec![word.into()],
    }
}

/// The members of a group whose opening brace is gone.
fn split_group(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&text[start..at]);
                return members;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members
}

/// Comments become spaces, what stands in strings and characters becomes `_`. Lines stay lines.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let (len, fill) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), ' '),
            '/' if rest.starts_with("/*") => (rest.find("*/").map_or(rest.len(), |end| end + 2), ' '),
            '"' => (string_len(rest), '_'),
            'r' | 'b' if !in_word && raw_string_len(rest) > 0 => (raw_string_len(rest), '_'),
            '\'' => (char_len(rest), '_'),
            _ => (0, ' '),
        };
        in_word = is_word(first);
        if len == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        out.extend(rest[..len].chars().map(|c| match c {
            '\n' => '\n',
            '"' if fill == '_' => '"',
            _ => fill,
        }));
        rest = &rest[len..];
    }
    out
}

fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`; 0 if it is none.
fn raw_string_len(text: &str) -> usize {
    let Some(body) = text.strip_prefix("br").or_else(|| text.strip_prefix('r')) else { return 0 };
    let hashes = body.len() - body.trim_start_matches('#').len();
    if !body[hashes..].starts_with('"') {
        return 0;
    }
    let start = text.len() - body.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    text[start..].find(&close).map_or(text.len(), |end| start + end + close.len())
}

/// 0 for a lifetime.
fn char_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, _))) => text[escaped + 1..].find('\'').map_or(0, |end| escaped + 1 + end + 1),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 0,
    }
}

/// Blanks every item behind `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(start) = out[from..].find(MARK).map(|at| from + at) {
        let end = item_end(&out, start + MARK.len());
        let blank: String = out[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blank);
        from = start;
    }
    out
}

/// Behind the item that begins at `from`: its `;`, or the brace that closes its first one.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return from + at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}
