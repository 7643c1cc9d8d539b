//! The service's own state at the top of a root, as its documents describe it.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// True if a name at the top of a root is reserved for state.
pub fn is_state(name: impl AsRef<OsStr>) -> bool {
    let name = name.as_ref().to_string_lossy();
    let digits = |rest: &str| rest.len() == 16 && rest.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    name == ".stockade" || name.strip_prefix(".stockade-").is_some_and(digits)
}

/// Everything with such a name, in order. Without what earlier versions made.
pub fn folders(root: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found: Vec<_> =
        names.filter(|name| is_state(name) && name != ".stockade").map(|name| root.join(name)).collect();
    found.sort();
    found
}

/// The one that is there.
pub fn folder(root: &Path) -> PathBuf {
    let found = folders(root);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// True if a worker has unfinished changes or has left some.
pub fn has_work(root: &Path) -> bool {
    let earlier = fs::read_dir(root.join(".stockade")).into_iter().flatten();
    let mut states = folders(root).into_iter().chain(earlier.map(|entry| entry.unwrap().path()));
    states.any(|folder| folder.join("work").exists())
}
