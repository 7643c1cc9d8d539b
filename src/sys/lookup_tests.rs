use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
};

use super::*;

struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        disk.chmod("", 0o755);
        disk
    }

    /// The path without links, wherever the temporary folder is.
    fn path(&self, name: &str) -> PathBuf {
        let top = self.0.path().canonicalize().unwrap();
        if name.is_empty() { top } else { top.join(name) }
    }

    fn folder(&self, name: &str, owner: u32, mode: u32) -> &Self {
        fs::create_dir(self.path(name)).unwrap();
        chown(self.path(name), Some(owner), Some(owner)).unwrap();
        self.chmod(name, mode);
        self
    }

    fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn look_up(&self, name: &str) -> LookupResult {
        look_up(&self.path(name)).unwrap()
    }
}

const ADA: u32 = 1000;
const BOB: u32 = 1001;

fn accounts() -> Accounts {
    Accounts::parse("ada:x:1000:1000:\nbob:x:1001:1001:\n", "")
}

/// The foreign chooser as text, or an empty text.
fn foreign(found: &LookupResult, uids: &[u32]) -> String {
    found.foreign_chooser(uids, &accounts()).map(ToString::to_string).unwrap_or_default()
}

/// False where nothing can be given to other users. Where root is promised, a skip fails.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("STOCKADE_TEST_REQUIRE_ROOT").is_none(), "has to run as root");
        eprintln!("skipped: choosers of a path need root");
    }
    is_root
}

#[test]
fn the_answer_is_the_path_without_links_and_dots() {
    let disk = Disk::new();
    fs::create_dir_all(disk.path("a/b")).unwrap();
    fs::write(disk.path("a/file"), "").unwrap();
    symlink("a/./b", disk.path("relative")).unwrap();
    symlink(disk.path("a"), disk.path("absolute")).unwrap();
    for (name, path, rest) in [
        ("a/b", "a/b", ""),
        ("relative/../b/.", "a/b", ""),
        ("absolute/file", "a/file", "file"),
        ("relative/none/more", "a/b/none/more", "none/more"),
    ] {
        let found = disk.look_up(name);
        assert_eq!((&found.path, found.rest.to_str()), (&disk.path(path), Some(rest)), "{name}");
        assert_eq!(found.is_missing, rest.contains("none"));
        assert!(found.passes_through(host::identity(fs::File::open(disk.path("a")).unwrap()).unwrap()));
    }
    assert_eq!(look_up(&disk.path("a/file/below")).unwrap_err(), Errno::NOTDIR);
    symlink("loop", disk.path("loop")).unwrap();
    assert_eq!(look_up(&disk.path("loop")).unwrap_err(), Errno::LOOP);
}

#[test]
fn a_link_is_known_with_the_folders_that_it_lies_in() {
    let disk = Disk::new();
    fs::create_dir_all(disk.path("outer/deep")).unwrap();
    fs::create_dir(disk.path("other")).unwrap();
    symlink(disk.path("outer"), disk.path("before")).unwrap();
    symlink(disk.path("other"), disk.path("outer/deep/inside")).unwrap();
    let outer = disk.look_up("outer").facts.id;
    assert_eq!(disk.look_up("before/deep").link_inside(outer), None);
    let found = disk.look_up("before/deep/inside");
    assert_eq!(found.link_inside(outer), Some(disk.path("outer/deep/inside").as_path()));
    assert!(!found.passes_through(outer));
}

#[test]
fn whoever_owns_or_may_write_a_folder_chooses_what_its_names_are() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    disk.folder("ada", ADA, 0o755).folder("ada/root", 0, 0o755);
    let found = disk.look_up("ada/root");
    assert!(foreign(&found, &[]).contains("ada belongs to uid 1000"), "{}", foreign(&found, &[]));
    assert_eq!(foreign(&found, &[ADA]), "");
    assert!(found.writer_beside_root(&accounts()).is_some());
    // The owner of the last folder cannot replace its name.
    assert_eq!(foreign(&disk.look_up("ada"), &[]), "");

    disk.chmod("ada", 0o775);
    assert_eq!(foreign(&disk.look_up("ada/root"), &[ADA]), "", "her own group");
    chown(disk.path("ada"), None, Some(BOB)).unwrap();
    let found = foreign(&disk.look_up("ada/root"), &[ADA]);
    assert!(found.contains("group 1001 may write to") && found.ends_with("ada"), "{found}");
    disk.chmod("ada", 0o757);
    let found = foreign(&disk.look_up("ada/root"), &[ADA]);
    assert!(found.contains("everybody may write to"), "{found}");
}

#[test]
fn in_a_sticky_folder_the_owner_of_a_name_chooses_it_and_nobody_else_does() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    disk.folder("tmp", 0, 0o1777).folder("tmp/ada", ADA, 0o755).folder("tmp/root", 0, 0o755);
    assert_eq!(foreign(&disk.look_up("tmp/root"), &[]), "");
    assert!(foreign(&disk.look_up("tmp/ada"), &[]).contains("tmp/ada belongs to uid 1000"));
    assert!(foreign(&disk.look_up("tmp/none"), &[]).contains("everybody may write to"), "may be made");
    assert!(disk.look_up("tmp/root").writer_beside_root(&accounts()).is_none());
    assert!(disk.look_up("tmp").writer_beside_root(&accounts()).is_some(), "names in it");
}

#[test]
fn a_link_counts_as_its_owners_choice_and_only_what_led_to_it_as_a_choice_of_links() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    disk.folder("real", 0, 0o755).folder("real/ada", ADA, 0o755).folder("real/ada/end", 0, 0o755);
    symlink("real", disk.path("link")).unwrap();
    let link = |found: &LookupResult| found.foreign_link_chooser(&[], &accounts()).is_some();
    let found = disk.look_up("link/ada/end");
    assert!(!link(&found) && found.foreign_chooser(&[], &accounts()).is_some());
    symlink("end", disk.path("real/ada/last")).unwrap();
    assert!(link(&disk.look_up("link/ada/last")), "a link of root's in a folder of hers");
    std::os::unix::fs::lchown(disk.path("link"), Some(BOB), Some(BOB)).unwrap();
    assert!(foreign(&disk.look_up("link"), &[ADA]).contains("link belongs to uid 1001"));
}

/// With an access list, the group bits apply to everyone in it, so a private group is not enough.
#[test]
fn an_access_list_is_not_taken_for_the_owners_group() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    disk.folder("ada", ADA, 0o755).folder("ada/root", ADA, 0o755);
    // Version 2; user::rwx, user:1001:rwx, group::r-x, mask::rwx, other::r-x.
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 7, BOB), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 5, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let set = rustix::fs::setxattr(disk.path("ada"), "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty());
    if set == Err(Errno::NOTSUP) {
        eprintln!("skipped: the file system of temporary folders has no access lists");
        return;
    }
    set.unwrap();
    let found = foreign(&disk.look_up("ada/root"), &[ADA]);
    assert!(found.contains("access list"), "{found:?}");
}
