//! The resolvers against each other and against opinions that share no code with them: another crate's binding of
//! openat2, and the C library's realpath.
#![allow(unsafe_code, clippy::unwrap_used, reason = "the other crate returns bare descriptors; mounts are made")]

mod agree;
mod chains;
mod mounts;
mod opinion;
mod swap;
mod tree;

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use proptest::prelude::ProptestConfig;
use stockade::internals::{
    path::{AccessTimes, Hardlinks, Mode, Root, Symlinks},
    resolve::{Openat2Resolver, PathResolver, StepwiseResolver},
    sys::host,
};

/// Rounds of the long run, or `otherwise`.
fn rounds(otherwise: u32) -> u32 {
    std::env::var("STOCKADE_SOAK_ROUNDS").map_or(otherwise, |rounds| rounds.parse().expect("a number"))
}

/// Cases of a comparison. No file is left beside the sources: a failure prints its tree.
fn cases(otherwise: u32) -> ProptestConfig {
    ProptestConfig { cases: rounds(otherwise), failure_persistence: None, ..ProptestConfig::default() }
}

fn rules(path: &Path, symlinks: Symlinks, cross_mounts: bool) -> Root {
    Root {
        path: path.into(),
        mode: Mode::Ro,
        symlinks,
        cross_mounts,
        hardlinks: Hardlinks::Allow,
        access_times: AccessTimes::OwnerOnly,
    }
}

fn open(path: &Path) -> OwnedFd {
    host::open_directory(path).expect("the folder opens")
}

#[test]
fn what_comes_back_can_only_be_named_not_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    let root = open(dir.path());
    let rules = rules(dir.path(), Symlinks::Refuse, false);
    for resolver in [&Openat2Resolver as &dyn PathResolver, &StepwiseResolver] {
        let fd = resolver.open_directory(root.as_fd(), b"a", &rules).expect("resolves");
        assert!(stockade::internals::sys::process::is_path_directory(fd.as_fd()), "{:?}", resolver.kind());
    }
}
