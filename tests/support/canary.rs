//! Files outside the root that nothing may read, change, touch or add to. A case passes only if every one of them is
//! as it was: data, mode, owner, times, extended attributes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Stands in every canary; in no reply may it ever appear.
pub const SECRET: &str = "CANARY-7f3a91-OUTSIDE";

#[derive(Debug)]
pub struct Canaries {
    pub dir: PathBuf,
    planted: BTreeMap<PathBuf, Facts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    data: Option<Vec<u8>>,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Canaries {
    pub fn plant(dir: &Path) -> Self {
        fs::create_dir_all(dir.join("deep/er")).unwrap();
        fs::write(dir.join("secret.txt"), format!("{SECRET}\n")).unwrap();
        fs::write(dir.join("deep/er/secret.txt"), format!("{SECRET} deeper\n")).unwrap();
        fs::write(dir.join("empty"), "").unwrap();
        // Names are data, too: a listing of this folder is an escape that can be seen.
        fs::write(dir.join(format!("{SECRET}.name")), "").unwrap();
        // Owner-writable and executable, so that only the jail stands between an attack and a change.
        fs::set_permissions(dir.join("secret.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        Self { dir: dir.to_owned(), planted: survey(dir) }
    }

    pub fn secret(&self) -> PathBuf {
        self.dir.join("secret.txt")
    }

    /// Call this after a test has changed the canaries on purpose, for example their link count.
    pub fn replant(&mut self) {
        self.planted = survey(&self.dir);
    }

    pub fn are_untouched(&self) -> bool {
        survey(&self.dir) == self.planted
    }

    /// Like `are_untouched`, but ignores changes caused by making or removing hard links to the canaries inside the root.
    pub fn are_unwritten(&self) -> bool {
        let written = |facts: &BTreeMap<PathBuf, Facts>| -> BTreeMap<PathBuf, Facts> {
            let but_names = |facts: &Facts| Facts { links: 0, changed: (0, 0), ..facts.clone() };
            facts.iter().map(|(path, facts)| (path.clone(), but_names(facts))).collect()
        };
        written(&survey(&self.dir)) == written(&self.planted)
    }

    pub fn assert_untouched(&self) {
        assert_eq!(survey(&self.dir), self.planted, "something outside the root was touched");
    }
}

/// A reply that holds outside data is an escape.
pub fn holds_secret(reply: &impl std::fmt::Debug) -> bool {
    let text = format!("{reply:?}");
    // As plain text, and in base64 at each of its three alignments.
    [SECRET, "Q0FOQVJZLTdmM2E5MS1PVVRTSURF", "NBTkFSWS03ZjNhOTEtT1VUU0lER", "DQU5BUlktN2YzYTkxLU9VVFNJRE"]
        .iter()
        .any(|secret| text.contains(secret))
}

pub fn assert_no_secret(reply: &impl std::fmt::Debug) {
    assert!(!holds_secret(reply), "outside data in a reply: {reply:?}");
}

fn survey(dir: &Path) -> BTreeMap<PathBuf, Facts> {
    let mut all = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        // A missing canary shows in the comparison with what was planted.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let facts = Facts {
            data: metadata.is_file().then(|| fs::read(&path).unwrap()),
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            links: metadata.nlink(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            attributes: attributes(&path),
        };
        all.insert(path, facts);
    }
    all
}

fn attributes(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0u8; 4096];
    let Ok(len) = rustix::fs::llistxattr(path.as_os_str().as_bytes(), &mut names[..]) else {
        return Vec::new();
    };
    names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0u8; 4096];
            let len = rustix::fs::lgetxattr(path.as_os_str().as_bytes(), name, &mut value[..]).unwrap_or(0);
            (name.to_vec(), value[..len].to_vec())
        })
        .collect()
}
