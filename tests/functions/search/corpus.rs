//! A tree with everything in it that makes a search hard. What is special about a file is its folder's name, so that
//! `differences.toml` can speak of it.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

use crate::support::random::Random;

const WORDS: &[&str] = &[
    "alpha", "Beta", "GAMMA", "foo", "Foo", "foo_bar", "bar", "x1", "12", "3.14", "fn", "main()", "a.b", "${x}", "é",
    "É", "naïve", "Straße", "STRASSE", "ſ", "日本", "日", "Σ", "ς", "end", "aaa", "aa", "a", "K", "k", "\u{212a}",
    "--", "[id]", "{}", "\\d",
];
const GAPS: &[&str] = &[" ", "  ", "\t", "-", "_", ".", "", ",", "(", ")", " = "];

/// Of a text that a rule is written for: not among the words.
pub const NEEDLE: &str = "needle";

pub fn line(random: &mut Random, words: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(words + 1) {
        text.push_str(random.pick(WORDS));
        text.push_str(random.pick(GAPS));
    }
    text
}

fn text(random: &mut Random, lines: usize, end: &str) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..lines {
        text.extend_from_slice(line(random, 7).as_bytes());
        text.extend_from_slice(end.as_bytes());
    }
    // Some files end without a terminator.
    if random.one_in(4) && text.ends_with(end.as_bytes()) {
        text.truncate(text.len() - end.len());
    }
    text
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lines of nothing that a query looks for, up to that many bytes.
fn filler(bytes: usize) -> Vec<u8> {
    [&b"~".repeat(1023), b"\n".as_slice()].concat().repeat(bytes.div_ceil(1024))
}

/// What `LIMITS` says is too much for a regex, and for a file whose matches span lines.
const LONGEST_LINE: usize = 128 << 10;
const LARGEST_WHOLE: usize = 256 << 10;

/// A service for this tree: nothing is cut for its size, and two limits are small enough to be met.
pub const LIMITS: &str = "[limits]\nsearch_max_line_buffer = 131072\nmax_read_bytes = 262144\n\
search_response_budget_bytes = 33554432\nsearch_default_max_matches = 1000000\n";

struct Tree<'a> {
    root: &'a Path,
    random: Random,
}

impl Tree<'_> {
    fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn text(&mut self, lines: usize, end: &str) -> Vec<u8> {
        let lines = self.random.below(lines) + 1;
        text(&mut self.random, lines, end)
    }
}

pub fn plant(root: &Path, seed: u64) {
    let mut tree = Tree { root, random: Random::new(seed) };
    plain(&mut tree);
    encodings(&mut tree);
    binaries(&mut tree);
    large(&mut tree);
    names(&mut tree);
    ignored(&mut tree);
}

fn plain(tree: &mut Tree<'_>) {
    for at in 0..30 {
        let extension = tree.random.pick(&["rs", "txt", "md", "c"]);
        let folder = tree.random.pick(&["", "a/", "a/b/", "b/", "b/c/d/", ".hidden/", "b/.dot/"]);
        let content = tree.text(20, "\n");
        tree.write(format!("plain/{folder}f{at}.{extension}"), content);
    }
    for at in 0..60 {
        let content = tree.text(2, "\n");
        tree.write(format!("wide/{at}.txt"), content);
    }
    for depth in 1..30 {
        let content = tree.text(3, "\n");
        tree.write(format!("deep/{}f.txt", "d/".repeat(depth)), content);
    }
    ["empty/nothing", "empty/.nothing"].iter().for_each(|name| tree.write(name, ""));
    ["\n", "\n\n\n", " ", "\r\n", "\r"]
        .iter()
        .enumerate()
        .for_each(|(at, text)| tree.write(format!("empty/{at}"), text));
    std::os::unix::fs::symlink("f0.rs", root_path(tree, "plain/link")).unwrap();
    std::os::unix::fs::symlink("..", root_path(tree, "plain/loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root_path(tree, "plain/pipe"), 0o644.into()).unwrap();
}

fn root_path(tree: &Tree<'_>, name: &str) -> std::path::PathBuf {
    tree.root.join(name)
}

fn encodings(tree: &mut Tree<'_>) {
    tree.write("mixed/doubled.txt", "alpha\r\r\nbeta\r\r\n");
    for at in 0..7 {
        let content = tree.text(20, "\r\n");
        tree.write(format!("crlf/{at}.txt"), content);
        let mut mixed = Vec::new();
        for _ in 0..20 {
            let line = line(&mut tree.random, 4);
            mixed.extend_from_slice(line.as_bytes());
            mixed.extend_from_slice(tree.random.pick(&["\n", "\r\n", "\r", "\r\r\n"]).as_bytes());
        }
        tree.write(format!("mixed/{at}.txt"), mixed);
        let content = lossy(tree.text(20, tree_end(at)));
        tree.write(format!("utf16/{at}le.txt"), utf16(&content, u16::to_le_bytes));
        tree.write(format!("utf16/{at}be.txt"), utf16(&content, u16::to_be_bytes));
        let content = tree.text(10, tree_end(at));
        tree.write(format!("bom/{at}.txt"), [b"\xef\xbb\xbf", content.as_slice()].concat());
        let mut content = tree.text(20, "\n");
        for _ in 0..10 {
            let place = tree.random.below(content.len() + 1);
            content.insert(place, *tree.random.pick(&[&0xffu8, &0xc3, &0x80, &0xed, &0xf0]));
        }
        tree.write(format!("invalid/{at}.txt"), content);
    }
    tree.write("invalid/stray.txt", b".\x80main \n");
    tree.write("mixed/one.txt", "k\r\n");
    // Half a character at the end, and one half of a pair.
    tree.write("utf16/odd.txt", [utf16("foo\nbar", u16::to_le_bytes), vec![b'x']].concat());
    tree.write("utf16/lone.txt", [utf16("foo ", u16::to_le_bytes), vec![0, 0xd8], b"b\0a\0r\0".to_vec()].concat());
}

fn tree_end(at: usize) -> &'static str {
    if at.is_multiple_of(2) { "\n" } else { "\r\n" }
}

fn binaries(tree: &mut Tree<'_>) {
    tree.write("nul-head/empty", "\n\nfoo\0bar\n");
    for at in 0..6 {
        let before = tree.text(20, "\n");
        let after = tree.text(20, "\n");
        let joined = |filler: Vec<u8>, nul: &[u8]| {
            [before.as_slice(), &filler, b"foo", nul, b"bar\n", &after, b"\nneedle\n"].concat()
        };
        tree.write(format!("nul-head/{at}"), joined(Vec::new(), b"\0"));
        tree.write(format!("nul-late/{at}"), joined(filler(8 << 10), b"\0"));
        if at < 2 {
            tree.write(format!("nul-far/{at}"), joined(filler(140 << 10), b"\0"));
        }
    }
}

fn large(tree: &mut Tree<'_>) {
    for at in 0..3 {
        let mut content = tree.text(5, "\n");
        for _ in 0..2 {
            let word = line(&mut tree.random, 3);
            let [before, after] = [5_000, 9_000].map(|most| tree.random.below(most));
            content.extend_from_slice(&[&b"~".repeat(before), word.as_bytes(), &b"~".repeat(after), b"\n"].concat());
        }
        content.extend(tree.text(5, "\n"));
        tree.write(format!("long/{at}.txt"), content);
    }
    let far = |bytes: usize| [&b"~".repeat(bytes), b" ".as_slice(), NEEDLE.as_bytes(), b" foo\nfoo\n"].concat();
    tree.write("long/buffer.txt", [b"foo\n".as_slice(), &far(70 << 10)].concat());
    tree.write("longest/line.txt", [b"foo\n".as_slice(), &far(LONGEST_LINE + (20 << 10))].concat());
    let text = tree.text(10, "\n");
    tree.write("largest/lines.txt", [text.as_slice(), &filler(LARGEST_WHOLE), NEEDLE.as_bytes(), b"\nfoo\n"].concat());
}

fn names(tree: &mut Tree<'_>) {
    for name in ["-dash.txt", "with space.txt", "new\nline.txt", "[id].rs", "{a,b}.txt", "é.txt", "a\\b.txt", "~.txt"]
    {
        let content = tree.text(4, "\n");
        tree.write(format!("names/{name}"), content);
    }
    let content = tree.text(4, "\n");
    tree.write(Path::new("names").join(std::ffi::OsStr::from_bytes(b"\xff\xfe.txt")), content);
    for name in [".env", ".ENV.local", "cert.pem", "id.Key", "secrets/a.txt", "Secrets/deep/b.txt", ".stockade/x"] {
        tree.write(name, format!("foo {NEEDLE}\n"));
    }
}

/// Ignore files of one kind each, and all of them together.
fn ignored(tree: &mut Tree<'_>) {
    tree.write(".git/info/exclude", "excluded\n/ignored/git/by-exclude.txt\n");
    tree.write(".git/HEAD", "ref: refs/heads/main\n");
    tree.write(
        ".gitignore",
        "*.o\n/ignored/anchored.txt\nbuild/\n!keep.o\n**/deep/skip\nignored/*/star.txt\n# none\n\\#x\n",
    );
    tree.write("ignored/git/.gitignore", "!x.o\nlocal.txt\n/only-here\nsub/*\n!sub/kept.txt\n[a-c]?.txt\n");
    tree.write("ignored/dot/.ignore", "local.txt\n!y.o\n");
    tree.write("ignored/dot/.gitignore", "z.txt\n");
    tree.write("ignored/both/.gitignore", "x.txt\n!y.txt\n");
    tree.write("ignored/both/.ignore", "!x.txt\ny.txt\n");
    tree.write("ignored/braces/.gitignore", "*.{p,q}\n");
    // Inner ones first: some names are folders here and files there.
    for folder in ["git/inner", "git/sub", "git/deep", "git/build", "dot/excluded", "git", "dot", "both", "braces"] {
        for name in [
            "x.o",
            "y.o",
            "keep.o",
            "local.txt",
            "only-here",
            "kept.txt",
            "a1.txt",
            "z.txt",
            "x.txt",
            "y.txt",
            "star.txt",
            "skip",
            "build",
            "excluded",
            "by-exclude.txt",
            "f.p",
            "f.{p,q}",
            "#x",
            "sub",
            "deep/skip",
        ] {
            let path = format!("ignored/{folder}/{name}");
            if !tree.root.join(&path).exists() {
                let content = tree.text(2, "\n");
                tree.write(&path, [content.as_slice(), b"\nfoo bar\n"].concat());
            }
        }
    }
    tree.write("ignored/anchored.txt", "foo\n");
    tree.write("ignored/git/anchored.txt", "foo\n");
}
