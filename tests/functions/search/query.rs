//! Questions that can be put to both: to the service as a request, to ripgrep as arguments.

use serde::Deserialize;

use super::{
    corpus,
    support::random::Random,
    support::{Value, json},
};

/// One question; the example of a difference is one, too.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    pub pattern: String,
    pub regex: bool,
    pub ignore_case: bool,
    pub word: bool,
    pub multiline: bool,
    pub gitignore: bool,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub smart_case: bool,
    /// With a glob that includes, ripgrep asks no more about types.
    pub types: Vec<String>,
    /// The folder, from the root.
    pub path: Option<String>,
}

impl Query {
    pub fn random(random: &mut Random) -> Self {
        let regex = random.one_in(2);
        let multiline = random.one_in(5);
        let pattern = match (regex, multiline) {
            (false, false) => literal(random),
            (false, true) => format!("{}\n{}", literal(random), random.pick(&["", "foo", "a"])),
            (true, false) if random.one_in(4) => inner(random),
            (true, false) => expression(random, ATOMS),
            (true, true) if random.one_in(2) => expression(random, ATOMS),
            (true, true) => expression(random, SPANNING),
        };
        let mut globs = |many: usize| match random.one_in(many) {
            true => (0..=random.below(2)).map(|_| random.pick(GLOBS).to_owned()).collect(),
            false => Vec::new(),
        };
        let (include, exclude) = (globs(5), globs(5));
        let types = match include.is_empty() && random.one_in(6) {
            true => vec![random.pick(TYPES).to_owned()],
            false => Vec::new(),
        };
        Self {
            pattern,
            regex,
            ignore_case: random.one_in(4),
            // Not together: ripgrep 13 takes what stands around a word into the match, and over lines that makes other lines.
            word: !multiline && random.one_in(5),
            multiline,
            gitignore: random.one_in(4),
            include,
            exclude,
            smart_case: random.one_in(6),
            types,
            path: random.one_in(6).then(|| random.pick(FOLDERS).to_owned()),
        }
    }

    /// What `differences.toml` can ask for.
    pub fn has(&self, flag: &str) -> bool {
        match flag {
            "regex" => self.regex,
            "ignore_case" => self.ignore_case,
            "word" => self.word,
            "multiline" => self.multiline,
            "gitignore" => self.gitignore,
            "include" => !self.include.is_empty(),
            "exclude" => !self.exclude.is_empty(),
            "path" => self.path.is_some(),
            other => panic!("differences.toml: no such flag: {other}"),
        }
    }

    pub fn has_glob(&self, glob: &str) -> bool {
        self.include.iter().chain(&self.exclude).any(|own| own == glob)
    }

    pub fn request(&self) -> Value {
        json!({
            "query": self.pattern, "regex": self.regex, "ignore_case": self.ignore_case, "word": self.word,
            "multiline": self.multiline, "gitignore": self.gitignore, "include_globs": self.include,
            "exclude_globs": self.exclude, "smart_case": self.smart_case, "type": self.types, "path": self.path.as_deref().unwrap_or("."),
            "use_default_excludes": false, "search_paths": false, "repair": false,
        })
    }

    /// Without the folder: ripgrep's globs are relative to where it runs, ours to the root.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["--no-config", "--json", "--hidden", "--crlf", "--no-mmap", "--no-messages", "--threads=1"]
                .map(Into::into)
                .into();
        let flags = [
            ("--fixed-strings", !self.regex),
            ("--smart-case", self.smart_case && !self.ignore_case),
            ("--ignore-case", self.ignore_case),
            ("--word-regexp", self.word),
            ("--multiline", self.multiline),
            ("--no-ignore", !self.gitignore),
            // Neither what belongs to the person who runs the tests, nor what lies above the root.
            ("--no-ignore-global", true),
        ];
        arguments.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
        arguments.extend(self.types.iter().map(|name| format!("--type={name}")));
        arguments.extend(self.include.iter().map(|glob| format!("--glob={glob}")));
        arguments.extend(self.exclude.iter().map(|glob| format!("--glob=!{glob}")));
        arguments.extend(["--regexp".into(), self.pattern.clone(), "--".into()]);
        arguments.push(self.path.as_ref().map_or("./".into(), |path| format!("./{path}")));
        arguments
    }
}

/// Of which both have the same files in the corpus.
const TYPES: &[&str] = &["rust", "txt", "md", "c"];

const FOLDERS: &[&str] =
    &["plain", "plain/a", "plain/b/c", "ignored", "ignored/git", "ignored/git/sub", "crlf", "deep/d/d", ".hidden-none"];

/// A star of ours crosses slashes: those with one mean the same to both all the same.
const GLOBS: &[&str] = &[
    "*.rs",
    "*.txt",
    "**/*.md",
    "**/a/**",
    "*.[ch]",
    "**/f1*",
    "f?.txt",
    "f12.rs",
    "[ab]",
    "{a,b}",
    "f[0-4].*",
    "**/f?.txt",
    "**/.hidden/**",
    "*.{rs,md}",
    "**/crlf/**",
    "**/plain/**",
    "**/0*",
    "**/deep/**",
];

fn literal(random: &mut Random) -> String {
    loop {
        // A part of what a line may be, so that it is found somewhere.
        let line = corpus::line(random, 3);
        let chars: Vec<char> = line.chars().collect();
        if chars.is_empty() {
            continue;
        }
        let from = random.below(chars.len());
        let len = random.below(6) + 1;
        return chars[from..].iter().take(len).collect();
    }
}

const ATOMS: &[&str] = &[
    "foo",
    "Foo",
    "bar",
    "a",
    "aa",
    "é",
    "日",
    "k",
    "ſ",
    ".",
    ".*",
    ".+",
    r"\w+",
    r"\d",
    r"\s",
    r"\S+",
    "[a-f]",
    "[^a]",
    "[é日]",
    "^",
    "$",
    r"\b",
    r"\B",
    "(foo|bar)",
    "(?:a|é)+",
    "a*",
    "a{2,3}",
    r"\.",
    r"\(",
    r"\$\{x\}",
    "(?i)beta",
    "x?",
    r"\p{Greek}",
    r"\W",
    r"[[:digit:]]",
    "-",
    " ",
    r"\t",
    "end",
    r"(?-i:K)",
];

const SPANNING: &[&str] = &[
    "foo", "a", r"\n", r"\n\n", "(?s).", "(?s:.*?)", r"\s+", r"\s*", "$", "^", "bar", ".*", r"\r?\n", "é", r"\w+",
    "[^x]", "end",
];

/// Anchors stand where people put them: ripgrep 13 rewrites a `$` for CR LF and then loses lines where it stands before
/// something else, and so it does with a boundary before `^`.
fn expression(random: &mut Random, atoms: &[&str]) -> String {
    let mut parts: Vec<&str> = (0..=random.below(4)).map(|_| random.pick(atoms)).collect();
    let last = parts.len() - 1;
    let mut at = 0..;
    parts.retain(|part| match (at.next(), *part) {
        (at, "^") => at == Some(0),
        (at, "$") => at == Some(last),
        _ => true,
    });
    let pattern = if parts.is_empty() { random.pick(LITERALS).to_owned() } else { parts.concat() };
    if random.one_in(8) { format!("{pattern}|{}", random.pick(LITERALS)) } else { pattern }
}

/// With a literal that stands only inside: ours looks for that first.
fn inner(random: &mut Random) -> String {
    let before = random.pick(&[r"\w{2}", ".", "[^a]+", r"\S+", r"\b\w", "^.*", r"[a-z]*\W?", "(?:a|é)+", r"\w?"]);
    let literal = random.pick(&["foo_bar", "alpha", "(?:foo|bar)", "(?i:gamma)", "(end)+", "naïve", "STRASSE"]);
    let behind = random.pick(&["", "$", r"\b", r"\w*", ".", r"\d?", r"\W+\w", "(?:foo|K|日)"]);
    [before, literal, behind].concat()
}

/// What is always something to look for.
const LITERALS: &[&str] = &["foo", "bar", "end", "(?-i:K)", "é"];
