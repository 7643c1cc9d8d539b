//! What the service refuses to start with: wrong policies (exit 2), programs and sockets that others could replace
//! (exit 1), kernels or filters around it that take a layer away (exit 4). Each time it says what, and where.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use support::{NO_STATE, Options, TestJail, bin_dir, daemon_command, json, process::runs_as_root, refused};

struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { dir: TestJail::directory() };
        ground.folder("root", 0o755);
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn socket(&self) -> PathBuf {
        self.path("run/stockade.sock")
    }

    /// `DIR` in the policy is this ground's directory.
    fn with_policy(&self, policy: &str) -> (Option<i32>, String) {
        let file = self.path("policy.toml");
        fs::write(&file, policy.replace("DIR", self.dir.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let mut command = daemon_command(None, &[], None);
        refused(command.arg("--policy").arg(file).arg("--socket").arg(self.socket()))
    }

    #[track_caller]
    fn assert_refused(&self, policy: &str, texts: &[&str]) {
        let (code, said) = self.with_policy(policy);
        assert_eq!(code, Some(2), "{policy}: {said}");
        for text in texts {
            assert!(said.contains(text), "{text:?} is missing in {said:?}");
        }
        assert!(!self.socket().exists(), "nothing was made");
    }
}

#[test]
fn a_root_that_cannot_be_jailed_is_named() {
    let ground = Ground::new();
    ground.folder("root/inner", 0o755);
    ground.folder("open", 0o777);
    fs::write(ground.path("file"), "").unwrap();
    let root = |path: &str| format!("[[root]]\npath = \"{path}\"\n");
    for (policy, texts) in [
        (root("DIR/missing"), ["policy.toml:1:1", "missing", "does not exist"]),
        (root("DIR/file"), ["policy.toml:1:1", "file", "not a directory"]),
        (root("/"), ["policy.toml:1:1", "root /", "the whole file system"]),
        (root("DIR/root") + &root("DIR/root"), ["policy.toml:3:1", "DIR/root", "the same directory"]),
        (root("DIR/root") + &root("DIR/root/../root"), ["policy.toml:3:1", "DIR/root", "the same directory"]),
        (root("DIR/root") + &root("DIR/root/inner"), ["policy.toml:3:1", "DIR/root/inner", "allow_nested"]),
        (root("DIR/open"), ["policy.toml:1:1", "DIR/open", "allow_world_writable"]),
        (root("relative"), ["policy.toml:2:8", "relative", "absolute"]),
        (root("DIR/gone") + "optional = true\n", ["policy.toml", "optional", "no root is left"]),
        ("min_landlock_abi = 3\n".into(), ["policy.toml", "[[root]]", "no root is named"]),
    ] {
        let texts = texts.map(|text| text.replace("DIR", ground.dir.path().to_str().unwrap()));
        ground.assert_refused(&policy, &texts.each_ref().map(String::as_str));
    }
}

#[test]
fn a_policy_that_is_not_understood_is_refused_with_place_and_nearest_key() {
    let ground = Ground::new();
    let policy = |rest: &str| format!("[[root]]\npath = \"DIR/root\"\n{rest}");
    for (rest, texts) in [
        ("[limits]\nmax_raed_bytes = 1\n", ["policy.toml:4:1", "max_raed_bytes", "max_read_bytes"]),
        ("mod = \"ro\"\n", ["policy.toml:3:1", "mod", "mode"]),
        ("mode = \"rx\"\n", ["policy.toml:3:8", "rx", "ro"]),
        ("[limits]\nmax_read_bytes = \"1k\"\n", ["policy.toml:4:18", "max_read_bytes", "number"]),
        ("[limits]\nmax_frame_bytes = 1\n", ["policy.toml:4:19", "max_frame_bytes", "65536"]),
        ("[deny]\nnon_accessible_globs = [\"ok\", \"a[\"]\n", ["policy.toml:4:31", "a[", "unclosed"]),
        ("[[peer]]\nuser = \"no-such-user\"\n", ["policy.toml:3:1", "no-such-user", "no user"]),
        ("[[peer]]\nuid = 1\nroots = [\"/elsewhere\"]\n", ["policy.toml:3:1", "/elsewhere", "no root of this policy"]),
        ("[limits\n", ["policy.toml:3:", "", ""]),
    ] {
        ground.assert_refused(&policy(rest), &texts);
    }
    ground.assert_refused("confinment = \"kernel\"\n", &["policy.toml:1:1", "confinment", "confinement"]);
    // Only root becomes somebody.
    if support::process::is_root() {
        let policy = "run_as = \"user:no-such-user\"\n[[root]]\npath = \"DIR/root\"\n";
        ground.assert_refused(policy, &["no-such-user"]);
    }
}

#[test]
fn an_optional_root_may_be_missing() {
    let jail = TestJail::with_policy("[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT-gone\"\noptional = true\n");
    let info = jail.call("coder::info", json!({})).unwrap();
    assert_eq!(info["base_paths"].as_array().unwrap().len(), 1);
    assert!(jail.log().contains("root-gone does not exist; left out"), "{}", jail.log());
}

#[test]
fn what_is_said_knowingly_is_allowed() {
    let policy = "[[root]]\npath = \"ROOT\"\nallow_world_writable = true\n[[root]]\npath = \"ROOT/inner\"\nallow_nested = true\n";
    let options = Options { policy: Some(policy.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir(root.join("inner")).unwrap();
        fs::set_permissions(root, fs::Permissions::from_mode(0o777)).unwrap();
    });
    assert_eq!(jail.call("coder::info", json!({})).unwrap()["base_paths"].as_array().unwrap().len(), 2);
}

#[test]
fn a_policy_that_others_may_write_is_refused() {
    let ground = Ground::new();
    let file = ground.path("policy.toml");
    fs::write(&file, "[[root]]\npath = \"/srv\"\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = daemon_command(None, &[], None);
    let (code, said) = refused(command.arg("--policy").arg(&file).arg("--socket").arg(ground.socket()));
    assert_eq!(code, Some(2));
    assert!(said.contains("policy.toml") && said.contains("chmod o-w"), "{said}");
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for (arguments, text) in [
        (&["--root"][..], "--root"),
        (&["--nonsense"], "--nonsense"),
        (&["--root", ".", "--policy", "x"], "exclude each other"),
        (&[], "--root DIR"),
        (&["--inetd", "--root", "."], "standard input"),
    ] {
        let (code, said) = refused(daemon_command(None, &[], None).args(arguments));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(text), "{said}");
    }
}

/// `stockaded` with another worker beside it, or none.
fn installation(ground: &Ground, worker: Option<&Path>) -> PathBuf {
    let bin = ground.folder("bin", 0o755);
    fs::copy(bin_dir(false).join("stockaded"), bin.join("stockaded")).unwrap();
    if let Some(worker) = worker {
        fs::copy(worker, bin.join("stockade-worker")).unwrap();
    }
    bin
}

fn start_from(ground: &Ground, bin: &Path) -> (Option<i32>, String) {
    let mut command = daemon_command(None, &[], Some(bin));
    refused(command.arg("--root").arg(ground.path("root")).arg("--socket").arg(ground.socket()))
}

#[test]
fn a_missing_worker_is_named_with_where_it_was_looked_for() {
    let ground = Ground::new();
    let bin = installation(&ground, None);
    let (code, said) = start_from(&ground, &bin);
    assert_eq!(code, Some(1));
    assert!(said.contains("stockade-worker is missing") && said.contains("libexec"), "{said}");
}

#[test]
fn a_worker_that_others_may_write_is_not_run() {
    let ground = Ground::new();
    let bin = installation(&ground, Some(&bin_dir(false).join("stockade-worker")));
    let worker = bin.join("stockade-worker");
    fs::set_permissions(&worker, fs::Permissions::from_mode(0o757)).unwrap();
    let (code, said) = start_from(&ground, &bin);
    assert_eq!(code, Some(1));
    assert!(said.contains("may be written by others"), "{said}");
    fs::remove_file(&worker).unwrap();
    std::os::unix::fs::symlink(bin_dir(false).join("stockade-worker"), &worker).unwrap();
    let (code, said) = start_from(&ground, &bin);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("stockade-worker"), "{said}");
}

#[test]
fn a_worker_of_somebody_else_is_not_run() {
    if !runs_as_root("a_worker_of_somebody_else_is_not_run") {
        return;
    }
    let ground = Ground::new();
    let bin = installation(&ground, Some(&bin_dir(false).join("stockade-worker")));
    std::os::unix::fs::chown(bin.join("stockade-worker"), Some(4242), Some(4242)).unwrap();
    let (code, said) = start_from(&ground, &bin);
    assert_eq!(code, Some(1));
    assert!(said.contains("belongs to uid 4242"), "{said}");
}

/// 64 stacks of 1 MiB do not fit into 64 MiB of address space.
#[test]
fn a_worker_that_cannot_confine_itself_says_why() {
    let ground = Ground::new();
    let (code, said) =
        ground.with_policy("[[root]]\npath = \"DIR/root\"\n[workers]\nthreads = 64\nmax_memory_bytes = 67108864\n");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("could not confine itself; it reports"), "{said}");
    assert!(said.contains("thread: "), "{said}");
}

#[test]
fn a_program_that_is_no_worker_proves_nothing() {
    let ground = Ground::new();
    let bin = installation(&ground, Some(Path::new("/bin/true")));
    let (code, said) = start_from(&ground, &bin);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("worker"), "{said}");
}

/// Not a claim: the process that the next ones start. Hides a system call from itself and becomes a program of ours.
#[test]
fn behind_a_filter() {
    let Ok(hidden) = std::env::var("STOCKADE_TEST_HIDE") else { return };
    let (number, errno) = hidden.split_once(' ').unwrap();
    use seccompiler::{SeccompAction, SeccompFilter};
    let filter = SeccompFilter::new(
        [(number.parse().unwrap(), Vec::new())].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.parse().unwrap()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    let arguments: Vec<String> = std::env::var("STOCKADE_TEST_ARGS").unwrap().lines().map(Into::into).collect();
    let program = bin_dir(false).join(std::env::var("STOCKADE_TEST_PROGRAM").unwrap());
    let error = Command::new(program).args(arguments).exec();
    panic!("{error}");
}

fn start_behind_filter(number: i64, errno: i32, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "startup::behind_a_filter", "--nocapture"]);
    command.env("STOCKADE_TEST_HIDE", format!("{number} {errno}"));
    command.env("STOCKADE_TEST_PROGRAM", program);
    command.env("STOCKADE_TEST_ARGS", arguments.join("\n")).envs([NO_STATE]);
    refused(&mut command)
}

#[test]
fn a_hidden_layer_stops_the_start() {
    let ground = Ground::new();
    let (openat2, seccomp) = (libc::SYS_openat2, libc::SYS_seccomp);
    let landlock = [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    let cases = [(openat2, "openat2"), (seccomp, "seccomp")];
    for (number, name) in cases.into_iter().chain(landlock.map(|number| (number, "andlock"))) {
        for errno in [libc::EPERM, libc::ENOSYS] {
            for arguments in [
                vec!["--root".into(), ground.path("root"), "--socket".into(), ground.socket()],
                vec!["--root".into(), ground.path("root"), "--check".into()],
            ] {
                let arguments: Vec<&str> = arguments.iter().map(|text| text.to_str().unwrap()).collect();
                let (code, said) = start_behind_filter(number, errno, "stockaded", &arguments);
                assert_eq!(code, Some(4), "{name} hidden by {errno}: {said}");
                assert!(said.contains(name), "{name} is not named: {said}");
            }
        }
    }
}

#[test]
fn the_command_line_passes_it_on() {
    let ground = Ground::new();
    let root = ground.path("root");
    for arguments in [&["check"][..], &["info", "--root", root.to_str().unwrap()]] {
        let (code, said) = start_behind_filter(libc::SYS_openat2, libc::EPERM, "stockade", arguments);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains("openat2 is missing"), "{said}");
    }
}
