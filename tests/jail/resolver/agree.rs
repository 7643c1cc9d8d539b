//! Over generated trees both resolvers say the same as the kernel: the same device and inode, the same refusal.

use std::{cell::Cell, ffi::OsStr, fs, os::fd::AsFd, os::unix::ffi::OsStrExt, path::Path};

use proptest::prelude::*;
use rustix::fs::OFlags;
use stockade::internals::{
    path::{Root, Symlinks},
    resolve::{LeafLinkRule, Openat2Resolver, StepwiseResolver, follow_links},
};

use super::{
    cases, open,
    opinion::{OURS, folder, is_same, kernel, ours},
    rules, tree,
};

/// Trees of the ordinary run, and paths tried in each: more than five thousand pairs, each under four sets of rules.
const TREES: u32 = 256;
const PATHS: usize = 20;
const RULES: usize = 4;

/// Everything that must hold for one path. True if it led somewhere.
pub fn check(root: &Path, path: &[u8], rules: &Root) -> Result<bool, TestCaseError> {
    let fd = open(root);
    // A link at the end is the thing itself where links are refused.
    let leaf = if rules.symlinks == Symlinks::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
    let expected = kernel(&fd, path, rules, leaf);
    let [by_kernel, by_hand] = OURS.map(|way| ours(way, &fd, path, rules));
    let shown = (OsStr::from_bytes(path), rules.symlinks, rules.cross_mounts);
    prop_assert_eq!(by_kernel, by_hand, "the resolvers disagree about {:?}", shown);
    prop_assert!(is_same(by_hand, expected, rules), "{:?}, the kernel {:?}: {:?}", by_hand, expected, shown);
    if rules.symlinks == Symlinks::Refuse {
        let expected = kernel(&fd, path, rules, OFlags::DIRECTORY);
        prop_assert_eq!(folder(&Openat2Resolver, &fd, path, rules), expected, "{:?}", shown);
        prop_assert_eq!(folder(&StepwiseResolver, &fd, path, rules), expected, "{:?}", shown);
    } else if expected.is_ok() {
        let real = follow_links(fd.as_fd(), path, rules, LeafLinkRule::Follow, |_| false).unwrap();
        let by_libc = fs::canonicalize(tree::at(root, path)).unwrap();
        prop_assert_eq!(tree::at(root, &real), by_libc, "{:?}", shown);
    }
    Ok(expected.is_ok())
}

/// All paths under all rules; how many led somewhere.
pub fn check_all(root: &Path, paths: &[Vec<u8>]) -> Result<usize, TestCaseError> {
    let mut led = 0;
    for symlinks in [Symlinks::Refuse, Symlinks::Beneath] {
        for cross_mounts in [false, true] {
            let rules = rules(root, symlinks, cross_mounts);
            for path in paths {
                led += usize::from(check(root, path, &rules)?);
            }
        }
    }
    Ok(led)
}

#[test]
fn both_resolvers_and_the_kernel_agree() {
    let (tried, led) = (Cell::new(0), Cell::new(0));
    let trees = (tree::nodes(), prop::collection::vec(tree::path(), PATHS));
    proptest!(cases(TREES), |((nodes, paths) in trees)| {
        let (_dir, root) = tree::plant(&nodes);
        led.set(led.get() + check_all(&root, &paths)?);
        tried.set(tried.get() + RULES * paths.len());
    });
    // Two opinions that both refuse everything would agree as well.
    let (tried, led) = (tried.get(), led.get());
    println!("{led} of {tried} paths led somewhere");
    assert!(led * 20 > tried, "only {led} of {tried} paths led somewhere");
}
