//! The packages in a fresh system under a real systemd: install as the README says, upgrade, remove and purge.
//! A fresh system is this one without what was installed by hand, in memory: see `boot.sh`. `scripts/soak` runs the
//! same tests in a minimal system of debootstrap's.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::{
    machine::{Machine, SOCKET},
    support::{bin_dir, process},
};

/// The folder in which the README's commands are typed.
const CLONE: &str = "/root/clone";
const OLD: &str = "/root/old.deb";
const OLD_VERSION: &str = "0.0.1";

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with the packages of the programs under test in `new`, and as `old.deb` the same with an older version and unit.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // Below the target directory, so that a later run replaces it.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
        let _ = fs::remove_dir_all(&folder);
        let (new, tree) = (folder.join("new"), folder.join("old"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/package");
        run(Command::new(script).arg("--bin").arg(bin_dir(false)).arg(&new));
        let mut made = fs::read_dir(&new).unwrap().map(|entry| entry.unwrap().path());
        let deb = made.find(|path| path.extension().is_some_and(|end| end == "deb")).unwrap();
        run(Command::new("dpkg-deb").arg("--raw-extract").args([&deb, &tree]));
        replace(&tree.join("DEBIAN/control"), env!("CARGO_PKG_VERSION"), OLD_VERSION);
        let unit = tree.join("usr/lib/systemd/system/stockade.service");
        replace(&unit, "Description=", "Description=older ");
        let build = ["--root-owner-group", "-Znone", "--build"];
        run(Command::new("dpkg-deb").args(build).args([&tree, &folder.join("old.deb")]));
        folder
    })
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// A system that has the packages as files and nothing of them installed.
fn fresh(test: &str) -> Option<Machine> {
    let machine = Machine::boot_fresh(test)?;
    let built = machine.path(CLONE).join("target/package");
    fs::create_dir_all(&built).unwrap();
    for entry in fs::read_dir(packages().join("new")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), built.join(entry.file_name())).unwrap();
    }
    fs::copy(packages().join("old.deb"), machine.path(OLD)).unwrap();
    machine.write("/srv/project/note.txt", "a note\n");
    Some(machine)
}

/// The shell commands of one section of the README, block by block.
fn readme(section: &str) -> Vec<&'static str> {
    let text = include_str!("../../../README.md");
    let section = text.split("\n## ").find(|part| part.starts_with(section)).expect("a section of the README");
    section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// As if typed by `nobody`, who may use sudo, in a clone in which `scripts/package` has already run.
fn type_in(machine: &Machine, commands: &str) -> String {
    let shell = format!(
        "set -e; export USER=nobody; function sudo {{ \"$@\"; }}; function scripts/package {{ :; }}; cd {CLONE}; {commands}"
    );
    machine.run(&["bash", "-c", &shell])
}

fn install(machine: &Machine) -> String {
    type_in(machine, readme("Install")[0])
}

/// What the README tells an operator to do after the installation.
fn enable(machine: &Machine) {
    type_in(machine, readme("As a service")[0]);
}

fn apt_get(machine: &Machine, verb: &str, what: &str) -> String {
    machine.run(&["apt-get", "--quiet", "--yes", verb, what])
}

/// A command of the user whom the operator added to the group.
fn as_member(machine: &Machine, command: &[&str]) -> String {
    let member = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--init-groups"];
    machine.run(&[&member, command, &["--socket", SOCKET]].concat())
}

#[track_caller]
fn assert_served(machine: &Machine) {
    assert_eq!(as_member(machine, &["stockade", "read", "note.txt"]), "a note\n");
}

fn state_of(machine: &Machine, unit: &str) -> (String, String) {
    let ask = |verb| {
        let output = machine.output(&["systemctl", verb, unit]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    (ask("is-enabled"), ask("is-active"))
}

fn account(machine: &Machine) -> String {
    let entry = machine.run(&["getent", "passwd", "stockade"]);
    let fields: Vec<&str> = entry.trim().split(':').collect();
    assert!(fields[2].parse::<u32>().is_ok_and(|id| id < 1000), "an account of the system: {entry}");
    [fields[4], fields[5], fields[6]].join(":")
}

#[test]
fn an_installation_starts_nothing_until_the_operator_enables_the_socket() {
    let Some(machine) = fresh("an_installation_starts_nothing_until_the_operator_enables_the_socket") else {
        return;
    };
    let said = install(&machine);
    assert!(said.contains("systemctl enable --now stockade.socket"), "{said}");
    assert_eq!(state_of(&machine, "stockade.socket"), ("disabled".into(), "inactive".into()));
    assert_eq!(state_of(&machine, "stockade.service"), ("static".into(), "inactive".into()));
    assert_eq!(account(&machine), "stockade file service:/:/usr/sbin/nologin");
    let user_unit = fs::read_to_string(machine.path("/usr/lib/systemd/user/stockade.service")).unwrap();
    assert!(user_unit.contains("ExecStart=/usr/bin/stockaded "), "{user_unit}");
    // The programs work without a service, too.
    assert_eq!(machine.run(&["stockade", "read", "--root=/srv/project", "note.txt"]), "a note\n");

    enable(&machine);
    assert_served(&machine);
    let served_by = fs::read_link(machine.path(&format!("/proc/{}/exe", machine.main_pid()))).unwrap();
    assert_eq!(served_by, Path::new("/usr/bin/stockaded"));
    as_member(&machine, &["stockade", "mkdir", "folder"]);
    assert!(machine.path("/srv/project/folder").is_dir(), "the root is writable");
    // Nothing else is. The root has become a mount of its own: SECURITY.md says what follows from it.
    let mounts = machine.run(&["cat", &format!("/proc/{}/mountinfo", machine.main_pid())]);
    let is_writable = |at: &str| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields.filter(|fields| fields[4] == at).any(|fields| fields[5].split(',').any(|option| option == "rw"))
    };
    assert_eq!((is_writable("/"), is_writable("/srv/project")), (false, true), "{mounts}");
    let stranger = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "stockade", "info"];
    assert!(!machine.succeeds(&[&stranger[..], &["--socket", SOCKET]].concat()), "not of the group");
}

#[test]
fn the_tarball_serves_from_usr_local() {
    let Some(machine) = fresh("the_tarball_serves_from_usr_local") else { return };
    type_in(&machine, readme("Install")[1]);
    type_in(&machine, "cd stockade-*-linux && sha256sum --check --quiet SHA256SUMS");
    type_in(&machine, &readme("As a service")[0].replace("/usr/share/", "/usr/local/share/"));
    assert_served(&machine);
    let served_by = fs::read_link(machine.path(&format!("/proc/{}/exe", machine.main_pid()))).unwrap();
    assert_eq!(served_by, Path::new("/usr/local/bin/stockaded"));
    let user_unit = fs::read_to_string(machine.path("/usr/local/lib/systemd/user/stockade.service")).unwrap();
    assert!(user_unit.contains("ExecStart=/usr/local/bin/stockaded "), "{user_unit}");
}

#[test]
fn an_upgrade_restarts_a_service_that_runs_and_keeps_its_settings() {
    let Some(machine) = fresh("an_upgrade_restarts_a_service_that_runs_and_keeps_its_settings") else {
        return;
    };
    apt_get(&machine, "install", OLD);
    enable(&machine);
    type_in(&machine, "echo '# mine' >>/etc/stockade/policy.toml");
    assert_served(&machine);
    let (first, unit) = (machine.main_pid(), machine.show("Description"));
    let said = install(&machine);
    assert!(!said.contains("systemctl enable"), "it is enabled: {said}");
    process::eventually("the new version runs", || machine.show("ActiveState") == "active");
    assert_ne!(machine.main_pid(), first);
    assert_eq!(format!("older {}", machine.show("Description")), unit);
    assert_served(&machine);
    assert!(machine.run(&["cat", "/etc/stockade/policy.toml"]).ends_with("# mine\n"));
    assert_eq!(state_of(&machine, "stockade.socket"), ("enabled".into(), "active".into()));

    // A service that waits for its first connection is not started by an upgrade.
    machine.systemctl("stop", "stockade.service");
    type_in(&machine, "apt-get --quiet --yes --reinstall install ./target/package/stockade_*.deb");
    assert_eq!(machine.show("ActiveState"), "inactive");
    assert_served(&machine);
}

/// Kind, mode, owner and content of every file, so far as a package could change it.
fn files(machine: &Machine) -> BTreeMap<String, String> {
    /// State of the kernel, of systemd, of apt and of the tools that change accounts.
    const CHANGE_BY_THEMSELVES: [&str; 15] = [
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/var/log/journal",
        "/var/log/apt",
        "/var/log/dpkg.log",
        "/var/lib/apt",
        "/var/cache/apt",
        "/var/cache/debconf",
        "/etc/passwd-",
        "/etc/group-",
        "/etc/shadow-",
        "/etc/gshadow-",
        "/etc/.pwd.lock",
    ];
    let top = machine.path("/");
    let (mut found, mut open) = (BTreeMap::new(), vec![PathBuf::from("/")]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(top.join(folder.strip_prefix("/").unwrap())).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if CHANGE_BY_THEMSELVES.iter().any(|name| path == Path::new(name)) {
                continue;
            }
            found.insert(path.to_string_lossy().into_owned(), facts(&path, &entry.path()));
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            }
        }
    }
    found
}

fn facts(inside: &Path, path: &Path) -> String {
    let facts = path.symlink_metadata().unwrap();
    let content = if facts.is_symlink() {
        format!("{:?}", fs::read_link(path).unwrap())
    } else if !facts.is_file() || inside.starts_with("/var/lib/dpkg") {
        // dpkg rewrites its own files. What they say of packages is compared by `dpkg-query`.
        String::new()
    } else if inside.starts_with("/usr") {
        format!("{} bytes of {}", facts.len(), facts.mtime())
    } else {
        blake3::hash(&fs::read(path).unwrap()).to_string()
    };
    format!("{:o} {}:{} {content}", facts.mode(), facts.uid(), facts.gid())
}

/// What differs, one line for each path.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let differ = paths.filter(|path| before.get(*path) != after.get(*path));
    differ.map(|path| format!("{path}: {:?}, then {:?}", before.get(path), after.get(path))).collect()
}

fn installed(machine: &Machine) -> String {
    machine.run(&["dpkg-query", "--show", "--showformat=${Package} ${Version} ${Status}\n"])
}

#[test]
fn a_removal_stops_the_service_and_a_purge_leaves_nothing_behind() {
    let Some(machine) = fresh("a_removal_stops_the_service_and_a_purge_leaves_nothing_behind") else {
        return;
    };
    let before = (files(&machine), installed(&machine));
    assert!(before.0.len() > 1000 && before.0.contains_key("/etc/passwd"), "{} files", before.0.len());
    assert!(!before.0.keys().any(|path| path.contains("stockade") && !path.starts_with("/root")), "not fresh");

    install(&machine);
    enable(&machine);
    machine.run(&["systemctl", "--global", "enable", "stockade.socket"]);
    assert_served(&machine);
    as_member(&machine, &["stockade", "mkdir", "folder"]);
    process::eventually("it has an audit", || machine.path("/var/log/stockade/audit.jsonl").exists());

    apt_get(&machine, "remove", "stockade");
    assert!(!machine.path("/usr/bin/stockade").exists());
    for unit in ["stockade.socket", "stockade.service"] {
        assert_eq!(state_of(&machine, unit), (String::new(), "inactive".into()), "{unit}");
    }
    assert!(!machine.path("/run/stockade").exists());
    assert!(machine.path("/etc/stockade/policy.toml").exists(), "the settings stay");
    assert!(machine.path("/var/log/stockade/audit.jsonl").exists(), "the audit stays");

    let said = apt_get(&machine, "purge", "stockade");
    assert!(said.contains("in your roots keep user id"), "{said}");
    // What is in a root is the user's: the folder above, and the state with which the service made it.
    let owner = machine.path("/srv/project/folder").symlink_metadata().unwrap().uid();
    assert_ne!(owner, 0, "the service made it");
    machine.run(&["find", "/srv/project", "-mindepth", "1", "-uid", &owner.to_string(), "-delete"]);
    machine.run(&["chown", "root:root", "/srv/project"]);
    let after = (files(&machine), installed(&machine));
    assert_eq!(differences(&before.0, &after.0), Vec::<String>::new());
    assert_eq!(before.1, after.1);
    let units = machine.run(&["systemctl", "list-units", "--all", "--no-legend", "stockade*"]);
    assert_eq!(units, "", "systemd has forgotten the units");
}

#[test]
fn the_account_is_the_same_without_systemd_sysusers() {
    let Some(machine) = fresh("the_account_is_the_same_without_systemd_sysusers") else { return };
    fs::remove_file(machine.path("/usr/bin/systemd-sysusers")).unwrap();
    install(&machine);
    assert_eq!(account(&machine), "stockade file service:/:/usr/sbin/nologin");
    enable(&machine);
    assert_served(&machine);
    apt_get(&machine, "purge", "stockade");
    assert!(!machine.succeeds(&["getent", "passwd", "stockade"]));
    assert!(!machine.succeeds(&["getent", "group", "stockade"]));
}
