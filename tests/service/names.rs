//! Names that others can change, when root starts the service: nothing is opened, made or obeyed through them with
//! root's rights.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::support::{
    Canaries, Daemon, TestJail, daemon_command, json,
    peer::{NOBODY, acting_as},
    process::{eventually, runs_as_root, status},
    refused,
};

/// A directory of root's with `home` in it, which belongs to nobody, and canaries beside it.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub canaries: Canaries,
}

impl Place {
    pub fn new() -> Self {
        let dir = TestJail::directory();
        let canaries = Canaries::plant(&dir.path().join("outside"));
        let place = Self { dir, canaries };
        place.folder("home", NOBODY, 0o755);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn folder(&self, name: &str, uid: u32, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        self.give(name, uid, mode);
        path
    }

    pub fn give(&self, name: &str, uid: u32, mode: u32) {
        chown(self.path(name), Some(uid), Some(uid)).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// `DIR` stands for the directory.
    pub fn policy(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text.replace("DIR", self.dir.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn command(&self, policy: &Path) -> std::process::Command {
        let mut command = daemon_command(None, &[], None);
        command.arg("--policy").arg(policy).arg("--socket").arg(self.path("run/s"));
        command
    }

    /// Refused with these texts, and nothing outside was touched.
    #[track_caller]
    fn assert_refused(&self, policy: &Path, texts: &[&str]) {
        let (code, said) = refused(&mut self.command(policy));
        assert!(matches!(code, Some(1 | 2)), "{code:?} {said}");
        for text in texts {
            assert!(said.contains(text), "{text:?} is missing in {said}");
        }
        self.canaries.assert_untouched();
    }

    /// Serves as `uid`.
    #[track_caller]
    fn assert_serves_as(&self, policy: &Path, uid: u32) {
        let _ = fs::remove_file(self.path("run/s"));
        let child = self.command(policy).stderr(Stdio::piped()).spawn().unwrap();
        let mut daemon = Daemon { child };
        let socket = self.path("run/s");
        eventually("it serves", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "{policy:?}: it did not start");
            acting_as(uid, uid, || std::os::unix::net::UnixStream::connect(&socket)).is_ok()
        });
        let info = acting_as(uid, uid, || crate::support::Client::connect(&socket).call("coder::info", json!({})));
        info.expect("served");
        let uid = uid.to_string();
        assert!(status(daemon.pid(), "Uid").iter().all(|id| *id == uid));
        daemon.terminate();
        self.canaries.assert_untouched();
    }
}

const ROOT: &str = "[[root]]\npath = \"DIR/home/project\"\n";

#[test]
fn a_root_that_its_owner_replaced_by_a_link_is_not_served() {
    if !runs_as_root("a_root_that_its_owner_replaced_by_a_link_is_not_served") {
        return;
    }
    let place = Place::new();
    place.folder("run", NOBODY, 0o700);
    let policy = |run_as: &str| place.policy("policy.toml", &format!("{run_as}{ROOT}"));
    place.folder("home/project", NOBODY, 0o755);
    place.assert_serves_as(&policy(""), NOBODY);
    place.give("run", 0, 0o700);
    fs::remove_dir(place.path("home/project")).unwrap();
    symlink(place.path("outside"), place.path("home/project")).unwrap();
    std::os::unix::fs::lchown(place.path("home/project"), Some(NOBODY), Some(NOBODY)).unwrap();
    place.assert_refused(&policy(""), &["home/project", "belongs to uid 65534", "uid 0"]);
    place.assert_refused(&policy("run_as = \"user:root\"\n"), &["home/project", "belongs to uid 65534"]);
}

#[test]
fn uid_0_is_inferred_only_where_nobody_else_could_have_chosen_the_root() {
    if !runs_as_root("uid_0_is_inferred_only_where_nobody_else_could_have_chosen_the_root") {
        return;
    }
    let place = Place::new();
    place.folder("run", 0, 0o700);
    place.folder("home/project", 0, 0o755);
    let policy = |text: &str| place.policy("policy.toml", text);
    place.assert_refused(&policy(ROOT), &["home belongs to uid 65534", "run_as = \"user:NAME\""]);
    place.assert_serves_as(&policy(&format!("run_as = \"user:root\"\n{ROOT}")), 0);
    // A checkout of root's in folders of root's, named through links of root's.
    place.folder("checkout", 0, 0o755);
    symlink("checkout", place.path("link")).unwrap();
    place.assert_serves_as(&policy("[[root]]\npath = \"DIR/link\"\n"), 0);
    place.give("checkout", NOBODY, 0o755);
    place.give("run", NOBODY, 0o700);
    place.assert_serves_as(&policy("[[root]]\npath = \"DIR/link\"\n"), NOBODY);
}

#[test]
fn a_root_that_a_third_user_could_replace_is_not_served() {
    if !runs_as_root("a_root_that_a_third_user_could_replace_is_not_served") {
        return;
    }
    let place = Place::new();
    place.folder("run", NOBODY, 0o700);
    place.folder("home/project", NOBODY, 0o755);
    place.folder("theirs", 4242, 0o755);
    place.folder("theirs/project", NOBODY, 0o755);
    let policy = place.policy("policy.toml", "[[root]]\npath = \"DIR/theirs/project\"\n");
    place.assert_refused(&policy, &["theirs belongs to uid 4242", "uid 65534"]);
    let second = format!("{ROOT}[[root]]\npath = \"DIR/theirs/project\"\n");
    place.assert_refused(&place.policy("policy.toml", &second), &["policy.toml:3:1", "theirs belongs to uid 4242"]);
    // Its group, everybody, and everybody with the sticky bit.
    place.give("home", NOBODY, 0o775);
    chown(place.path("home"), None, Some(4242)).unwrap();
    let policy = place.policy("policy.toml", ROOT);
    place.assert_refused(&policy, &["group 4242 may write to"]);
    place.give("home", NOBODY, 0o757);
    place.assert_refused(&policy, &["everybody may write to"]);
    place.give("home", 0, 0o1777);
    place.assert_serves_as(&policy, NOBODY);
}

#[test]
fn the_audit_is_not_written_with_roots_rights_where_others_choose_its_file() {
    if !runs_as_root("the_audit_is_not_written_with_roots_rights_where_others_choose_its_file") {
        return;
    }
    let mut place = Place::new();
    place.folder("run", NOBODY, 0o700);
    place.folder("home/project", NOBODY, 0o755);
    place.folder("home/log", NOBODY, 0o755);
    let secret = place.canaries.secret();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    place.canaries.replant();
    let audited = |path: &str| format!("{ROOT}[audit]\npath = \"DIR/{path}\"\n");
    symlink(&secret, place.path("home/log/audit.jsonl")).unwrap();
    symlink(place.path("outside"), place.path("home/away")).unwrap();
    let policy = place.policy("policy.toml", &audited("home/log/audit.jsonl"));
    place.assert_refused(&policy, &["audit.path", "as uid 65534"]);
    let policy = place.policy("policy.toml", &audited("home/away/new.jsonl"));
    place.assert_refused(&policy, &["audit.path", "as uid 65534"]);

    // A file of the identity in its folder, and one of root's in a folder of root's.
    let policy = place.policy("policy.toml", &audited("home/log/own.jsonl"));
    place.assert_serves_as(&policy, NOBODY);
    assert_eq!(fs::metadata(place.path("home/log/own.jsonl")).unwrap().uid(), NOBODY);
    place.folder("log", 0, 0o755);
    let policy = place.policy("policy.toml", &audited("log/audit.jsonl"));
    place.assert_serves_as(&policy, NOBODY);
    let audit = fs::metadata(place.path("log/audit.jsonl")).unwrap();
    assert_eq!((audit.uid(), audit.mode() & 0o777), (0, 0o600));
    assert!(audit.len() > 0);

    // In a folder with mode 1777 a third user can put a link under the name of the audit file.
    place.folder("spool", 0, 0o1777);
    let private = place.path("home/log/private");
    fs::write(&private, "").unwrap();
    std::os::unix::fs::chown(&private, Some(NOBODY), Some(NOBODY)).unwrap();
    symlink(&private, place.path("spool/audit.jsonl")).unwrap();
    std::os::unix::fs::lchown(place.path("spool/audit.jsonl"), Some(1000), Some(1000)).unwrap();
    for path in ["spool/audit.jsonl", "spool/new.jsonl"] {
        let policy = place.policy("policy.toml", &audited(path));
        place.assert_refused(&policy, &["audit.path", "another user could choose"]);
    }
    assert_eq!(fs::read(&private).unwrap(), b"");

    // A service that is uid 0 itself has nobody to become.
    let policy = place.policy("policy.toml", &format!("run_as = \"user:root\"\n{}", audited("home/away/new.jsonl")));
    place.give("run", 0, 0o700);
    place.assert_refused(&policy, &["audit.path", "belongs to uid 65534"]);
}

#[test]
fn a_policy_that_others_could_have_written_is_not_obeyed() {
    if !runs_as_root("a_policy_that_others_could_have_written_is_not_obeyed") {
        return;
    }
    let place = Place::new();
    place.folder("run", NOBODY, 0o700);
    place.folder("home/project", NOBODY, 0o755);
    let policy = place.policy("policy.toml", ROOT);
    place.assert_serves_as(&policy, NOBODY);
    place.give("policy.toml", NOBODY, 0o644);
    place.assert_refused(&policy, &["policy.toml", "belongs to uid 65534", "chown root"]);
    chown(&policy, Some(0), Some(NOBODY)).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o664)).unwrap();
    place.assert_refused(&policy, &["policy.toml", "group 65534 may write", "chmod g-w"]);
    chown(&policy, Some(0), Some(0)).unwrap();
    place.assert_serves_as(&policy, NOBODY);
    let theirs = place.policy("home/policy.toml", ROOT);
    place.assert_refused(&theirs, &["home belongs to uid 65534", "replace the policy"]);
    symlink(place.path("policy.toml"), place.path("home/link.toml")).unwrap();
    place.assert_refused(&place.path("home/link.toml"), &["home belongs to uid 65534", "replace the policy"]);
}

#[test]
fn a_worker_that_others_could_replace_is_not_run() {
    if !runs_as_root("a_worker_that_others_could_replace_is_not_run") {
        return;
    }
    let place = Place::new();
    place.folder("run", 0, 0o700);
    place.folder("prefix", 0, 0o755);
    let bin = place.folder("prefix/bin", 0, 0o755);
    place.folder("prefix/libexec", 0, 0o755);
    place.folder("prefix/libexec/stockade", NOBODY, 0o755);
    let from = crate::support::bin_dir(false);
    fs::copy(from.join("stockaded"), bin.join("stockaded")).unwrap();
    fs::copy(from.join("stockade-worker"), place.path("prefix/libexec/stockade/stockade-worker")).unwrap();
    let mut command = daemon_command(None, &[], Some(&bin));
    command.arg("--root").arg(place.folder("root", 0, 0o755)).arg("--socket").arg(place.path("run/s"));
    let (code, said) = refused(&mut command);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("libexec/stockade belongs to uid 65534"), "{said}");
}

#[test]
fn the_socket_and_its_folder_are_made_as_the_identity_also_in_a_folder_of_roots() {
    if !runs_as_root("the_socket_and_its_folder_are_made_as_the_identity_also_in_a_folder_of_roots") {
        return;
    }
    let place = Place::new();
    place.folder("home/project", NOBODY, 0o755);
    let policy = place.policy("policy.toml", &format!("{ROOT}[socket]\ngroup = \"daemon\"\n"));
    let gid = fs::read_to_string("/etc/group").unwrap();
    let gid = gid.lines().find_map(|line| line.strip_prefix("daemon:x:")?.split(':').next()?.parse().ok());
    for (socket, folder_uid) in [("made/s", NOBODY), ("home/made/s", NOBODY), ("roots/s", 0)] {
        if folder_uid == 0 {
            place.folder("roots", 0, 0o711);
        }
        let socket = place.path(socket);
        let mut command = daemon_command(None, &[], None);
        command.arg("--policy").arg(&policy).arg("--socket").arg(&socket).stderr(Stdio::null());
        let mut daemon = Daemon { child: command.spawn().unwrap() };
        eventually("it serves", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "{socket:?}: it did not start");
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        let info =
            acting_as(NOBODY, NOBODY, || crate::support::Client::connect(&socket).call("coder::info", json!({})));
        info.expect("served");
        let made = fs::symlink_metadata(&socket).unwrap();
        let folder = fs::metadata(socket.parent().unwrap()).unwrap();
        assert_eq!((made.uid(), Some(made.gid()), made.mode() & 0o7777), (NOBODY, gid, 0o660), "{socket:?}");
        assert_eq!((folder.uid(), folder.mode() & 0o7777), (folder_uid, 0o711), "{socket:?}");
        daemon.terminate();
        assert_eq!(socket.exists(), folder_uid == 0, "its own folder's names it can remove");
    }
}

#[test]
fn a_socket_folder_that_others_could_replace_is_refused() {
    if !runs_as_root("a_socket_folder_that_others_could_replace_is_refused") {
        return;
    }
    let place = Place::new();
    place.folder("home/project", NOBODY, 0o755);
    place.folder("theirs", 4242, 0o755);
    place.folder("theirs/run", NOBODY, 0o700);
    let policy = place.policy("policy.toml", ROOT);
    for (socket, text) in [("theirs/run/s", "theirs belongs to uid 4242"), ("theirs/new/s", "cannot be made")] {
        let mut command = daemon_command(None, &[], None);
        let (code, said) = refused(command.arg("--policy").arg(&policy).arg("--socket").arg(place.path(socket)));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(text), "{said}");
    }
    assert!(!place.path("theirs/new").exists());
}

/// Also when no root is at work: whoever writes inside the outer root would choose what the next start serves.
#[test]
fn a_nested_root_whose_name_goes_through_a_link_inside_the_outer_one_is_refused() {
    let dir = TestJail::directory();
    let canaries = Canaries::plant(&dir.path().join("outside"));
    fs::create_dir_all(dir.path().join("root/deep")).unwrap();
    fs::set_permissions(dir.path().join("root"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("root", dir.path().join("spelling")).unwrap();
    let start = |nested: &str, more: &str| {
        let policy = dir.path().join("policy.toml");
        let text = format!(
            "{more}[[root]]\npath = \"DIR/{nested}\"\nallow_nested = true\noptional = true\n\
             [[root]]\npath = \"DIR/root\"\n"
        );
        fs::write(&policy, text.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
        let mut command = daemon_command(None, &[], None);
        command.arg("--policy").arg(policy).arg("--socket").arg(dir.path().join("run/s"));
        command
    };
    for userspace in ["", "confinement = \"userspace\"\n"] {
        for (at, target, nested) in [
            ("root/in", "../outside", "root/in"),
            ("root/in", "../outside", "spelling/in"),
            ("root/in", "../outside", "root/in/deep"),
            ("root/in", "deep", "root/in"),
            ("root/in", "nowhere", "root/in"),
            ("root/deep/in", "../../outside", "root/deep/in"),
        ] {
            symlink(target, dir.path().join(at)).unwrap();
            let (code, said) = refused(&mut start(nested, userspace));
            fs::remove_file(dir.path().join(at)).unwrap();
            assert_eq!(code, Some(2), "{nested}: {said}");
            let link = format!("{} is a symbolic link inside root", dir.path().join(at).display());
            assert!(said.contains(&link), "{nested}: {said}");
        }
    }
    canaries.assert_untouched();
    // Links before the outer root are the operator's own.
    let mut command = start("spelling/deep", "");
    let mut daemon = Daemon { child: command.stderr(Stdio::null()).spawn().unwrap() };
    eventually("it serves", || {
        assert!(daemon.child.try_wait().unwrap().is_none(), "it did not start");
        std::os::unix::net::UnixStream::connect(dir.path().join("run/s")).is_ok()
    });
    daemon.terminate();
}
