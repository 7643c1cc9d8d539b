//! Turns the roots that the operator wrote into open directories. The only part of the policy code that reads the disk.

use std::{
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use super::{DEFAULT, Policy, PolicyError, RootEntry};
use crate::{
    path::{AccessTimes, Mode, Root},
    sys::{
        host,
        lookup::{self, LookupResult},
    },
};

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
        RootEntry { path: self.path.clone(), mode: self.mode, origin: "--root".into(), ..DEFAULT.roots[0].clone() }
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
    pub written_path: PathBuf,
    /// The file or option that the root comes from, for error texts.
    pub origin: String,
}

#[derive(Debug)]
pub struct PreparedRoots {
    /// In the policy's order; the first is primary.
    pub roots: Vec<PreparedRoot>,
    /// One each per entry of `roots`: the folder itself, opened, and who could have chosen it.
    pub found: Vec<LookupResult>,
    /// For the log: optional roots that are not there, and roots whose names fold or may fold.
    pub warnings: Vec<String>,
    /// Optional roots that do not exist, and whose names are inside a root that does: absolute paths whose existing part has
    /// no links, and whose missing part may have `..`, which `Denied` collapses. A client that could create such a name would
    /// choose what the next start serves.
    pub absent_optional: Vec<PathBuf>,
}

struct RootCandidate<'p> {
    entry: &'p RootEntry,
    root: PreparedRoot,
    found: LookupResult,
}

impl Policy {
    /// Opens every root. Follows the links that the operator named, once; from here on only the descriptor and the path
    /// without links count.
    pub fn prepare_roots(&self) -> Result<PreparedRoots, PolicyError> {
        let mut candidates: Vec<RootCandidate<'_>> = Vec::new();
        let mut missing: Vec<(&RootEntry, LookupResult)> = Vec::new();
        let mut warnings = Vec::new();
        let mut add = |entry| -> Result<(), PolicyError> {
            let found = open_root(entry)?;
            if found.is_missing {
                missing.push((entry, found));
                return Ok(());
            }
            let candidate = prepare_root(entry, found)?;
            warnings.extend(check_folding(entry, &candidate.found)?);
            for other in &candidates {
                check_root_pair(other, &candidate)?;
                check_root_pair(&candidate, other)?;
            }
            candidates.push(candidate);
            Ok(())
        };
        PolicyError::refuse_all(self.roots.iter().filter_map(|entry| add(entry).err()).collect())?;
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
        for (entry, found) in &missing {
            for outer in &candidates {
                check_no_link_inside(outer, entry, found)?;
            }
        }
        let warning = |(entry, _): &(&RootEntry, LookupResult)| {
            let RootEntry { origin, path, .. } = entry;
            format!("{origin}: optional root {} does not exist; left out", path.display())
        };
        warnings.extend(missing.iter().map(warning));
        let inside = |found: &LookupResult| candidates.iter().any(|outer| found.passes_through(outer.found.facts.id));
        let absent = missing.iter().filter(|(_, found)| inside(found));
        let absent = absent.map(|(_, found)| found.path.clone()).collect();
        let (roots, found) = candidates.into_iter().map(|candidate| (candidate.root, candidate.found)).unzip();
        Ok(PreparedRoots { roots, found, warnings, absent_optional: absent })
    }
}

fn root_error(entry: &RootEntry, what: &str) -> PolicyError {
    PolicyError::new(&entry.origin, format!("root {}: {what}", entry.path.display()))
}

/// Only an optional root may be missing.
fn open_root(entry: &RootEntry) -> Result<LookupResult, PolicyError> {
    let found = lookup::look_up(&entry.path);
    let found = found.map_err(|errno| root_error(entry, &format!("cannot be resolved: {errno}")))?;
    if found.is_missing && !entry.optional {
        return Err(root_error(entry, "does not exist; create it or say optional = true in a policy file"));
    }
    Ok(found)
}

fn prepare_root(entry: &RootEntry, found: LookupResult) -> Result<RootCandidate<'_>, PolicyError> {
    let fail = |what: &str| root_error(entry, what);
    if !found.rest.as_os_str().is_empty() {
        return Err(fail("not a directory"));
    }
    let path = found.path.clone();
    if path == Path::new("/") {
        return Err(fail("the whole file system cannot be a root; name a directory below it"));
    }
    if path.to_str().is_none() {
        return Err(fail("its real path is not UTF-8, so no reply could name it"));
    }
    // The sticky bit protects entries, not the directory: any user may still create names in it.
    if found.facts.mode & 0o002 != 0 && !entry.allow_world_writable {
        return Err(fail(
            "everybody may write to it; `chmod o-w` it or say allow_world_writable = true in a policy file",
        ));
    }
    let root = Root {
        path,
        mode: entry.mode,
        symlinks: entry.symlinks,
        cross_mounts: entry.cross_mounts,
        hardlinks: entry.hardlinks,
        access_times: match host::records_access_times(found.folder.as_fd()) {
            false => AccessTimes::Kept,
            true if host::OWNER_KEEPS_ATIME => AccessTimes::OwnerOnly,
            true => AccessTimes::Updated,
        },
    };
    let root = PreparedRoot {
        root,
        uid: found.facts.uid,
        gid: found.facts.gid,
        written_path: entry.path.clone(),
        origin: entry.origin.clone(),
    };
    Ok(RootCandidate { entry, root, found })
}

/// Refuses a root where several spellings name one file, because deny globs match only one of them. Returns a warning if the
/// policy accepts that, or if it cannot be determined because only another user may list the root.
fn check_folding(entry: &RootEntry, found: &LookupResult) -> Result<Option<String>, PolicyError> {
    let warning = |what: &str| {
        let RootEntry { origin, path, .. } = entry;
        format!("{origin}: root {}: {what}", path.display())
    };
    match host::name_folding(found.folder.as_fd()) {
        Ok(None) => Ok(None),
        Ok(Some(reason)) if entry.allow_casefold => {
            Ok(Some(warning(&format!("{reason}; another spelling can reach a denied name there"))))
        }
        Ok(Some(reason)) => Err(root_error(
            entry,
            &format!(
                "{reason}, so another spelling could reach a denied name; move the root to a file system that keeps \
                 spellings apart, or set allow_casefold = true in a policy file"
            ),
        )),
        Err(errno) => Ok(Some(warning(&format!("could not check whether its file system ignores case: {errno}")))),
    }
}

/// Below a root its clients decide what a name is: a link there would let them choose what another root serves. The
/// operator's spelling may go through links before it reaches the outer root.
fn check_no_link_inside(outer: &RootCandidate<'_>, entry: &RootEntry, found: &LookupResult) -> Result<(), PolicyError> {
    let Some(link) = found.link_inside(outer.found.facts.id) else { return Ok(()) };
    let what = format!(
        "{} is a symbolic link inside root {}, whose clients could have made it; name the folder that it leads to, or remove the link",
        link.display(),
        outer.root.root.path.display()
    );
    Err(root_error(entry, &what))
}

/// Checks the rules for two roots of which `outer` may contain `inner`. The caller also calls it with the two exchanged.
fn check_root_pair(outer: &RootCandidate<'_>, inner: &RootCandidate<'_>) -> Result<(), PolicyError> {
    let fail = |what: String| Err(PolicyError::new(&inner.entry.origin, what));
    let names = (inner.root.root.path.display(), outer.root.root.path.display());
    check_no_link_inside(outer, inner.entry, &inner.found)?;
    if outer.found.facts.id == inner.found.facts.id {
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
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::*;
    use crate::path::{Denied, Hardlinks, RootNames};

    struct TestRoots(tempfile::TempDir);

    impl TestRoots {
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
        let disk = TestRoots::new(&["b", "a"]);
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
        let disk = TestRoots::new(&["real"]);
        std::os::unix::fs::symlink(disk.path("real"), disk.path("link")).expect("linked");
        let prepared = prepare(&[disk.entry("link")]).expect("a good root");
        let root = &prepared.roots[0];
        assert_eq!((&root.root.path, &root.written_path), (&disk.path("real"), &disk.path("link")));
        refused(&[disk.entry("link"), disk.entry("real")], "the same directory as root");
    }

    #[test]
    fn a_missing_root_is_refused_unless_optional() {
        let disk = TestRoots::new(&["a"]);
        refused(&[disk.entry("a"), disk.entry("none")], "none: does not exist");
        let optional = RootEntry { optional: true, ..disk.entry("none") };
        let prepared = prepare(&[optional.clone(), disk.entry("a")]).expect("the other root is there");
        assert_eq!(prepared.roots.len(), 1);
        assert!(prepared.warnings.len() == 1 && prepared.warnings[0].contains("none does not exist"));
        refused(&[optional], "all are optional and none exists");
    }

    #[test]
    fn an_absent_root_is_reported_where_its_name_lies_inside_a_present_one() {
        let disk = TestRoots::new(&["a", "b"]);
        std::os::unix::fs::symlink(disk.path("a"), disk.path("link")).expect("linked");
        let optional = |name: &str| RootEntry { optional: true, allow_nested: true, ..disk.entry(name) };
        let names = ["link/x/in", "a/./y", "a/none/../z", "b/z"];
        let entries: Vec<_> = names.map(optional).into_iter().chain([disk.entry("a")]).collect();
        let prepared = prepare(&entries).expect("one root is there");
        let names = RootNames { present: &[], absent: &prepared.absent_optional };
        let globs = Policy::embedded(&[]).globs().expect("compile");
        let denied = Denied::new(globs, &[prepared.roots[0].root.clone()], &[], names).expect("no root is denied");
        assert_eq!(prepared.absent_optional.len(), 3, "b/z lies in no root: {:?}", prepared.absent_optional);
        for (name, is_denied) in
            [("x/in", true), ("y", true), ("z", true), ("x", false), ("none", false), ("b/z", false)]
        {
            assert_eq!(denied.is_root_name(0, name.as_bytes()), is_denied, "{name}");
        }
    }

    #[test]
    fn no_root_at_all_is_refused() {
        refused(&[], "no root is named");
    }

    #[test]
    fn only_directories_below_the_top_can_be_roots() {
        let disk = TestRoots::new(&[]);
        fs::write(disk.path("file"), "").expect("written");
        refused(&[disk.entry("file")], "file: not a directory");
        refused(&[disk.entry("/")], "the whole file system cannot be a root");
        refused(&[disk.entry("/proc/../")], "the whole file system cannot be a root");
    }

    #[test]
    fn nested_roots_are_refused_either_way_round_and_the_pair_is_named() {
        let disk = TestRoots::new(&["a", "a/in", "ab"]);
        let pair = format!("root {} lies inside root {};", disk.path("a/in").display(), disk.path("a").display());
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
        let disk = TestRoots::new(&["a"]);
        for mode in [0o777, 0o1777, 0o702] {
            disk.chmod("a", mode);
            refused(&[disk.entry("a")], "everybody may write to it");
            let allowed = RootEntry { allow_world_writable: true, ..disk.entry("a") };
            assert!(prepare(&[allowed]).is_ok());
        }
    }

    #[test]
    fn a_root_whose_name_no_reply_could_carry_is_refused() {
        let disk = TestRoots::new(&[]);
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
