//! Protected names: they can be read, and no changing function creates, changes, moves, deletes or brings one about.

use std::{os::unix::fs::symlink, process::Command};

use super::*;
use crate::support::process::{self, Signal};

const READ: &str = "coder::read-file";
const LIST: &str = "coder::list-folder";
const SEARCH: &str = "coder::search";
const TREE: &str = "coder::tree";

/// The default list, in memory.
const DEFAULT: &str = "durability = \"none\"\n[[root]]\npath = \"ROOT\"\n";
const BENEATH: &str = "durability = \"none\"\n[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n";
const FREE: &str = "durability = \"none\"\n[[root]]\npath = \"ROOT\"\n[protect]\nread_only_globs = []\n";
const EXCEPT: &str = "durability = \"none\"\n[[root]]\npath = \"ROOT\"\n[protect]\n\
                      except_globs = [\"**/.vscode/settings.json\", \"**/.claude/open\"]\n";

fn plant(jail: &TestJail) {
    for name in [".git/config", ".git/hooks/sample", "sub/.vscode/tasks.json", "plain/f", "hooks/pre-commit"] {
        jail.write(name, format!("content of {name}\n"));
    }
    fs::create_dir(jail.root.join("empty")).unwrap();
}

/// Refused with the code, the reason, the rule and the way to lift it.
#[track_caller]
fn assert_protected(result: &Value, rule: &str) {
    let text = assert_refused(result, "C221");
    let error = &result["error"];
    assert_eq!((&error["reason"], &error["rule"]), (&json!("protected"), &json!(rule)), "{result}");
    for words in [rule, "[protect] except_globs", "--unprotect"] {
        assert!(text.contains(words), "{text}");
    }
}

/// Every change of a protected name or of what holds one, with the rule that refuses it.
fn changes() -> Vec<(&'static str, Value, &'static str)> {
    let git = "**/.git";
    let file = |path: &str| json!({"files": [{"path": path, "content": "evil", "overwrite": true}]});
    let edit = |path: &str| json!({"files": [{"path": path, "ops": [{"op": "append", "content": "evil"}]}]});
    let paths = |path: &str| json!({"paths": [path], "recursive": true});
    let trash = |path: &str| json!({"paths": [path], "recursive": true, "trash": true});
    let moved = |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true}]});
    let copied =
        |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true, "recursive": true}]});
    vec![
        (CREATE, file(".git/hooks/pre-commit"), git),
        (CREATE, file(".GIT/hooks/pre-commit"), git),
        (CREATE, file("new/deep/.git/hooks/x"), git),
        (CREATE, file(".git/config"), git),
        (CREATE, file(".mcp.json"), "**/.mcp.json"),
        (CREATE, file("a/.cargo/config.toml"), "**/.cargo/config*"),
        (CREATE, file(".claude/settings.json"), "**/.claude"),
        (UPDATE, edit(".git/config"), git),
        (UPDATE, edit("sub/.vscode/tasks.json"), "**/.vscode"),
        (UPDATE, edit(".git/missing"), git),
        (DELETE, paths(".git/config"), git),
        (DELETE, paths(".git"), git),
        (DELETE, trash(".git"), git),
        (DELETE, paths("sub"), "**/.vscode"),
        (DELETE, trash("sub"), "**/.vscode"),
        (DELETE, paths(".git/missing"), git),
        (MOVE, moved(".git/config", "free"), git),
        (MOVE, moved("plain/f", ".git/config"), git),
        (MOVE, moved("hooks/pre-commit", ".git/hooks/pre-commit"), git),
        (MOVE, moved("hooks", "plain/.husky"), "**/.husky"),
        (MOVE, moved(".git", "git"), git),
        (MOVE, moved("sub", "other"), "**/.vscode"),
        (COPY, copied("plain/f", ".git/config"), git),
        (COPY, copied("hooks", ".githooks"), "**/.githooks"),
        (COPY, copied(".git", "clone/.git"), git),
        (COPY, copied("sub", "clone"), "**/.vscode"),
        (COPY, copied("empty", ".idea"), "**/.idea"),
        (MKDIR, json!({"paths": [".git/x"]}), git),
        (MKDIR, json!({"paths": [".git"]}), git),
        (MKDIR, json!({"paths": ["deep/.Claude/commands"]}), "**/.claude"),
    ]
}

#[test]
fn no_function_changes_a_protected_name() {
    for policy in [DEFAULT, BENEATH] {
        let jail = jail_with(policy);
        plant(&jail);
        for (function, request, rule) in changes() {
            for how in
                [json!({}), json!({"atomic": true}), json!({"dry_run": true}), json!({"atomic": true, "dry_run": true})]
            {
                let mut request = request.clone();
                request.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
                if function != DELETE {
                    request.as_object_mut().unwrap().remove("recursive");
                }
                println!("{function} {request}");
                changes_nothing(&jail, || assert_protected(&one(jail.call(function, request)), rule));
            }
        }
    }
}

#[test]
fn in_a_batch_only_the_protected_name_fails_and_with_atomic_all_do() {
    let jail = jail_with(DEFAULT);
    plant(&jail);
    let files = json!([{"path": "one", "content": "1"}, {"path": ".git/hooks/x", "content": "2"}]);
    let both = changes_nothing(&jail, || results(jail.call(CREATE, json!({"files": files, "atomic": true}))));
    assert_refused(&both[0], "C216");
    assert_protected(&both[1], "**/.git");
    let both = results(jail.call(CREATE, json!({"files": files})));
    assert_success(&both[0]);
    assert_protected(&both[1], "**/.git");
    assert!(!jail.root.join(".git/hooks/x").exists());
    // What an earlier entry puts into a folder goes with it.
    let files = json!([{"from": "hooks", "to": "t/x"}, {"from": "t", "to": "u"}, {"from": "u/x", "to": ".husky"}]);
    for atomic in [false, true] {
        let request = json!({"files": files, "atomic": atomic, "dry_run": true});
        let result = changes_nothing(&jail, || results(jail.call(MOVE, request)).remove(2));
        assert_eq!(result["success"], json!(false), "{result}");
    }
    let files = json!([{"from": "hooks", "to": "t/.husky2"}, {"from": "t/.husky2", "to": "t/.husky"}]);
    let result = results(jail.call(MOVE, json!({"files": files, "atomic": true}))).remove(1);
    assert_protected(&result, "**/.husky");
}

#[test]
fn a_protected_name_can_be_read_listed_searched_and_copied_away() {
    let jail = jail_with(DEFAULT);
    plant(&jail);
    assert_eq!(jail.read(".git/config").unwrap()["content"], "content of .git/config\n");
    let listed = jail.call(LIST, json!({"path": ".git"})).unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2, "{listed}");
    assert!(listed["entries"][0].get("non_accessible").is_none_or(|flag| flag == false), "{listed}");
    let tree = jail.call(TREE, json!({"path": ".git"})).unwrap();
    assert!(tree.to_string().contains("sample"), "{tree}");
    let query = json!({"query": "content of .git/config", "path": ".git", "use_default_excludes": false});
    let found = jail.call(SEARCH, query).unwrap();
    assert_eq!(found["content_matches"].as_array().unwrap().len(), 1, "{found}");
    let batch = jail.call(READ, json!({"paths": [".git/config", "sub/.vscode/tasks.json"]})).unwrap();
    assert!(batch["results"].as_array().unwrap().iter().all(|one| one["success"] == true), "{batch}");
    assert_success(&relocate(&jail, COPY, json!({"from": ".git/config", "to": "copy"})));
    assert_eq!(read(&jail, "copy"), "content of .git/config\n");
    assert_success(&relocate(&jail, COPY, json!({"from": ".git/hooks", "to": "copied", "recursive": true})));
    assert_eq!(read(&jail, "copied/sample"), "content of .git/hooks/sample\n");
}

#[test]
fn an_exception_can_be_changed_in_a_protected_folder_that_exists() {
    let jail = jail_with(EXCEPT);
    let settings = |at: &str| json!({"path": format!("{at}/.vscode/settings.json"), "content": "{}"});
    for how in [json!({}), json!({"atomic": true}), json!({"dry_run": true})] {
        let mut request = json!({"files": [settings("a")]});
        request.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        let made = changes_nothing(&jail, || one(jail.call(CREATE, request)));
        assert_protected(&made, "**/.vscode");
    }
    fs::create_dir_all(jail.root.join("a/.vscode")).unwrap();
    assert_success(&create(&jail, settings("a")));
    assert_success(&one(
        jail.call(CREATE, json!({"files": [{"path": "a/.vscode/Settings.json", "content": "2"}], "atomic": true}))
    ));
    assert_protected(&create(&jail, json!({"path": "a/.vscode/tasks.json", "content": "{}"})), "**/.vscode");
    fs::create_dir_all(jail.root.join(".claude")).unwrap();
    assert_success(&one(jail.call(MKDIR, json!({"paths": [".claude/open/deep"]}))));
    assert_success(&create(&jail, json!({"path": ".claude/open/deep/f", "content": "x"})));
    assert_success(&relocate(&jail, MOVE, json!({"from": ".claude/open", "to": ".claude/OPEN"})));
    assert_protected(&relocate(&jail, MOVE, json!({"from": ".claude/OPEN", "to": ".claude/other"})), "**/.claude");
    assert_protected(&delete_tree(&jail, "a"), "**/.vscode");
    assert_success(&delete(&jail, "a/.vscode/settings.json"));
    assert_success(&delete_tree(&jail, ".claude/OPEN"));
    assert!(jail.root.join(".claude").exists());
}

#[test]
fn what_is_protected_by_now_does_not_come_back_from_the_trash() {
    let mut jail = jail_with(FREE);
    jail.write("d/.git/config", "old");
    jail.write(".husky/x", "old");
    jail.write(".mcp.json", "old");
    let discard = |path: &str| {
        let result = one(jail.call(DELETE, json!({"paths": [path], "recursive": true, "trash": true})));
        result["trash_id"].as_str().unwrap().to_owned()
    };
    let ids = [(discard("d"), "**/.git"), (discard(".husky"), "**/.husky"), (discard(".mcp.json"), "**/.mcp.json")];
    jail.restart(&Options { policy: Some(DEFAULT.into()), ..Options::default() });
    for (id, rule) in &ids {
        for dry_run in [true, false] {
            let request = json!({"ids": [id], "dry_run": dry_run});
            changes_nothing(&jail, || assert_protected(&one(jail.call(RESTORE, request)), rule));
        }
    }
    jail.restart(&Options { policy: Some(FREE.into()), ..Options::default() });
    for (id, _) in &ids {
        assert_success(&one(jail.call(RESTORE, json!({"ids": [id]}))));
    }
    assert_eq!(read(&jail, "d/.git/config"), "old", "nothing was lost");
}

#[test]
fn a_link_is_no_way_around() {
    let jail = jail_with(BENEATH);
    plant(&jail);
    symlink(".git", jail.root.join("door")).unwrap();
    symlink(".git/config", jail.root.join("leaf")).unwrap();
    symlink("..", jail.root.join("plain/up")).unwrap();
    let append = |path: &str| json!({"files": [{"path": path, "ops": [{"op": "append", "content": "x"}]}]});
    let to = |from: &str, to: &str| json!({"files": [{"from": from, "to": to}]});
    for (function, request) in [
        (CREATE, json!({"files": [{"path": "door/hooks/pre-commit", "content": "evil"}]})),
        (CREATE, json!({"files": [{"path": "door/new/deep/x", "content": "evil"}]})),
        (CREATE, json!({"files": [{"path": "leaf", "content": "evil", "overwrite": true}]})),
        (UPDATE, append("leaf")),
        (UPDATE, append("door/config")),
        (UPDATE, append("plain/up/door/config")),
        (DELETE, json!({"paths": ["door/config"]})),
        (MKDIR, json!({"paths": ["door/x"]})),
        (MOVE, to("door/config", "free")),
        (MOVE, to("plain/f", "door/hooks/pre-commit")),
        (MOVE, to("hooks", "door/hooks2")),
        (COPY, to("plain/f", "door/f")),
        (DELETE, json!({"paths": ["plain/up/.git"], "recursive": true})),
    ] {
        for atomic in [false, true] {
            let mut request = request.clone();
            request["atomic"] = json!(atomic);
            println!("{function} {request}");
            changes_nothing(&jail, || assert_protected(&one(jail.call(function, request)), "**/.git"));
        }
    }
    assert_success(&delete(&jail, "leaf"));
    assert_eq!(read(&jail, ".git/config"), "content of .git/config\n", "the link alone is gone");
}

#[test]
fn a_read_only_root_says_that_it_is_one() {
    let policy = "[[root]]\npath = \"ROOT\"\nmode = \"ro\"\n";
    let jail = jail_with(policy);
    let result = create(&jail, json!({"path": ".git/x", "content": "x"}));
    assert!(assert_refused(&result, "C221").contains("read-only"));
    assert!(result["error"].get("reason").is_none(), "{result}");
}

#[test]
fn the_older_wire_has_the_same_code() {
    let jail = jail_with(&format!("wire_compat = \"0.2\"\n{DEFAULT}"));
    let result = create(&jail, json!({"path": ".git/x", "content": "x"}));
    let error: Value = serde_json::from_str(result["error"].as_str().unwrap()).unwrap();
    assert_eq!((&error["code"], &error["reason"]), (&json!("C221"), &json!("protected")));
    assert!(!jail.root.join(".git").exists());
}

#[test]
fn a_reload_protects_new_connections() {
    let jail = jail_with(FREE);
    let mut before = jail.connect();
    let make = |name: &str| json!({"files": [{"path": format!(".git/{name}"), "content": "x"}]});
    assert_success(&one(before.call(CREATE, make("a"))));
    let policy = DEFAULT.replace("ROOT", jail.root.to_str().unwrap());
    fs::write(jail.dir.path().join("policy.toml"), policy).unwrap();
    process::signal(jail.daemon.pid(), Signal::HUP);
    let mut tries = 0;
    loop {
        let result = one(jail.call(CREATE, make(&format!("n{tries}"))));
        if result["success"] == json!(false) {
            assert_protected(&result, "**/.git");
            break;
        }
        tries += 1;
        assert!(tries < 500, "the reload does nothing: {}", jail.log());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_success(&one(before.call(CREATE, make("b"))));
}

/// Git runs what it finds in its folder: hooks, and `core.fsmonitor` at every status.
#[test]
fn a_commit_of_the_user_runs_nothing_that_the_agent_tried_to_plant() {
    let jail = jail_with(DEFAULT);
    let proof = jail.dir.path().join("proof");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(&jail.root)
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .expect("git is installed");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q"]);
    let script = format!("#!/bin/sh\necho ran >> {}\n", proof.display());
    let config = format!("[core]\n\tfsmonitor = \"echo ran >> {}; false\"\n", proof.display());
    let hook = json!({"path": ".git/hooks/pre-commit", "content": script, "mode": "0755"});
    assert_protected(&create(&jail, hook), "**/.git");
    let append = json!({"files": [{"path": ".git/config", "ops": [{"op": "append", "content": config}]}]});
    assert_protected(&one(jail.call(UPDATE, append)), "**/.git");
    assert_success(&create(&jail, json!({"path": "h/pre-commit", "content": script, "mode": "0755"})));
    assert_protected(&relocate(&jail, MOVE, json!({"from": "h", "to": ".git/hooks", "overwrite": true})), "**/.git");
    assert_protected(&relocate(&jail, COPY, json!({"from": "h/pre-commit", "to": ".git/hooks/pre-commit"})), "**/.git");
    git(&["add", "-A"]);
    git(&["commit", "-qm", "work of the agent"]);
    git(&["status"]);
    assert!(!proof.exists(), "{:?}", fs::read_to_string(&proof));
    // The attempts are worth something: the same hook runs where it could be planted.
    fs::create_dir_all(jail.root.join(".git/hooks")).unwrap();
    fs::copy(jail.root.join("h/pre-commit"), jail.root.join(".git/hooks/pre-commit")).unwrap();
    git(&["commit", "-qm", "again", "--allow-empty"]);
    assert!(proof.exists());
}

/// Behind such a link a client could write what programs read under the protected name.
#[test]
fn a_link_cannot_take_the_place_of_a_folder_with_protected_names() {
    for policy in [DEFAULT, BENEATH] {
        let jail = jail_with(policy);
        fs::create_dir_all(jail.root.join("tree/sub")).unwrap();
        fs::create_dir(jail.root.join("open")).unwrap();
        symlink("open", jail.root.join("link")).unwrap();
        symlink("../open", jail.root.join("tree/link")).unwrap();
        let rule = "**/.cargo/config*";
        for to in [".cargo", "tree/sub/.Cargo"] {
            for more in [json!({}), json!({"dry_run": true}), json!({"atomic": true})] {
                let mut params = json!({"files": [{"from": "link", "to": to}]});
                params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                assert_protected(&one(jail.call(MOVE, params.clone())), rule);
                assert_protected(&one(jail.call(COPY, params)), rule);
            }
        }
        assert!(one(jail.call(MOVE, json!({"files": [{"from": "link", "to": "other"}]})))["success"] == true);
    }
    // With its folder, where the rule names the folder above.
    let policy = BENEATH.to_owned() + "[protect]\nread_only_globs = [\"made/link/hook\"]\n";
    let jail = jail_with(&policy);
    fs::create_dir_all(jail.root.join("tree")).unwrap();
    symlink("../open", jail.root.join("tree/link")).unwrap();
    let params = json!({"files": [{"from": "tree", "to": "made", "recursive": true}]});
    assert_protected(&one(jail.call(COPY, params)), "made/link/hook");
    assert_protected(&one(jail.call(MOVE, json!({"files": [{"from": "tree", "to": "made"}]}))), "made/link/hook");
    assert!(!jail.root.join("made").exists());
}
