use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

use super::*;
use crate::sys::user::Accounts;

const ROOT: &str = "[[root]]\npath = \"/srv/p\"\n";

fn parsed(text: &str) -> Policy {
    Policy::parse(text, "p.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    match Policy::parse(text, "p.toml") {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

fn embedded() -> Policy {
    Policy::embedded(&[RootArg { path: "/srv/project".into(), mode: Mode::Rw }])
}

/// Equal but for where it was read.
fn without_origins(mut policy: Policy) -> Policy {
    policy.source.clear();
    policy.roots.iter_mut().for_each(|root| root.origin.clear());
    policy
}

#[test]
fn the_shipped_default_is_the_embedded_default() {
    let shipped = parsed(include_str!("../../policy/default.toml"));
    assert_eq!(without_origins(shipped), without_origins(embedded()));
}

#[test]
fn calls_of_the_worker_itself_have_the_default_limits() {
    assert_eq!(embedded().limits, Limits::default());
}

#[test]
fn the_shipped_default_names_every_limit() {
    let shipped = include_str!("../../policy/default.toml");
    let limits = serde_json::to_value(embedded().limits).expect("serialises");
    for name in limits.as_object().expect("a table").keys() {
        assert!(shipped.contains(&format!("\n{name} = ")), "{name}");
    }
}

#[test]
fn shipped_policies_are_valid_and_every_line_is_commented() {
    for text in [
        include_str!("../../policy/default.toml"),
        include_str!("../../policy/agent-host.toml"),
        include_str!("../../policy/ci-readonly.toml"),
        include_str!("../../policy/service.toml"),
    ] {
        parsed(text);
        let bare: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.contains('#')).collect();
        assert!(bare.is_empty(), "{bare:?}");
    }
    let host = parsed(include_str!("../../policy/agent-host.toml"));
    assert_eq!((host.peers.len(), host.socket.mode), (2, 0o660));
    let ci = parsed(include_str!("../../policy/ci-readonly.toml"));
    assert!(ci.roots.iter().all(|root| root.mode == Mode::Ro));
}

#[test]
fn an_empty_policy_is_the_default_without_roots() {
    assert_eq!(without_origins(parsed("")), without_origins(Policy::embedded(&[])));
}

#[test]
fn every_key_is_read() {
    let policy = parsed(
        r#"
        confinement = "userspace"
        min_landlock_abi = 2
        run_as = "user:svc"
        durability = "none"
        wire_compat = "0.2"
        [[root]]
        path = "/srv/a"
        mode = "ro"
        symlinks = "beneath"
        cross_mounts = true
        hardlinks = "refuse"
        optional = true
        allow_nested = true
        allow_world_writable = true
        allow_casefold = true
        [deny]
        non_accessible_globs = ["x"]
        except_globs = ["xx"]
        list_denied = "hide"
        [protect]
        read_only_globs = ["z"]
        except_globs = ["zz"]
        [exclude]
        default_exclude_globs = ["y"]
        [limits]
        max_read_bytes = 0x10
        [workers]
        threads = 2
        pool = 0
        max_memory_bytes = 67_108_864
        [trash]
        enabled = true
        default = true
        max_bytes = 17
        [audit]
        path = "/var/log/a"
        level = "all"
        [socket]
        group = "g"
        mode = "0640"
        [[peer]]
        gid = 7
        roots = ["/srv/a"]
        mode = "ro"
        "#,
    );
    let root = RootEntry {
        path: "/srv/a".into(),
        mode: Mode::Ro,
        symlinks: Symlinks::Beneath,
        cross_mounts: true,
        hardlinks: Hardlinks::Refuse,
        optional: true,
        allow_nested: true,
        allow_world_writable: true,
        allow_casefold: true,
        origin: "p.toml:7:9".into(),
    };
    let peer = PeerEntry {
        name: PeerName::Gid(7),
        roots: Some(vec!["/srv/a".into()]),
        mode: Some(Mode::Ro),
        origin: "p.toml:42:9".into(),
    };
    let expected = Policy {
        source: "p.toml".into(),
        confinement: Level::Userspace,
        min_landlock_abi: 2,
        run_as: RunAs::User("svc".into()),
        durability: Durability::None,
        wire: WireVersion::V02,
        roots: vec![root],
        deny: Deny {
            non_accessible_globs: vec!["x".into()],
            except_globs: vec!["xx".into()],
            list_denied: ListDeniedPolicy::Hide,
        },
        protect: Protect { read_only_globs: vec!["z".into()], except_globs: vec!["zz".into()] },
        exclude: Exclude { default_exclude_globs: vec!["y".into()] },
        limits: Limits { max_read_bytes: 16, ..Limits::default() },
        workers: WorkersPolicy { threads: 2, pool: 0, max_memory_bytes: 64 << 20 },
        trash: Trash { enabled: true, default: true, max_bytes: 17 },
        audit: AuditPolicy { path: AuditPath::File("/var/log/a".into()), level: AuditLevel::All },
        socket: SocketPolicy { group: Some("g".into()), mode: 0o640 },
        peers: vec![peer],
    };
    assert_eq!(policy, expected);
}

#[test]
fn a_socket_for_a_group_is_group_writable_by_default() {
    assert_eq!(parsed("[socket]\ngroup = \"g\"").socket.mode, 0o660);
    assert_eq!(parsed("[socket]").socket.mode, 0o600);
}

#[test]
fn every_mistake_is_reported_in_the_order_of_the_file() {
    let text = "min_landlock_abi = 1\nrunas = \"x\"\n[[root]]\nmode = \"rx\"\n[limits]\nmax_read_bytes = 0\ncall_timeout_ms = true\n";
    let error = Policy::parse(text, "p.toml").unwrap_err();
    let shown = error.to_string();
    let places: Vec<&str> = shown.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["p.toml:1:20", "p.toml:2:1", "p.toml:4:8", "p.toml:6:18", "p.toml:7:19"], "{shown}");
    let twice = Policy::parse("a = \nb = ]\n", "p.toml").unwrap_err();
    assert_eq!(twice.further.len(), 1, "{twice}");
    let gone = "[[root]]\npath = \"/nonexistent/a\"\n[[root]]\npath = \"/nonexistent/b\"\n";
    let error = Policy::parse(gone, "p.toml").unwrap().prepare_roots().unwrap_err();
    assert!(error.message.contains("/nonexistent/a") && error.further[0].message.contains("/nonexistent/b"), "{error}");
}

#[test]
fn unknown_keys_are_refused_with_place_and_nearest_key() {
    for (text, expected) in [
        ("confinment = \"kernel\"", "p.toml:1:1: confinment: unknown key; did you mean `confinement`?"),
        (
            "[limits]\nmax_raed_bytes = 1",
            "p.toml:2:1: limits.max_raed_bytes: unknown key; did you mean `max_read_bytes`?",
        ),
        ("[[root]]\n  pth = \"/a\"", "p.toml:2:3: root.pth: unknown key; did you mean `path`?"),
        ("[[roots]]\npath = \"/a\"", "p.toml:1:3: roots: unknown key; did you mean `root`?"),
        (
            "[deny]\nglobs = []",
            "p.toml:2:1: deny.globs: unknown key; allowed: non_accessible_globs, except_globs, list_denied",
        ),
        ("[protect]\nglobs = []", "p.toml:2:1: protect.globs: unknown key; allowed: read_only_globs, except_globs"),
        ("[[peer]]\nuids = 1", "p.toml:2:1: peer.uids: unknown key; did you mean `uid`?"),
        ("[workers]\ntreads = 4", "p.toml:2:1: workers.treads: unknown key; did you mean `threads`?"),
        ("[exclude]\nx = 1", "p.toml:2:1: exclude.x: unknown key; allowed: default_exclude_globs"),
        ("[audit]\nlevle = \"all\"", "p.toml:2:1: audit.levle: unknown key; did you mean `level`?"),
        ("[socket]\nmodes = \"0600\"", "p.toml:2:1: socket.modes: unknown key; did you mean `mode`?"),
    ] {
        assert_eq!(refused(text), expected);
    }
}

#[test]
fn bad_values_are_refused_with_place_key_and_what_is_allowed() {
    for (text, place, parts) in [
        ("confinement = \"none\"", "1:15", &["confinement: ", "\"kernel\", \"userspace\""][..]),
        ("min_landlock_abi = 1", "1:20", &["min_landlock_abi: 1 is out of range", "2 to 16"]),
        ("run_as = \"peer\"", "1:10", &["run_as: ", "not supported by this version"]),
        ("run_as = \"user:\"", "1:10", &["\"root-owner\", \"user:NAME\""]),
        ("run_as = \"me\"", "1:10", &["\"root-owner\", \"user:NAME\""]),
        ("durability = \"maybe\"", "1:14", &["\"fsync\", \"none\""]),
        ("wire_compat = \"9\"", "1:15", &["wire_compat: ", "\"current\"", "\"0.2\""]),
        ("[[root]]\nmode = \"rw\"", "1:1", &["root: `path` is missing"]),
        ("[[root]]\npath = \"srv\"", "2:8", &["root.path: ", "not an absolute path"]),
        ("[[root]]\npath = \"/a\"\nmode = \"rx\"", "3:8", &["root.mode: ", "\"ro\", \"rw\""]),
        ("[[root]]\npath = \"/a\"\nsymlinks = \"follow\"", "3:12", &["\"refuse\", \"beneath\""]),
        ("[[root]]\npath = \"/a\"\nhardlinks = \"no\"", "3:13", &["\"allow\", \"refuse\""]),
        ("[[root]]\npath = \"/a\"\noptional = 1", "3:12", &["root.optional: expected true or false", "integer"]),
        ("root = \"/a\"", "1:8", &["expected tables `[[root]]`"]),
        ("root = [1]", "1:9", &["expected tables `[[root]]`"]),
        ("deny = 1", "1:8", &["expected a table `[deny]`"]),
        ("[deny]\nnon_accessible_globs = \"x\"", "2:24", &["a list of texts"]),
        ("[deny]\nnon_accessible_globs = [\"a\", 1]", "2:30", &["deny.non_accessible_globs: "]),
        ("[deny]\nnon_accessible_globs = [\"a\", \"[b\"]", "2:30", &["\"[b\": ", "unclosed"]),
        ("[deny]\nnon_accessible_globs = [\"/etc\"]", "2:25", &["relative to a root"]),
        ("[deny]\nlist_denied = \"no\"", "2:15", &["\"show\", \"hide\""]),
        ("[exclude]\ndefault_exclude_globs = [\"{a\"]", "2:26", &["exclude.default_exclude_globs: "]),
        ("[limits]\nmax_read_bytes = 0", "2:18", &["limits.max_read_bytes: 0 is out of range; allowed: 1 to "]),
        ("[limits]\nmax_read_bytes = -1", "2:18", &["-1 is out of range"]),
        ("[limits]\nmax_read_bytes = 1.5", "2:18", &["expected a whole number", "float"]),
        ("[limits]\nlist_max_page_size = 4294967296", "2:22", &["out of range"]),
        ("[limits]\ntree_max_depth = 61", "2:18", &["allowed: 1 to 60"]),
        ("[limits]\nmax_frame_bytes = 10", "2:19", &["allowed: 65536 to "]),
        ("[limits]\ncall_timeout_max_ms = 99999999999", "2:23", &["allowed: 1 to 86400000"]),
        (
            "[limits]\nlist_default_page_size = 2000",
            "1:1",
            &["list_default_page_size is above list_max_page_size (2000 > 1000)"],
        ),
        ("[limits]\ncall_timeout_ms = 700000", "1:1", &["call_timeout_ms is above call_timeout_max_ms"]),
        ("[workers]\nthreads = 1", "2:11", &["allowed: 2 to 64"]),
        ("[workers]\nthreads = 65", "2:11", &["allowed: 2 to 64"]),
        ("[workers]\npool = 1000", "2:8", &["allowed: 0 to 64"]),
        ("[workers]\nmax_memory_bytes = 1", "2:20", &["allowed: 67108864 to "]),
        ("[audit]\npath = \"log\"", "2:8", &["audit.path: ", "not an absolute path"]),
        ("[audit]\nlevel = \"some\"", "2:9", &["\"denials\", \"decisions\", \"all\""]),
        ("[socket]\nmode = 600", "2:8", &["socket.mode: expected a text"]),
        ("[socket]\nmode = \"0777\"", "2:8", &["no execute bits"]),
        ("[socket]\nmode = \"0060\"", "2:8", &["octal"]),
        ("[socket]\nmode = \"0+66\"", "2:8", &["octal"]),
        ("[socket]\nmode = \"4600\"", "2:8", &["octal"]),
        ("[socket]\nmode = \"0660\"", "2:8", &["together with a `group`"]),
        ("[socket]\ngroup = \"\"", "2:9", &["socket.group: a name is expected"]),
        ("[[peer]]\nmode = \"ro\"", "1:1", &["peer: say exactly one of `uid`, `user`, `gid`, `group`"]),
        ("[[peer]]\nuid = 1\ngid = 1", "1:1", &["exactly one of"]),
        ("[[peer]]\nuid = 4294967295", "2:7", &["allowed: 0 to 4294967294"]),
        ("[[peer]]\nuid = 1\nroots = []", "1:1", &["`roots` is empty"]),
        ("[[peer]]\nuid = 1\nroots = [\"p\"]", "3:10", &["peer.roots: ", "not an absolute path"]),
        ("[[peer]]\nuser = \"a:b\"", "2:8", &["peer.user: a name is expected"]),
    ] {
        let error = refused(text);
        assert!(error.starts_with(&format!("p.toml:{place}: ")), "{text:?} is at {place}: {error}");
        parts.iter().for_each(|part| assert!(error.contains(part), "{text:?}: {part:?} in {error}"));
    }
}

/// No key is accepted and then ignored: each refuses a value of a type that no key has.
#[test]
fn every_known_key_is_looked_at() {
    let shipped = include_str!("../../policy/default.toml");
    let mut section = String::new();
    let mut keys = 0;
    for line in shipped.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if line.starts_with('[') {
            section = line.to_string();
        } else if let Some((key, _)) = line.split_once(" = ") {
            let path = if section == "[[root]]" && key != "path" { "path = \"/a\"\n" } else { "" };
            let error = refused(&format!("{section}\n{path}{key} = 1979-05-27"));
            assert!(error.contains(key) && error.contains("datetime"), "{section} {key}: {error}");
            keys += 1;
        }
    }
    assert!(keys > 40, "{keys}");
    for key in ["uid", "user", "gid", "group", "roots", "mode"] {
        let other = if key == "uid" { "" } else { "uid = 1\n" };
        assert!(refused(&format!("[[peer]]\n{other}{key} = 1979-05-27")).contains("datetime"), "{key}");
    }
    assert!(refused("[socket]\ngroup = 1979-05-27").contains("datetime"));
}

#[test]
fn toml_errors_have_a_place() {
    for (text, place) in [("a = ", "p.toml:1:"), ("x\n[", "p.toml:1:"), ("[deny]\n[deny]", "p.toml:2:")] {
        let error = refused(text);
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
    let column = refused("[[root]]\npath = \"/é\" ; x");
    assert!(column.starts_with("p.toml:2:13: "), "columns count characters: {column}");
}

fn load(file: &Path) -> Result<Policy, PolicyError> {
    Policy::load(file, &Starter::current())
}

#[test]
fn a_file_that_everybody_may_write_is_no_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.toml");
    std::fs::write(&file, ROOT).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("chmod");
    assert_eq!(load(&file).expect("valid").roots.len(), 1);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o646)).expect("chmod");
    let error = load(&file).expect_err("world-writable").to_string();
    assert!(error.contains("p.toml: everybody may write"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o664)).expect("chmod");
    let starter = |uid: u32, accounts: &str| {
        let file = std::fs::File::open(&file).expect("opened");
        let starter = Starter { uid, is_privileged: false, accounts: Accounts::parse(accounts, "") };
        starter.check_policy(file)
    };
    let gid = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&file).expect("there"));
    let private = format!("me:x:1000:{gid}:");
    assert_eq!(starter(1000, &private), Ok(()), "a group of one");
    let shared = format!("{private}\nshe:x:1001:{gid}:");
    // The group of root counts as root.
    assert_eq!(starter(1000, &shared).is_ok(), gid == 0);
    let missing = load(&folder.path().join("none")).expect_err("missing").to_string();
    assert!(missing.contains("none: cannot be opened"), "{missing}");
}

#[test]
fn an_endless_policy_is_refused() {
    let error = load(Path::new("/dev/zero")).expect_err("endless").to_string();
    assert!(error.starts_with("/dev/zero: "), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.toml");
    std::fs::write(&file, "#".repeat(MAX_POLICY_BYTES as usize + 1)).expect("written");
    assert!(load(&file).expect_err("long").to_string().contains("longer than 1048576 bytes"));
}

#[test]
fn only_exact_suffixes_of_a_root_argument_count() {
    for (argument, path, mode) in [
        (&b"/a"[..], &b"/a"[..], Mode::Rw),
        (b"/a:ro", b"/a", Mode::Ro),
        (b"/a:rw", b"/a", Mode::Rw),
        (b"/a:RO", b"/a:RO", Mode::Rw),
        (b"/a:ro:rw", b"/a:ro", Mode::Rw),
        (b"/a:rx", b"/a:rx", Mode::Rw),
        (b".", b".", Mode::Rw),
        (b"\xff:ro", b"\xff", Mode::Ro),
    ] {
        let expected = RootArg { path: OsStr::from_bytes(path).into(), mode };
        assert_eq!(RootArg::parse(OsStr::from_bytes(argument)), Ok(expected));
    }
    for empty in ["", ":ro", ":rw"] {
        assert!(RootArg::parse(OsStr::new(empty)).expect_err(empty).to_string().contains("names no directory"));
    }
}
