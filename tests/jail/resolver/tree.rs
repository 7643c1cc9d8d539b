//! Small hostile trees, and paths into and past them.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

#[derive(Debug, Clone)]
pub enum Node {
    Dir(Vec<u8>),
    File(Vec<u8>),
    Fifo(Vec<u8>),
    /// Name and target; `ROOT` at its start stands for the root's own absolute path.
    Link(Vec<u8>, Vec<u8>),
}

/// Few, so that paths meet what was planted; one is not UTF-8, one as long as names get.
fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(vec![&b"a"[..], b"b", b"c", b"-rf", b"\xc3\xa9", b"\xff\xfe"])
            .prop_map(<[u8]>::to_vec),
        1 => Just(vec![b'n'; 255]),
    ]
}

fn joined(names: Vec<Vec<u8>>) -> Vec<u8> {
    names.join(&b'/')
}

fn place() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(name(), 1..4).prop_map(joined)
}

/// Checked paths, as a worker may ask for them; now and then a name too long for any file.
pub fn path() -> impl Strategy<Value = Vec<u8>> {
    let any = prop_oneof![20 => name(), 1 => Just(vec![b'n'; 256]), 1 => Just(b"missing".to_vec())];
    prop::collection::vec(any, 1..6).prop_map(joined)
}

fn target() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => name(),
        3 => Just(b"..".to_vec()),
        1 => Just(b".".to_vec()),
        1 => Just(b"".to_vec()),
    ];
    let inside = prop::collection::vec(part, 1..5)
        .prop_map(joined)
        .prop_filter("a link points somewhere", |target| !target.is_empty() && target.len() < 4096);
    let outside = prop::sample::select(vec![
        &b"/"[..],
        b"/etc",
        b"/proc/self/root",
        b"ROOT",
        b"ROOT/a",
        b"..",
        b"../..",
        b"../outside/secret",
        b"../root/a",
        b"dangling",
    ]);
    prop_oneof![3 => inside, 1 => outside.prop_map(<[u8]>::to_vec)]
}

pub fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = prop_oneof![
        4 => place().prop_map(Node::Dir),
        2 => place().prop_map(Node::File),
        1 => place().prop_map(Node::Fifo),
        6 => (place(), target()).prop_map(|(place, target)| Node::Link(place, target)),
    ];
    prop::collection::vec(node, 0..16)
}

pub fn at(root: &Path, rel: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(rel))
}

/// Makes the folders above a place, one by one, and never through a link: it may lead out, and a test leaves the host
/// alone. False if one of them is something else.
fn make_parents(root: &Path, rel: &[u8]) -> bool {
    let mut at = root.to_path_buf();
    let names: Vec<_> = rel.split(|byte| *byte == b'/').collect();
    names[..names.len() - 1].iter().all(|name| {
        at.push(OsStr::from_bytes(name));
        let _ = fs::create_dir(&at);
        fs::symlink_metadata(&at).is_ok_and(|found| found.is_dir())
    })
}

/// A root beside a folder with a secret. What cannot be made (a parent is a file or a link, the name is taken) is left
/// out. None of the calls below follows a link as the last name.
pub fn plant(nodes: &[Node]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("root");
    fs::create_dir(&root).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/secret"), "secret").unwrap();
    for node in nodes {
        let (Node::Dir(rel) | Node::File(rel) | Node::Fifo(rel) | Node::Link(rel, _)) = node;
        if !make_parents(&root, rel) {
            continue;
        }
        let path = at(&root, rel);
        let _ = match node {
            Node::Dir(_) => fs::create_dir(&path),
            // `write` would go through a link.
            Node::File(_) => fs::File::create_new(&path).map(drop),
            Node::Fifo(_) => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).map_err(Into::into),
            Node::Link(_, target) => match target.strip_prefix(b"ROOT") {
                Some(rest) => symlink(at(&root, rest.strip_prefix(b"/").unwrap_or(rest)), &path),
                None => symlink(OsStr::from_bytes(target), &path),
            },
        };
    }
    (dir, root)
}
