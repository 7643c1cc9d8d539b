//! Names of the service's own that others take first, and files that the file system itself protects.

use std::{fs, os::unix::fs::symlink};

use super::{
    attack::outcomes,
    changes::Role,
    support::{Options, TestJail, json, state},
};

/// Names that somebody else takes where the service keeps its own, before it does.
#[test]
fn names_of_the_service_that_others_take_first_are_in_nobodys_way() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let mut write = |name: &str, content: &str| {
        let file = json!({"path": name, "content": content, "overwrite": true});
        let reply = client.call("coder::create-file", json!({"files": [file]}));
        assert_eq!(outcomes(&reply), ["ok"], "{reply:?}");
    };
    write("f", "first");
    // A file that exists is replaced by way of the worker's own folder, which so is there.
    write("f", "second");
    let work = state::folder(&jail.root).join("work");
    let own = fs::read_dir(&work).unwrap().next().unwrap().unwrap().path();
    for number in 0..200 {
        match number % 2 {
            0 => symlink(jail.canaries.secret(), own.join(number.to_string())).unwrap(),
            _ => fs::create_dir(own.join(number.to_string())).unwrap(),
        }
    }
    for number in 0..40 {
        write("f", &format!("content {number}"));
        assert_eq!(fs::read_to_string(jail.root.join("f")).unwrap(), format!("content {number}"));
    }
    jail.assert_intact();
}

/// And should one be guessed all the same, the next one is tried.
#[test]
fn a_guessed_name_of_the_service_costs_another_try() {
    for fault in [
        "EEXIST:1:link_unnamed",
        "EOPNOTSUPP:0:create_unnamed+EEXIST:3:create",
        "EEXIST:1:rename_to_free",
        "EEXIST:1:make_link",
    ] {
        let policy = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n";
        let options = Options { fault: Some(fault.into()), policy: Some(policy.into()), ..Options::default() };
        let jail = TestJail::with(options);
        jail.write("f", "old");
        jail.write("g", "old");
        symlink("g", jail.root.join("link")).unwrap();
        let mut client = jail.connect();
        let calls = [
            ("coder::create-file", json!({"files": [{"path": "f", "content": "new", "overwrite": true}]})),
            ("coder::delete-file", json!({"paths": ["g"]})),
            ("coder::copy", json!({"files": [{"from": "link", "to": "link2"}]})),
        ];
        for (function, params) in calls {
            let reply = client.call(function, params);
            assert_eq!(outcomes(&reply), ["ok"], "{fault}: {reply:?}");
        }
        assert_eq!(fs::read_to_string(jail.root.join("f")).unwrap(), "new");
        assert!(!jail.root.join("g").exists());
        jail.assert_intact();
    }
}

/// What the file system itself protects stays, and nobody tries to talk it out of that.
#[test]
fn what_may_not_be_changed_is_a_clear_error() {
    use rustix::fs::IFlags;
    use std::os::unix::fs::PermissionsExt;
    let jail = TestJail::new();
    let locked = jail.write("locked", "old\n");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let update = json!({"files": [{"path": "locked", "ops": [{"op": "append", "content": "x\n"}]}]});
    let reply = jail.call("coder::update-file", update);
    assert_eq!(outcomes(&reply), ["C216"], "{reply:?}");
    assert_eq!(fs::metadata(&locked).unwrap().permissions().mode() & 0o7777, 0, "no chmod was tried");
    for (name, flag) in [("immutable", IFlags::IMMUTABLE), ("append-only", IFlags::APPEND)] {
        let path = jail.write(name, "old\n");
        let file = fs::File::open(&path).unwrap();
        // Root's alone, and not on every file system.
        let Ok(before) = rustix::fs::ioctl_getflags(&file) else { continue };
        if rustix::fs::ioctl_setflags(&file, before | flag).is_err() {
            continue;
        }
        let replies: Vec<_> = [Role::Overwrite, Role::Update, Role::Delete, Role::MoveFrom]
            .into_iter()
            .flat_map(|role| role.requests(name))
            .map(|(function, params)| (params.clone(), jail.call(function, params)))
            .collect();
        let content = fs::read_to_string(&path);
        rustix::fs::ioctl_setflags(&file, before).unwrap();
        assert_eq!(content.unwrap(), "old\n");
        for (params, reply) in replies {
            assert_eq!(outcomes(&reply), ["C216"], "{name} {params}: {reply:?}");
        }
    }
    jail.assert_intact();
}
