//! Names that protect globs let clients only read. An application-level layer, like deny globs: the worker refuses a change
//! before the disk is asked, and the supervisor refuses it again for every name that it resolves.

use std::fs;

use super::{
    attack::outcomes,
    support::{Build, Options, TestJail, json},
};

/// Both layers hold, in every build whose checks are whole; and each alone.
#[test]
fn the_supervisor_refuses_protected_names_although_the_worker_does_not_look() {
    let whole = Build::attacked().filter(|build| build.is_whole()).map(Build::options);
    let blind = Options { weakened: Some("worker-globs".into()), ..Options::default() };
    for options in whole.chain([blind]) {
        let name = format!("{:?}", options.weakened);
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir_all(root.join(".git/hooks")).unwrap();
            fs::write(root.join(".git/config"), "[core]\n").unwrap();
            fs::write(root.join("evil"), "evil").unwrap();
            fs::write(root.join(".env"), "secret").unwrap();
        });
        let entry = |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true}]});
        let tries = [
            ("coder::create-file", json!({"files": [{"path": ".git/hooks/pre-commit", "content": "evil"}]})),
            ("coder::create-file", json!({"files": [{"path": "new/.Git/x", "content": "evil"}]})),
            ("coder::create-file", json!({"files": [{"path": ".git/config", "content": "evil", "overwrite": true}]})),
            (
                "coder::update-file",
                json!({"files": [{"path": ".git/config", "ops": [{"op": "append", "content": "evil"}]}]}),
            ),
            ("coder::delete-file", json!({"paths": [".git/config"]})),
            ("coder::delete-file", json!({"paths": [".git"], "recursive": true})),
            ("coder::move", entry("evil", ".git/config")),
            ("coder::move", entry(".git/config", "free")),
            ("coder::copy", entry("evil", ".git/config")),
            ("coder::mkdir", json!({"paths": [".git/made"]})),
        ];
        for (function, request) in tries {
            for atomic in [false, true] {
                let mut request = request.clone();
                request["atomic"] = json!(atomic);
                let reply = jail.call(function, request.clone());
                assert_eq!(outcomes(&reply), ["C221"], "{name}: {function} {request}: {reply:?}");
                let error = &reply.unwrap()["results"][0]["error"];
                assert_eq!((&error["reason"], &error["rule"]), (&json!("protected"), &json!("**/.git")), "{name}");
            }
        }
        assert_eq!(fs::read_to_string(jail.root.join(".git/config")).unwrap(), "[core]\n");
        assert_eq!(fs::read_dir(jail.root.join(".git/hooks")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(jail.root.join(".git")).unwrap().count(), 2);
        assert!(!jail.root.join("new").exists() && !jail.root.join("free").exists());
        assert_eq!(jail.read(".env").unwrap_err().code(), "C211", "{name}: deny globs, too");
        assert!(jail.read(".git/config").is_ok());
        jail.assert_intact();
    }
}
