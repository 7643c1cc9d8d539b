//! Roots as the operator wrote them, turned into real directories. The only part of a policy that looks at the disk.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use super::{Policy, PolicyError, RootEntry};
use crate::path::{Hardlinks, Mode, Root, Symlinks};

/// `--root DIR[:ro|:rw]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootArg {
    pub path: PathBuf,
    pub mode: Mode,
}

impl RootArg {
    /// Only the exact suffixes count: `a:b` and `a:RO` are directories of that name.
    pub fn parse(argument: &OsStr) -> Result<Self, PolicyError> {
        let bytes = argument.as_bytes();
        let (path, mode) = match bytes.strip_suffix(b":ro") {
            Some(path) => (path, Mode::Ro),
            None => (bytes.strip_suffix(b":rw").unwrap_or(bytes), Mode::Rw),
        };
        if path.is_empty() {
            return Err(PolicyError::new("--root", "names no directory; expected DIR, DIR:ro or DIR:rw"));
        }
        Ok(Self { path: OsStr::from_bytes(path).into(), mode })
    }

    pub(super) fn entry(&self) -> RootEntry {
        RootEntry {
            path: self.path.clone(),
            mode: self.mode,
            symlinks: Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: Hardlinks::Allow,
            optional: false,
            allow_nested: false,
            allow_world_writable: false,
            origin: "--root".into(),
        }
    }
}

/// A root that exists, under its real path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRoot {
    pub root: Root,
    /// Owner, for `run_as = "root-owner"`.
    pub uid: u32,
    pub gid: u32,
    /// As the operator wrote it.
    pub given: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRoots {
    /// In the policy's order; the first is primary.
    pub roots: Vec<PreparedRoot>,
    /// For the log: optional roots that are not there.
    pub warnings: Vec<String>,
    /// Optional roots that do not exist and whose names lie inside a root that does: absolute, the existing part
    /// without links. A client that could create one of these names would choose what the next start serves.
    pub absent: Vec<PathBuf>,
}

struct Candidate<'p> {
    entry: &'p RootEntry,
    root: PreparedRoot,
    inode: (u64, u64),
}

/// Where a file of the service's own really lies; None if it is not there.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

impl Policy {
    /// Follows a symlink that the operator named, once; from here on only the real path counts.
    pub fn prepare_roots(&self) -> Result<PreparedRoots, PolicyError> {
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        let (mut warnings, mut absent) = (Vec::new(), Vec::new());
        for entry in &self.roots {
            let Some(candidate) = prepare(entry)? else {
                warnings.push(format!(
                    "{}: optional root {} does not exist; left out",
                    entry.origin,
                    entry.path.display()
                ));
                absent.extend(absent_path(&entry.path));
                continue;
            };
            for other in &candidates {
                check_pair(other, &candidate)?;
                check_pair(&candidate, other)?;
            }
            candidates.push(candidate);
        }
        if candidates.is_empty() {
            let what = if self.roots.is_empty() {
                "no root is named; add a [[root]] with a `path`, or --root DIR"
            } else {
                "no root is left: all are optional and none exists"
            };
            return Err(PolicyError::new(&self.source, what));
        }
        if candidates.len() > usize::from(u16::MAX) {
            return Err(PolicyError::new(&self.source, format!("more than {} roots", u16::MAX)));
        }
        let roots: Vec<PreparedRoot> = candidates.into_iter().map(|candidate| candidate.root).collect();
        absent.retain(|path| roots.iter().any(|root| path.starts_with(&root.root.path)));
        Ok(PreparedRoots { roots, warnings, absent })
    }
}

/// The real path of the longest part of `path` that exists, and the remaining names behind it.
fn absent_path(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    let (existing, real) = whole.ancestors().find_map(|part| Some((part, real_path(part)?)))?;
    Some(real.join(whole.strip_prefix(existing).ok()?))
}

/// None for an optional root that is not there.
fn prepare(entry: &RootEntry) -> Result<Option<Candidate<'_>>, PolicyError> {
    let given = entry.path.display();
    let fail = |what: String| PolicyError::new(&entry.origin, format!("root {given}: {what}"));
    let path = match fs::canonicalize(&entry.path) {
        Ok(path) => path,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && entry.optional => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(fail("does not exist; create it or say optional = true in a policy file".into()));
        }
        Err(error) => return Err(fail(format!("cannot be resolved: {error}"))),
    };
    let metadata = fs::metadata(&path).map_err(|error| fail(format!("cannot be examined: {error}")))?;
    if !metadata.is_dir() {
        return Err(fail("not a directory".into()));
    }
    if path == Path::new("/") {
        return Err(fail("the whole file system cannot be a root; name a directory below it".into()));
    }
    if path.to_str().is_none() {
        return Err(fail("its real path is not UTF-8, so no reply could name it".into()));
    }
    // The sticky bit protects entries, not the directory: anybody may still plant names in it.
    if metadata.permissions().mode() & 0o002 != 0 && !entry.allow_world_writable {
        return Err(fail(
            "everybody may write to it; `chmod o-w` it or say allow_world_writable = true in a policy file"
                .into(),
        ));
    }
    let root = Root {
        path,
        mode: entry.mode,
        symlinks: entry.symlinks,
        cross_mounts: entry.cross_mounts,
        hardlinks: entry.hardlinks,
    };
    let root = PreparedRoot { root, uid: metadata.uid(), gid: metadata.gid(), given: entry.path.clone() };
    Ok(Some(Candidate { entry, root, inode: (metadata.dev(), metadata.ino()) }))
}

/// What two roots may not be to each other; called both ways round.
fn check_pair(outer: &Candidate<'_>, inner: &Candidate<'_>) -> Result<(), PolicyError> {
    let fail = |what: String| Err(PolicyError::new(&inner.entry.origin, what));
    let names = (inner.root.root.path.display(), outer.root.root.path.display());
    if outer.inode == inner.inode {
        return fail(format!("root {}: the same directory as root {}", names.0, names.1));
    }
    if !inner.root.root.path.starts_with(&outer.root.root.path) {
        return Ok(());
    }
    if !inner.entry.allow_nested {
        return fail(format!(
            "root {} lies inside root {}; say allow_nested = true on the inner one if that is meant",
            names.0, names.1
        ));
    }
    // Landlock rights of a folder hold for all below it and cannot be taken away further down.
    if inner.root.root.mode < outer.root.root.mode {
        return fail(format!(
            "read-only root {} lies inside writable root {}; the kernel cannot protect it there",
            names.0, names.1
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Disk(tempfile::TempDir);

    impl Disk {
        /// Folders with mode 0755 whatever the umask.
        fn new(folders: &[&str]) -> Self {
            let disk = Self(tempfile::tempdir().expect("a folder"));
            for folder in folders {
                fs::create_dir_all(disk.path(folder)).expect("created");
                disk.chmod(folder, 0o755);
            }
            disk
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().expect("real").join(name)
        }

        fn chmod(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("chmod");
        }

        fn entry(&self, name: &str) -> RootEntry {
            RootArg { path: self.path(name), mode: Mode::Rw }.entry()
        }
    }

    fn prepare(entries: &[RootEntry]) -> Result<PreparedRoots, String> {
        let policy = Policy { roots: entries.to_vec(), ..Policy::embedded(&[]) };
        policy.prepare_roots().map_err(|error| error.to_string())
    }

    fn refused(entries: &[RootEntry], text: &str) {
        let error = prepare(entries).expect_err(text);
        assert!(error.contains(text), "{error}");
    }

    #[test]
    fn roots_keep_their_order_rules_and_owner() {
        let disk = Disk::new(&["b", "a"]);
        let ro = RootEntry { mode: Mode::Ro, hardlinks: Hardlinks::Refuse, ..disk.entry("a") };
        let prepared = prepare(&[disk.entry("b"), ro]).expect("good roots");
        let paths: Vec<_> = prepared.roots.iter().map(|root| root.root.path.clone()).collect();
        assert_eq!(paths, [disk.path("b"), disk.path("a")]);
        let root = &prepared.roots[1];
        assert_eq!((root.root.mode, root.root.hardlinks), (Mode::Ro, Hardlinks::Refuse));
        let owner = fs::metadata(disk.path("a")).expect("there");
        assert_eq!((root.uid, root.gid), (owner.uid(), owner.gid()));
        assert!(prepared.warnings.is_empty());
    }

    #[test]
    fn a_link_that_the_operator_names_is_followed_once() {
        let disk = Disk::new(&["real"]);
        std::os::unix::fs::symlink(disk.path("real"), disk.path("link")).expect("linked");
        let prepared = prepare(&[disk.entry("link")]).expect("a good root");
        let root = &prepared.roots[0];
        assert_eq!((&root.root.path, &root.given), (&disk.path("real"), &disk.path("link")));
        refused(&[disk.entry("link"), disk.entry("real")], "the same directory as root");
    }

    #[test]
    fn a_missing_root_is_refused_unless_optional() {
        let disk = Disk::new(&["a"]);
        refused(&[disk.entry("a"), disk.entry("none")], "none: does not exist");
        let optional = RootEntry { optional: true, ..disk.entry("none") };
        let prepared = prepare(&[optional.clone(), disk.entry("a")]).expect("the other root is there");
        assert_eq!(prepared.roots.len(), 1);
        assert!(prepared.warnings.len() == 1 && prepared.warnings[0].contains("none does not exist"));
        refused(&[optional], "all are optional and none exists");
    }

    #[test]
    fn an_absent_root_is_reported_where_its_name_lies_inside_a_present_one() {
        let disk = Disk::new(&["a", "b"]);
        std::os::unix::fs::symlink(disk.path("a"), disk.path("link")).expect("linked");
        let optional = |name: &str| RootEntry { optional: true, allow_nested: true, ..disk.entry(name) };
        let entries = [optional("link/x/in"), disk.entry("a"), optional("a/./y"), optional("b/z")];
        let prepared = prepare(&entries).expect("one root is there");
        assert_eq!(prepared.absent, [disk.path("a/x/in"), disk.path("a/y")]);
    }

    #[test]
    fn no_root_at_all_is_refused() {
        refused(&[], "no root is named");
    }

    #[test]
    fn only_directories_below_the_top_can_be_roots() {
        let disk = Disk::new(&[]);
        fs::write(disk.path("file"), "").expect("written");
        refused(&[disk.entry("file")], "file: not a directory");
        refused(&[disk.entry("/")], "the whole file system cannot be a root");
        refused(&[disk.entry("/proc/../")], "the whole file system cannot be a root");
    }

    #[test]
    fn nested_roots_are_refused_either_way_round_and_the_pair_is_named() {
        let disk = Disk::new(&["a", "a/in", "ab"]);
        let pair =
            format!("root {} lies inside root {};", disk.path("a/in").display(), disk.path("a").display());
        refused(&[disk.entry("a"), disk.entry("a/in")], &pair);
        refused(&[disk.entry("a/in"), disk.entry("a")], &pair);
        assert!(prepare(&[disk.entry("a"), disk.entry("ab")]).is_ok(), "a common beginning is not nesting");

        let allowed = RootEntry { allow_nested: true, ..disk.entry("a/in") };
        assert!(prepare(&[allowed.clone(), disk.entry("a")]).is_ok());
        let outer = RootEntry { allow_nested: true, ..disk.entry("a") };
        refused(&[outer, disk.entry("a/in")], &pair);

        let read_only = RootEntry { mode: Mode::Ro, ..allowed };
        refused(&[disk.entry("a"), read_only.clone()], "the kernel cannot protect it there");
        let outer = RootEntry { mode: Mode::Ro, ..disk.entry("a") };
        assert!(prepare(&[outer.clone(), read_only]).is_ok());
        let writable = RootEntry { allow_nested: true, ..disk.entry("a/in") };
        assert!(prepare(&[outer, writable]).is_ok(), "a writable part of a read-only root");
    }

    #[test]
    fn a_world_writable_root_is_refused_sticky_or_not() {
        let disk = Disk::new(&["a"]);
        for mode in [0o777, 0o1777, 0o702] {
            disk.chmod("a", mode);
            refused(&[disk.entry("a")], "everybody may write to it");
            let allowed = RootEntry { allow_world_writable: true, ..disk.entry("a") };
            assert!(prepare(&[allowed]).is_ok());
        }
    }

    #[test]
    fn a_root_whose_name_no_reply_could_carry_is_refused() {
        let disk = Disk::new(&[]);
        let path = disk.path("").join(OsStr::from_bytes(b"\xff"));
        fs::create_dir(&path).expect("created");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        refused(&[RootEntry { path, ..disk.entry("") }], "not UTF-8");
    }

    #[test]
    fn errors_name_the_line_of_the_root() {
        let policy = Policy::parse("\n[[root]]\npath = \"/no/such/folder\"\n", "p.toml").expect("valid");
        let error = policy.prepare_roots().expect_err("missing").to_string();
        assert!(error.starts_with("p.toml:2:1: root /no/such/folder: does not exist"), "{error}");
    }
}
