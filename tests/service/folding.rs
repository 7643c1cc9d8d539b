//! Roots where several spellings name one file are refused at start and by `stockade policy check`, unless the policy
//! accepts them: a deny glob knows one spelling, and upper and lower case.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{
    NO_STATE, Options, TestJail, bin_dir, daemon_command,
    fuse::{Dead, Fuse},
    in_own_mounts, json,
    process::{eventually, note, runs_as_root, skip},
    refused,
};

const FS_CASEFOLD_FL: u32 = 0x4000_0000;
/// Flags that ordinary folders of ext4 have: an index, extents.
const ORDINARY_FLAGS: u32 = 0x8_1000;

const ROOT: &str = "[[root]]\npath = \"DIR/root\"\n";

fn policy(dir: &Path, text: &str) -> String {
    let file = dir.join("policy.toml");
    fs::write(&file, text.replace("DIR", dir.to_str().unwrap())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    file.to_str().unwrap().to_owned()
}

fn start_is_refused(dir: &Path, through: &[String]) -> (Option<i32>, String) {
    let mut command = daemon_command(None, through, None);
    command.arg("--socket").arg(dir.join("run/stockade.sock"));
    refused(command.arg("--policy").arg(policy(dir, ROOT)))
}

fn check_policy(through: &[String], policy: &str) -> (i32, String) {
    let (first, rest) = through.split_first().unwrap();
    let mut command = Command::new(first);
    command.args(rest).arg(bin_dir(false).join("stockade")).args(["policy", "check", policy]);
    command.env(NO_STATE.0, NO_STATE.1);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[track_caller]
fn assert_names(said: &str, dir: &Path, what: &str) {
    let root = format!("root {}: ", dir.join("root").display());
    for text in ["policy.toml:1:1", &root, what, "allow_casefold = true"] {
        assert!(said.contains(text), "{text:?} is missing in {said:?}");
    }
}

/// The kernel asks a file system of the test's own for the folder's flags.
#[test]
fn a_root_with_the_casefold_flag_is_refused_unless_the_policy_accepts_it() {
    let test = "a_root_with_the_casefold_flag_is_refused_unless_the_policy_accepts_it";
    if !runs_as_root(test) {
        return;
    }
    let ground = TestJail::directory();
    let dir = ground.path();
    fs::create_dir(dir.join("root")).unwrap();
    let Some(mut fuse) = Fuse::mount(&dir.join("root"), Dead::Reads) else {
        skip(&format!("{test} needs /dev/fuse"));
        return;
    };
    fuse.revive();
    fuse.set_flags(FS_CASEFOLD_FL | ORDINARY_FLAGS);

    let (code, said) = start_is_refused(dir, &fuse.through());
    assert_eq!(code, Some(2), "{said}");
    assert_names(&said, dir, "casefold flag");
    assert!(!dir.join("run").exists(), "nothing was made");
    let (code, said) = check_policy(&fuse.through(), &policy(dir, ROOT));
    assert_eq!(code, 1, "{said}");
    assert_names(&said, dir, "casefold flag");

    let accepted = format!("{ROOT}allow_casefold = true\n");
    let (code, said) = check_policy(&fuse.through(), &policy(dir, &accepted));
    assert!(code == 0 && said.contains("another spelling can reach a denied name"), "{said}");
    let served = |policy: &str| {
        let policy = policy.replace("DIR", dir.to_str().unwrap());
        let jail = TestJail::with(Options { policy: Some(policy), through: fuse.through(), ..Options::default() });
        jail.call("coder::info", json!({})).unwrap();
        jail
    };
    let jail = served(&accepted);
    eventually("it warns", || jail.log().contains("another spelling can reach a denied name"));
    drop(jail);

    fuse.set_flags(ORDINARY_FLAGS);
    let jail = served(ROOT);
    assert!(!jail.log().contains("another spelling"), "{}", jail.log());
}

/// Real file systems that fold, as far as this kernel and its tools have them.
#[test]
fn file_systems_that_fold_names_are_refused() {
    let test = "file_systems_that_fold_names_are_refused";
    if !runs_as_root(test) {
        return;
    }
    let image = "truncate -s 16M $d/image";
    let casefold = "chattr +F $d/mounted/root; mount --bind $d/mounted/root $d/root";
    let tmpfs = format!("mount -t tmpfs -o casefold tmpfs $d/mounted; mkdir -m 755 $d/mounted/root; {casefold}");
    let ext4 = format!(
        "{image}; mkfs.ext4 -q -O casefold $d/image; mount -o loop $d/image $d/mounted; \
         mkdir -m 755 $d/mounted/root; {casefold}"
    );
    let vfat = format!("{image}; mkfs.vfat $d/image >&2; mount -o loop,umask=022 $d/image $d/root");
    for (name, script, reason) in
        [("tmpfs", tmpfs, "casefold flag"), ("ext4", ext4, "casefold flag"), ("vfat", vfat, "vfat")]
    {
        let ground = TestJail::directory();
        let dir = ground.path();
        fs::create_dir(dir.join("root")).unwrap();
        fs::create_dir(dir.join("mounted")).unwrap();
        let through = in_own_mounts(&script);
        let mut probe = Command::new(&through[0]);
        // What the script expects of a daemon's arguments.
        probe.args(&through[1..]).args(["true", "--socket"]).arg(dir.join("run/stockade.sock"));
        if !probe.stderr(Stdio::null()).status().unwrap().success() {
            // Few kernels have any of them; the test above has one of its own.
            note(&format!("this machine cannot make and mount a {name} that folds names"));
            continue;
        }
        let (code, said) = start_is_refused(dir, &through);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert_names(&said, dir, reason);
    }
}
