//! The resolver against two other opinions: another crate's binding of the same call, and a walk by hand.
#![allow(unsafe_code, clippy::unwrap_used, reason = "the other crate returns bare descriptors")]

use std::{
    ffi::OsStr,
    fs,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::symlink},
    },
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use rustix::fs::OFlags;
use stockade::{
    broker::Refusal,
    path::{Hardlinks, Mode, Root, Symlinks},
    resolve::{Openat2, Resolver},
    sys::host,
};

fn rules(path: &Path) -> Root {
    Root {
        path: path.into(),
        mode: Mode::Ro,
        symlinks: Symlinks::Refuse,
        cross_mounts: false,
        hardlinks: Hardlinks::Allow,
    }
}

/// An opinion that shares no code with ours: another crate's binding of the same call.
fn oracle(root: &OwnedFd, path: &[u8]) -> Result<(u64, u64), Refusal> {
    let mut how = ::openat2::OpenHow::new((OFlags::PATH | OFlags::DIRECTORY).bits() as i32, 0);
    how.resolve = ::openat2::ResolveFlags::BENEATH
        | ::openat2::ResolveFlags::NO_SYMLINKS
        | ::openat2::ResolveFlags::NO_MAGICLINKS
        | ::openat2::ResolveFlags::NO_XDEV;
    match ::openat2::openat2(Some(root.as_raw_fd()), OsStr::from_bytes(path), &how) {
        Ok(raw) => {
            // SAFETY: the crate returns a descriptor that nobody else owns.
            let fd = unsafe { OwnedFd::from_raw_fd(raw) };
            Ok(host::identity(fd).expect("fstat"))
        }
        Err(error) => Err(match error.raw_os_error().expect("an errno") {
            libc::ENOENT => Refusal::NotFound,
            libc::ELOOP => Refusal::Escape,
            libc::EXDEV => Refusal::Mount,
            libc::ENOTDIR => Refusal::NotDirectory,
            other => Refusal::Io(other),
        }),
    }
}

#[derive(Debug, Clone)]
enum Node {
    Dir(String),
    File(String),
    Link(String, String),
}

fn names() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "é", "-rf"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn targets() -> impl Strategy<Value = String> {
    let outside =
        prop::sample::select(vec!["/", "..", "../../etc", "/proc/self/root", ".", "a/b", "dangling"]);
    prop_oneof![outside.prop_map(String::from), names()]
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = prop_oneof![
        4 => names().prop_map(Node::Dir),
        1 => names().prop_map(Node::File),
        3 => (names(), targets()).prop_map(|(name, target)| Node::Link(name, target)),
    ];
    prop::collection::vec(node, 0..12)
}

/// What cannot be made (a parent is a file, the name is taken) is left out.
fn plant(root: &Path, nodes: &[Node]) {
    for node in nodes {
        let _ = match node {
            Node::Dir(name) => fs::create_dir_all(root.join(name)),
            Node::File(name) => fs::write(root.join(name), "x"),
            Node::Link(name, target) => symlink(target, root.join(name)),
        };
    }
}

/// The real path of a directory if no component on the way is a link: what the walk must find, computed by hand.
fn by_hand(root: &Path, path: &str) -> Option<PathBuf> {
    let mut at = root.to_path_buf();
    for name in path.split('/') {
        at.push(name);
        if !fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
    }
    Some(at)
}

proptest! {
    #[test]
    fn agrees_with_another_binding_and_with_a_walk_by_hand(nodes in nodes(), path in names()) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        plant(dir.path(), &nodes);
        let root = host::open_directory(dir.path()).expect("the root opens");
        let ours = Openat2
            .open_directory(root.as_fd(), path.as_bytes(), &rules(dir.path()))
            .map(|fd| host::identity(fd).expect("fstat"));
        prop_assert_eq!(ours, oracle(&root, path.as_bytes()));
        let expected = by_hand(dir.path(), &path);
        prop_assert_eq!(ours.is_ok(), expected.is_some(), "{:?}", ours);
        if let Some(expected) = expected {
            prop_assert_eq!(ours.ok(), host::identity(host::open_directory(&expected).expect("opens")).ok());
        }
    }
}

#[test]
fn what_comes_back_can_only_be_named_not_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(dir.path().join("a")).expect("made");
    let root = host::open_directory(dir.path()).expect("the root opens");
    let fd = Openat2.open_directory(root.as_fd(), b"a", &rules(dir.path())).expect("resolves");
    assert!(stockade::sys::process::is_path_directory(fd.as_fd()));
}
