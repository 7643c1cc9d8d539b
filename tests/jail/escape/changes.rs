//! Attacks by name, with every function that changes something: as what is changed, and as the place something is put.
//! In every build nothing outside may change, nothing of it may come inside, and the service still answers. Those that
//! check all there is to check must also answer as the contract says.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{
    attack::{Answers, Ground, INSIDE, outcomes},
    layers,
    support::{
        Build, Canaries, Client, Failure, Options, TestJail, Value, canary::SECRET, in_own_mounts, json,
        state::is_state,
    },
};

/// Refusals are immediate; this is patience with a loaded machine.
const CALL_BOUND: Duration = Duration::from_secs(5);

/// What is done with a hostile name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Create,
    Overwrite,
    Update,
    Delete,
    MoveFrom,
    MoveTo,
    CopyFrom,
    CopyTo,
    Mkdir,
}

const ROLES: [Role; 9] = [
    Role::Create,
    Role::Overwrite,
    Role::Update,
    Role::Delete,
    Role::MoveFrom,
    Role::MoveTo,
    Role::CopyFrom,
    Role::CopyTo,
    Role::Mkdir,
];

impl Role {
    /// Every way to ask for it.
    pub fn requests(self, name: &str) -> Vec<(&'static str, Value)> {
        const CREATE: &str = "coder::create-file";
        const DELETE: &str = "coder::delete-file";
        let once = |function, params: Value| {
            let mut atomic = params.clone();
            atomic["atomic"] = json!(true);
            vec![(function, params), (function, atomic)]
        };
        let relocate = |function, from: &str, to: &str, overwrite: bool| {
            let mut entry = json!({"from": from, "to": to, "overwrite": overwrite});
            if function == "coder::copy" {
                entry["recursive"] = json!(true);
            }
            once(function, json!({"files": [entry]}))
        };
        match self {
            Self::Create => once(CREATE, json!({"files": [{"path": name, "content": "mine\n"}]})),
            Self::Overwrite => once(CREATE, json!({"files": [{"path": name, "content": "mine\n", "overwrite": true}]})),
            Self::Update => once(
                "coder::update-file",
                json!({"files": [{"path": name, "ops": [{"op": "append", "content": "mine\n"}]}]}),
            ),
            Self::Delete => {
                let mut all = once(DELETE, json!({"paths": [name]}));
                all.extend(once(DELETE, json!({"paths": [name], "recursive": true})));
                all.extend(once(DELETE, json!({"paths": [name], "recursive": true, "trash": true})));
                all
            }
            Self::MoveFrom => relocate("coder::move", name, "loot", false),
            Self::MoveTo => {
                let plain = relocate("coder::move", "inside.txt", name, false);
                [plain, relocate("coder::move", "inside.txt", name, true)].concat()
            }
            Self::CopyFrom => relocate("coder::copy", name, "loot", false),
            Self::CopyTo => {
                let plain = relocate("coder::copy", "inside.txt", name, false);
                [plain, relocate("coder::copy", "inside.txt", name, true)].concat()
            }
            Self::Mkdir => {
                let mut all = once("coder::mkdir", json!({"paths": [name]}));
                all.extend(once("coder::mkdir", json!({"paths": [format!("{name}/n/e/w")]})));
                all
            }
        }
    }
}

pub struct Attack {
    names: &'static [&'static str],
    plant: fn(&Ground),
    answers: fn(Role) -> Answers,
    policy: Option<&'static str>,
    mounts: Option<&'static str>,
    /// A name of the canaries lies inside: what becomes of that name is told by the inode, but nothing is written.
    linked: bool,
}

impl Attack {
    fn hold(&self, case: &str) {
        for build in Build::attacked() {
            layers::judge(case, build, &self.run(case, build.options(), build.is_whole()));
        }
    }

    fn run(&self, case: &str, options: Options, is_whole: bool) -> Vec<String> {
        let options = Options {
            policy: self.policy.map(Into::into),
            through: self.mounts.map_or_else(Vec::new, in_own_mounts),
            ..options
        };
        let mut jail = TestJail::with_tree(options, |root| self.replant(root));
        let mut client = jail.connect();
        let mut escapes = Vec::new();
        for name in self.names {
            let name = name.replace("{outside}", jail.canaries.dir.to_str().unwrap());
            let requests = ROLES
                .iter()
                .flat_map(|role| role.requests(&name).into_iter().map(|(function, params)| (*role, function, params)));
            for (role, function, params) in requests {
                // In another namespace something is mounted on what would be removed here, and would go with it.
                if self.mounts.is_none() {
                    self.replant(&jail.root);
                }
                jail.canaries.replant();
                let start = Instant::now();
                let reply = client.call(function, params.clone());
                assert!(start.elapsed() < CALL_BOUND, "{case}: {params} took {:?}", start.elapsed());
                let expected = (self.answers)(role);
                let odd = outcomes(&reply).into_iter().find(|outcome| !expected.contains(&outcome.as_str()));
                assert!(!is_whole || odd.is_none(), "{case}: {role:?} {params}: {reply:?}");
                let canaries = &jail.canaries;
                let is_safe = if self.linked { canaries.are_unwritten() } else { canaries.are_untouched() };
                if !is_safe {
                    escapes.push(format!("{function} {params} touched a canary: {reply:?}"));
                    let _ = fs::remove_dir_all(&jail.canaries.dir);
                    jail.canaries = Canaries::plant(&jail.canaries.dir.clone());
                }
                if let Some(path) = Self::loot(&jail.root).filter(|_| !self.linked) {
                    escapes.push(format!("{function} {params} brought {path} inside: {reply:?}"));
                }
                if reply == Err(Failure::Closed) {
                    client = Client::connect(&jail.socket);
                }
            }
        }
        client.call("coder::info", json!({})).expect("the service still answers");
        jail.call("coder::info", json!({})).expect("the service still accepts");
        escapes
    }

    /// The same ground for every request; what the service keeps for itself stays.
    fn replant(&self, root: &Path) {
        for entry in fs::read_dir(root).unwrap().map(|entry| entry.unwrap()) {
            if is_state(entry.file_name()) {
                continue;
            }
            let _ = match entry.file_type().unwrap().is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
        }
        let ground = Ground::of(root);
        ground.file("inside.txt", INSIDE);
        (self.plant)(&ground);
    }

    /// A file with the canaries' content.
    fn loot(root: &Path) -> Option<String> {
        let mut open = vec![root.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    let content = fs::read(entry.path()).unwrap_or_default();
                    if String::from_utf8_lossy(&content).contains(SECRET) {
                        return Some(entry.path().display().to_string());
                    }
                }
            }
        }
        None
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

fn nothing(_: &Ground) {}

const PLAIN: Attack =
    Attack { names: &[], plant: nothing, answers: |_| &["C215"], policy: None, mounts: None, linked: false };

const CLIMBING: Attack = Attack {
    names: &[
        "../outside/secret.txt",
        "../outside/new",
        "sub/../../outside/new",
        "../outside",
        "../outside/deep/er",
        "..",
    ],
    ..PLAIN
};

const ABSOLUTE: Attack =
    Attack { names: &["{outside}/secret.txt", "{outside}/new", "{outside}", "{outside}/n/e/w"], ..PLAIN };

/// As itself a link may be deleted, moved, and replaced by what is moved there; nothing else.
const LINK: Attack = Attack {
    names: &["absolute", "relative", "chain", "folder"],
    plant: |ground| {
        ground.link("absolute", ground.secret());
        ground.link("relative", "../outside/secret.txt");
        ground.link("chain", "absolute");
        ground.link("folder", &ground.outside);
    },
    answers: |role| match role {
        Role::Delete | Role::MoveFrom => &["ok"],
        // An existing name, and with overwrite the link itself goes.
        Role::MoveTo => &["C217", "ok"],
        Role::CopyTo => &["C217", "C215"],
        // Of the link, and of a name behind it.
        _ => &["C215"],
    },
    ..PLAIN
};

const BEHIND_A_LINK: Attack = Attack {
    names: &[
        "link/secret.txt",
        "link/new",
        "link/deep/er/secret.txt",
        "link/n/e/w",
        "up/outside/new",
        "magic{outside}/new",
    ],
    plant: |ground| {
        ground.link("link", &ground.outside);
        ground.link("up", "..");
        ground.link("magic", "/proc/self/root");
    },
    ..PLAIN
};

const DANGLING: Attack = Attack {
    names: &["dangling", "relative"],
    plant: |ground| {
        ground.link("dangling", ground.outside.join("not-yet"));
        ground.link("relative", "../outside/not-yet");
    },
    answers: LINK.answers,
    ..PLAIN
};

const BEHIND_A_DANGLING_LINK: Attack =
    Attack { names: &["dangling/new", "dangling/n/e/w"], plant: DANGLING.plant, ..PLAIN };

const FIFO: Attack = Attack {
    names: &["fifo"],
    plant: |ground| fifo(&ground.root.join("fifo")),
    answers: |role| match role {
        Role::Create => &["C217"],
        // Alone, and for good: to move it would be to make one.
        Role::Delete => &["ok", "C210"],
        Role::MoveTo | Role::CopyTo => &["C217", "C210"],
        // And below it nothing can be made.
        Role::Mkdir => &["C217", "C216"],
        _ => &["C210"],
    },
    ..PLAIN
};

const HARD_LINK: Attack = Attack {
    names: &["hard"],
    plant: |ground| fs::hard_link(ground.secret(), ground.root.join("hard")).unwrap(),
    answers: |role| match role {
        Role::Create => &["C217"],
        Role::MoveTo | Role::CopyTo => &["C217", "ok"],
        Role::Mkdir => &["C217", "C216"],
        _ => &["ok"],
    },
    linked: true,
    ..PLAIN
};

const HARD_LINK_REFUSED: Attack = Attack {
    policy: Some("[[root]]\npath = \"ROOT\"\nhardlinks = \"refuse\"\n"),
    answers: |role| match role {
        Role::Overwrite | Role::Update | Role::CopyFrom => &["C215"],
        Role::CopyTo => &["C217", "C215"],
        role => (HARD_LINK.answers)(role),
    },
    ..HARD_LINK
};

const BIND_MOUNT: Attack = Attack {
    names: &["mnt", "mnt/secret.txt", "mnt/new", "mnt/n/e/w", "file"],
    plant: |ground| {
        let _ = fs::create_dir(ground.root.join("mnt"));
        let _ = fs::write(ground.root.join("file"), INSIDE);
    },
    mounts: Some(
        "mount --bind \"$d/outside\" \"$d/root/mnt\"; mount --bind \"$d/outside/secret.txt\" \"$d/root/file\"",
    ),
    ..PLAIN
};

#[test]
fn nothing_outside_is_changed_by_climbing() {
    CLIMBING.hold("nothing_outside_is_changed_by_climbing");
}

#[test]
fn nothing_outside_is_changed_by_an_absolute_path() {
    ABSOLUTE.hold("nothing_outside_is_changed_by_an_absolute_path");
}

#[test]
fn a_link_is_changed_as_itself_or_not_at_all() {
    LINK.hold("a_link_is_changed_as_itself_or_not_at_all");
}

#[test]
fn nothing_behind_a_link_is_changed() {
    BEHIND_A_LINK.hold("nothing_behind_a_link_is_changed");
}

#[test]
fn nothing_is_made_behind_a_dangling_link() {
    DANGLING.hold("nothing_is_made_behind_a_dangling_link");
    BEHIND_A_DANGLING_LINK.hold("nothing_is_made_behind_a_dangling_link");
}

#[test]
fn a_fifo_is_neither_waited_for_nor_written() {
    FIFO.hold("a_fifo_is_neither_waited_for_nor_written");
}

#[test]
fn a_hard_link_to_an_outside_file_is_never_written_through() {
    HARD_LINK.hold("a_hard_link_to_an_outside_file_is_never_written_through");
}

#[test]
fn content_behind_hard_links_is_left_alone_where_the_root_says_so() {
    HARD_LINK_REFUSED.hold("content_behind_hard_links_is_left_alone_where_the_root_says_so");
}

#[test]
fn nothing_is_changed_below_a_mount_point() {
    BIND_MOUNT.hold("nothing_is_changed_below_a_mount_point");
}

fn unjailed() -> Options {
    Options { weakened: Some("checks,landlock".into()), ..Options::default() }
}

/// Nothing stops a copy of `..` into the root, which lies in `..`: without the layers it copies its own copies until
/// its deadline passes.
const COPY_ENDS_SOON: &str = "[[root]]\npath = \"ROOT\"\n[limits]\ncall_timeout_ms = 1000\n";

/// The suite can fail: without both layers the same requests change what lies outside.
#[test]
fn without_both_layers_the_same_requests_change_the_canaries() {
    for attack in [CLIMBING, ABSOLUTE, BEHIND_A_LINK] {
        let attack = Attack { policy: Some(COPY_ENDS_SOON), ..attack };
        let escapes = attack.run("control", unjailed(), false);
        let has = |function: &str| escapes.iter().any(|escape| escape.starts_with(function));
        assert!(has("coder::create-file") && has("coder::mkdir"), "{:?}: {escapes:#?}", attack.names);
        if attack.names != CLIMBING.names {
            continue;
        }
        for function in ["coder::update-file", "coder::delete-file", "coder::move", "coder::copy"] {
            assert!(has(function), "{function}: {escapes:#?}");
        }
    }
}

/// Neither the root itself nor what is above it is an operand.
#[test]
fn the_root_itself_is_never_changed() {
    for name in ["", ".", "./", "/", "sub/..", "./."] {
        let jail = TestJail::new();
        jail.write("sub/file", INSIDE);
        jail.write("inside.txt", INSIDE);
        let before = fs::metadata(&jail.root).unwrap();
        for role in ROLES {
            for (function, params) in role.requests(name) {
                // To look into a root, and to put something into it by another name, is no change of the root.
                if matches!(role, Role::CopyFrom | Role::Mkdir) {
                    continue;
                }
                let reply = jail.call(function, params.clone());
                let refused = outcomes(&reply).iter().all(|code| code.starts_with('C'));
                assert!(refused, "{function} {params}: {reply:?}");
            }
        }
        use std::os::unix::fs::MetadataExt;
        let after = fs::metadata(&jail.root).unwrap();
        assert_eq!((after.ino(), after.mode(), after.uid()), (before.ino(), before.mode(), before.uid()));
        assert_eq!(fs::read_to_string(jail.root.join("sub/file")).unwrap(), INSIDE);
        assert_eq!(fs::read_to_string(jail.root.join("inside.txt")).unwrap(), INSIDE);
        jail.assert_intact();
    }
}
