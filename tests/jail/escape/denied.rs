//! Names that the policy hides. An application-level layer: no build can rest it on Landlock.

use super::{
    attack::{Attack, LIST, READ, STAT, TREE, claims},
    support::{Failure, Options, TestJail, Value, canary::assert_no_secret, json},
};

const HIDDEN: [&str; 16] = [
    ".env",
    ".ENV",
    ".Env",
    "sub/.eNv",
    ".env.local",
    ".env.LOCAL",
    "a.pem",
    "a.PEM",
    "sub/x.Key",
    "secrets/x",
    "SECRETS/x",
    "Secrets/deep/x",
    "sub/sEcReTs/x",
    "\u{17f}ecrets/x",
    "x.\u{212a}ey",
    ".stockade/journal",
];

claims! {
    denied_names_are_missing_in_any_case_of_letters: Attack::on(HIDDEN)
        .planted(|ground| HIDDEN.iter().for_each(|name| { ground.forbidden(name); }))
        .denied();

    denied_names_are_missing_however_they_are_spelled: Attack::on([
        "./.env", "a/../.env", "sub/..//.ENV", "{root}/.env", "{root}/sub/../.env", "secrets/./x", "secrets//x",
        "secrets/../secrets/x", "secrets/y/../x", ".env/", ".env/.", "sub/../secrets/x", ".stockade/./journal",
    ]).planted(|ground| HIDDEN.iter().for_each(|name| { ground.forbidden(name); })).denied();
}

/// The error without the caller's own path.
fn text_without_path(failure: &Failure, path: &str) -> String {
    let Failure::Error(error) = failure else { panic!("the connection closed") };
    error.to_string().replace(&Value::from(path).to_string().trim_matches('"').to_owned(), "PATH")
}

#[test]
fn a_denied_name_that_exists_answers_like_one_that_does_not() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let requests = |path: &str| {
        [
            (READ, json!({"path": path})),
            (READ, json!({"path": path, "stat": true, "etag": true})),
            (READ, json!({"path": path, "tail": 5})),
            (READ, json!({"path": path, "byte_from": 1u64 << 40})),
            (READ, json!({"path": path, "max_output_bytes": 0})),
            (LIST, json!({"path": path})),
            (TREE, json!({"path": path})),
        ]
    };
    let missing: Vec<_> = requests("no-such-name")
        .into_iter()
        .map(|(function, params)| {
            text_without_path(&client.call(function, params).expect_err("missing"), "no-such-name")
        })
        .collect();
    for exists in [false, true] {
        for name in HIDDEN {
            if exists {
                jail.write(name, "x".repeat(1 << 20));
            }
            for ((function, params), missing) in requests(name).into_iter().zip(&missing) {
                let failure = client.call(function, params.clone()).expect_err("denied");
                assert_eq!(&text_without_path(&failure, name), missing, "{function} {params} {exists}");
            }
            for function in [READ, STAT] {
                let batch = client.call(function, json!({"paths": [name, "no-such-name"]})).unwrap();
                let text = |index: usize, name: &str| {
                    batch["results"][index]
                        .to_string()
                        .replace(name, "PATH")
                        .replace(&json!(name).to_string(), "\"PATH\"")
                };
                assert_eq!(text(0, name), text(1, "no-such-name"), "{function}");
            }
        }
    }
}

#[test]
fn a_denied_name_that_is_a_link_a_folder_or_a_fifo_answers_like_a_missing_one() {
    let jail = TestJail::with_tree(Options::default(), |root| {
        std::os::unix::fs::symlink("../outside/secret.txt", root.join(".env")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("secrets")).unwrap();
        std::fs::create_dir(root.join(".env.d")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, root.join("a.pem"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    });
    for name in [".env", ".env.d", ".env.d/x", "a.pem", "a.pem/x", "secrets/secret.txt"] {
        for function in [READ, LIST, TREE] {
            let failure = jail.call(function, json!({"path": name})).expect_err("denied");
            assert_eq!(failure.code(), "C211", "{name}");
            assert_no_secret(&failure);
        }
    }
    jail.assert_intact();
}

/// The service's own files are denied names where a root holds them.
#[test]
fn our_own_files_inside_a_root_are_missing() {
    let jail = TestJail::with(Options {
        policy: Some("[[root]]\npath = \"ROOT/..\"\nmode = \"ro\"\n".into()),
        ..Options::default()
    });
    let socket = jail.socket.to_str().unwrap().to_owned();
    std::fs::write(jail.socket.with_file_name("beside"), "").unwrap();
    for name in
        ["policy.toml", "run/stockade.sock", "run", "run/beside", "./policy.toml", "root/../policy.toml", &socket]
    {
        for function in [READ, LIST, TREE] {
            let failure = jail.call(function, json!({"path": name})).expect_err("ours");
            assert_eq!(failure.code(), "C211", "{function} {name}: {failure:?}");
        }
    }
    assert!(jail.read("daemon.log").is_ok(), "other files of that folder are served");
}

#[test]
fn where_the_socket_s_folder_is_a_root_the_socket_alone_is_missing() {
    let dir = TestJail::directory();
    let socket = dir.path().join("stockade.sock");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let policy = format!("[[root]]\npath = \"{}\"\n", dir.path().display());
    let jail = TestJail::with(Options { policy: Some(policy), socket: Some(socket), ..Options::default() });
    assert_eq!(jail.read("stockade.sock").expect_err("ours").code(), "C211");
    assert!(jail.read("file").is_ok());
}
