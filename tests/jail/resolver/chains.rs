//! Links one after the other, up to the kernel's limit and beyond, and the bounds that are ours.

use std::{
    fs,
    os::{fd::AsFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use stockade::internals::{
    broker::Refusal,
    path::Symlinks,
    resolve::{LeafLinkRule, follow_links},
};

use super::{agree, open, opinion, rules};

fn root() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/file"), "").unwrap();
    (dir, root)
}

fn beneath(root: &Path, path: &str, leaf: LeafLinkRule) -> Result<String, Refusal> {
    let rules = rules(root, Symlinks::Beneath, false);
    let followed = follow_links(open(root).as_fd(), path.as_bytes(), &rules, leaf, |_| false);
    followed.map(|path| String::from_utf8(path).unwrap())
}

#[test]
fn forty_links_are_followed_and_not_one_more() {
    let (_dir, root) = root();
    for i in 0..45 {
        let target = if i == 0 { "d".into() } else { format!("link{}", i - 1) };
        symlink(target, root.join(format!("link{i}"))).unwrap();
    }
    let rules = rules(&root, Symlinks::Beneath, false);
    // `link39` is the fortieth link.
    for (last, leads) in [(0, true), (38, true), (39, true), (40, false), (44, false)] {
        for path in [format!("link{last}"), format!("link{last}/file")] {
            assert_eq!(agree::check(&root, path.as_bytes(), &rules).unwrap(), leads, "{path}");
        }
    }
    assert_eq!(beneath(&root, "link39/file", LeafLinkRule::Follow).as_deref(), Ok("d/file"));
    assert_eq!(beneath(&root, "link40/file", LeafLinkRule::Follow), Err(Refusal::Escape));
}

#[test]
fn loops_end() {
    let (_dir, root) = root();
    symlink("self", root.join("self")).unwrap();
    symlink("pong", root.join("ping")).unwrap();
    symlink("ping", root.join("pong")).unwrap();
    symlink("grow/x", root.join("grow")).unwrap();
    for path in ["self", "ping", "pong/x", "grow", "grow/x"] {
        assert_eq!(beneath(&root, path, LeafLinkRule::Follow), Err(Refusal::Escape), "{path}");
    }
}

#[test]
fn a_name_of_255_bytes_is_walked_and_one_of_256_is_too_long() {
    let (_dir, root) = root();
    let (long, longer) = ("n".repeat(255), "n".repeat(256));
    fs::create_dir(root.join(&long)).unwrap();
    for symlinks in [Symlinks::Refuse, Symlinks::Beneath] {
        let (fd, rules) = (open(&root), rules(&root, symlinks, false));
        for way in opinion::OURS {
            assert!(opinion::ours(way, &fd, long.as_bytes(), &rules).is_ok());
            for path in [longer.clone(), format!("{longer}/x"), format!("d/{longer}/x")] {
                let refused = opinion::ours(way, &fd, path.as_bytes(), &rules);
                assert_eq!(refused, Err(opinion::NAME_TOO_LONG));
            }
        }
    }
}

#[test]
fn a_writer_acts_on_the_link_itself() {
    let (_dir, root) = root();
    symlink("d/file", root.join("link")).unwrap();
    symlink("d", root.join("dir")).unwrap();
    symlink("../link", root.join("d/back")).unwrap();
    assert_eq!(beneath(&root, "link", LeafLinkRule::Keep).as_deref(), Ok("link"));
    assert_eq!(beneath(&root, "dir/back", LeafLinkRule::Keep).as_deref(), Ok("d/back"));
    assert_eq!(beneath(&root, "dir/back", LeafLinkRule::Follow).as_deref(), Ok("d/file"));
}

#[test]
fn missing_names_stay_as_asked_but_not_behind_a_dangling_link() {
    let (_dir, root) = root();
    symlink("d", root.join("dir")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    assert_eq!(beneath(&root, "dir/new/er/file", LeafLinkRule::Keep).as_deref(), Ok("d/new/er/file"));
    assert_eq!(beneath(&root, "dangling/new/file", LeafLinkRule::Keep), Err(Refusal::NotFound));
    assert_eq!(beneath(&root, "dangling/file", LeafLinkRule::Follow), Err(Refusal::NotFound));
    assert_eq!(beneath(&root, "dangling", LeafLinkRule::Follow).as_deref(), Ok("nowhere"));
}

#[test]
fn targets_that_wander_are_given_up() {
    let (_dir, root) = root();
    symlink(format!("{}d", "d/../".repeat(200)), root.join("short")).unwrap();
    symlink(format!("{}d", "d/../".repeat(800)), root.join("long")).unwrap();
    assert_eq!(beneath(&root, "short/file", LeafLinkRule::Follow).as_deref(), Ok("d/file"));
    assert_eq!(beneath(&root, "long/file", LeafLinkRule::Follow), Err(Refusal::Escape));
}

#[test]
fn no_name_behind_a_link_is_looked_at_before_it_is_allowed() {
    let (_dir, root) = root();
    fs::write(root.join(".env"), "").unwrap();
    // `.env` is a file and `.env2` is missing: only somebody who looked could tell.
    for target in [".env", ".env/x", ".env2", ".env2/x", ".env/../d/file", "d/../.env"] {
        let link = root.join("link");
        let _ = fs::remove_file(&link);
        symlink(target, &link).unwrap();
        let rules = rules(&root, Symlinks::Beneath, false);
        let is_denied = |path: &[u8]| path.starts_with(b".env");
        for path in [&b"link"[..], b"link/x"] {
            let found = follow_links(open(&root).as_fd(), path, &rules, LeafLinkRule::Follow, is_denied);
            assert_eq!(found, Err(Refusal::Denied), "{target}");
        }
    }
}

/// What is held on the way is bounded: a deep path is walked to its end, but a link cannot climb all the way back.
#[test]
fn a_link_in_the_depth_climbs_a_hundred_folders_and_not_two_hundred() {
    let (_dir, root) = root();
    let deep = root.join(vec!["d"; 300].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "").unwrap();
    for climbs in [100, 200, 299] {
        symlink(format!("{}d/file", "../".repeat(climbs)), deep.join(format!("up{climbs}"))).unwrap();
    }
    fs::write(root.join(vec!["d"; 201].join("/")).join("file"), "").unwrap();
    let path = |name: &str| format!("{}/{name}", vec!["d"; 300].join("/"));
    assert_eq!(beneath(&root, &path("file"), LeafLinkRule::Follow), Ok(path("file")));
    let two_hundred = format!("{}/file", vec!["d"; 201].join("/"));
    assert_eq!(beneath(&root, &path("up100"), LeafLinkRule::Follow), Ok(two_hundred));
    for name in ["up200", "up299"] {
        assert_eq!(beneath(&root, &path(name), LeafLinkRule::Follow), Err(Refusal::Escape), "{name}");
    }
}
