//! Mount points inside a root: refused or crossed, the same by both resolvers. Runs again in a mount namespace of its
//! own, so that nobody else ever sees the mounts.

use std::{
    ffi::CString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use proptest::prelude::*;
use stockade::internals::path::Symlinks;

use super::{agree, cases, rules, tree};
use crate::support::process::runs_as_root;

const TREES: u32 = 64;
const PATHS: usize = 24;
const INSIDE: &str = "STOCKADE_TEST_IN_MOUNT_NAMESPACE";

/// True inside of the namespace. Outside it runs `test` there and returns false.
fn in_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !runs_as_root(test) {
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Mounts that are gone with the value. Declared after the folder they lie in, so that they go first.
#[derive(Default)]
struct Mounts(Vec<PathBuf>);

impl Mounts {
    fn mount(&mut self, source: &Path, at: &Path, kind: &std::ffi::CStr, flags: libc::c_ulong) {
        let (from, to) = (c(source), c(at));
        let (source, target, kind) = (from.as_ptr(), to.as_ptr(), kind.as_ptr());
        // SAFETY: three strings that live until the call returns, and no data.
        let result = unsafe { libc::mount(source, target, kind, flags, std::ptr::null()) };
        assert_eq!(result, 0, "{}: {}", at.display(), std::io::Error::last_os_error());
        self.0.push(at.into());
    }

    fn bind(&mut self, source: &Path, at: &Path) {
        self.mount(source, at, c"none", libc::MS_BIND);
    }

    fn tmpfs(&mut self, at: &Path) {
        self.mount(Path::new("tmpfs"), at, c"tmpfs", 0);
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.0.drain(..).rev() {
            let at = c(&at);
            // SAFETY: a string that lives until the call returns.
            unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// Something mounted on a name of the tree, if it is there: a tmpfs or a bind mount on a folder, a bind on a file.
fn mount_on(mounts: &mut Mounts, root: &Path, rel: &[u8], tmpfs: bool) {
    let at = tree::at(root, rel);
    let outside = root.parent().unwrap().join("outside");
    let is_inside = at.canonicalize().is_ok_and(|real| real == at);
    match fs::symlink_metadata(&at) {
        Ok(found) if found.is_file() && is_inside => mounts.bind(&outside.join("secret"), &at),
        Ok(found) if found.is_dir() && is_inside => {
            if tmpfs {
                mounts.tmpfs(&at);
            } else {
                mounts.bind(&outside, &at);
            }
            // All binds of one tree show the same folder: it is filled once.
            let _ = fs::create_dir(at.join("b"));
            let _ = std::os::unix::fs::symlink("../b", at.join("c"));
            let _ = std::os::unix::fs::symlink("../../a", at.join("a"));
        }
        _ => {}
    }
}

fn compare_generated_trees() {
    let trees = (
        tree::nodes(),
        prop::collection::vec((tree::path(), any::<bool>()), 1..6),
        prop::collection::vec(tree::path(), PATHS),
    );
    proptest!(cases(TREES), |((nodes, places, mut paths) in trees)| {
        let (_dir, root) = tree::plant(&nodes);
        let mut mounts = Mounts::default();
        for (rel, tmpfs) in &places {
            mount_on(&mut mounts, &root, rel, *tmpfs);
        }
        paths.extend(places.into_iter().map(|(rel, _)| rel));
        agree::check_all(&root, &paths)?;
    });
}

#[test]
fn both_resolvers_and_the_kernel_agree_about_mounts() {
    if in_namespace("resolver::mounts::both_resolvers_and_the_kernel_agree_about_mounts") {
        compare_generated_trees();
    }
}

#[test]
fn every_kind_of_mount_is_refused_unless_the_root_crosses_them() {
    if !in_namespace("resolver::mounts::every_kind_of_mount_is_refused_unless_the_root_crosses_them") {
        return;
    }
    let nodes = ["tmp/x", "bind/x", "own/x"].map(|path| tree::Node::Dir(path.into()));
    let (_dir, root) = tree::plant(&nodes);
    fs::write(root.join("file"), "").unwrap();
    std::os::unix::fs::symlink("tmp/x", root.join("link")).unwrap();
    let mut mounts = Mounts::default();
    mounts.tmpfs(&root.join("tmp"));
    fs::create_dir(root.join("tmp/x")).unwrap();
    mounts.bind(&root.parent().unwrap().join("outside"), &root.join("bind"));
    // A folder of the root itself: the same device, and still another mount.
    mounts.bind(&root.join("own"), &root.join("own"));
    mounts.bind(&root.join("bind/secret"), &root.join("file"));
    for symlinks in [Symlinks::Refuse, Symlinks::Beneath] {
        for path in ["tmp", "tmp/x", "bind/secret", "own", "own/x", "file", "link"] {
            // Refused links are opened as themselves, and nothing is mounted on this one.
            let is_link = path == "link" && symlinks == Symlinks::Refuse;
            for cross_mounts in [false, true] {
                let rules = rules(&root, symlinks, cross_mounts);
                let leads = agree::check(&root, path.as_bytes(), &rules).unwrap();
                assert_eq!(leads, cross_mounts || is_link, "{path} {symlinks:?}");
            }
        }
    }
}
