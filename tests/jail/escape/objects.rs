//! Things in the root that are not plain files, or not only in the root.

use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::{
    attack::{Attack, INSIDE, claims},
    support::{Build, TestJail, canary::SECRET, json},
};

fn make(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), device).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

claims! {
    a_fifo_without_a_writer_is_refused_at_once: Attack::on(["fifo", "fifo/"])
        .planted(|ground| make(&ground.root.join("fifo"), FileType::Fifo, 0)).answers(&["C210"]);

    a_fifo_with_a_writer_is_refused_and_not_drained: Attack::on(["fifo"]).planted(|ground| {
        let path = ground.root.join("fifo");
        make(&path, FileType::Fifo, 0);
        // Read and write, so that neither end waits; kept open, so that what was written stays.
        let mut end = fs::File::options().read(true).write(true).open(path).unwrap();
        end.write_all(SECRET.as_bytes()).unwrap();
        std::mem::forget(end);
    }).answers(&["C210"]);

    a_socket_is_refused: Attack::on(["socket"])
        .planted(|ground| drop(UnixListener::bind(ground.root.join("socket")).unwrap())).answers(&["C210"]);

    a_folder_is_not_read_as_a_file: Attack::on(["folder", "folder/", "folder/."])
        .planted(|ground| { ground.file("folder/file", INSIDE); })
        .answer_reads(&["C210"]).answer_lists(&["ok"]).stays_inside();

    a_file_is_not_walked_through: Attack::on(["inside.txt/x", "inside.txt/x/y"]).answers(&["C216"]);

    // Also when the daemon was started by root: it keeps no capability to read past a mode.
    a_file_that_nobody_may_read_is_an_error: Attack::on(["unreadable"]).planted(|ground| {
        set_mode(&ground.forbidden("unreadable"), 0);
    }).answer_reads(&["C216"]).answer_lists(&["C210"]);

    a_folder_that_nobody_may_search_hides_what_is_below: Attack::on(["locked/file", "locked/none", "locked/file/x"])
        .planted(|ground| {
            ground.forbidden("locked/file");
            set_mode(&ground.root.join("locked"), 0);
        }).answers(&["C211"]);

    a_folder_that_nobody_may_read_is_not_listed: Attack::on(["locked"]).planted(|ground| {
        ground.file(format!("locked/{SECRET}"), "");
        set_mode(&ground.root.join("locked"), 0o111);
    }).answer_reads(&["C210"]).answer_lists(&["C216"]);

    a_hard_link_to_an_outside_file_is_served_as_part_of_the_root: Attack::on(["hard", "sub/hard"])
        .planted(|ground| {
            ground.folder("sub");
            fs::hard_link(ground.secret(), ground.root.join("hard")).unwrap();
            fs::hard_link(ground.secret(), ground.root.join("sub/hard")).unwrap();
        }).answer_reads(&["ok"]).answer_lists(&["C210"]);

    a_hard_link_is_refused_where_the_root_says_so: Attack::on(["hard"])
        .planted(|ground| fs::hard_link(ground.secret(), ground.root.join("hard")).unwrap())
        .policy("[[root]]\npath = \"ROOT\"\nhardlinks = \"refuse\"\n")
        .answer_reads(&["C215"]).answer_lists(&["C210"]);

    a_bind_mount_of_an_outside_folder_is_refused: Attack::on([
        "mnt", "mnt/", "mnt/secret.txt", "mnt/deep/er/secret.txt", "mnt/no-such-name", "file",
    ]).planted(|ground| {
        ground.folder("mnt");
        ground.file("file", INSIDE);
    }).mounted("mount --bind \"$d/outside\" \"$d/root/mnt\"; mount --bind \"$d/outside/secret.txt\" \"$d/root/file\"")
        .answers(&["C215"]);
}

/// Making a device needs root. Everybody else has no way to plant one either.
#[test]
fn a_device_is_refused() {
    if rustix::process::geteuid().is_root() {
        Attack::on(["zero", "null", "tty"])
            .planted(|ground| {
                for (name, minor) in [("null", 3), ("zero", 5)] {
                    make(&ground.root.join(name), FileType::CharacterDevice, makedev(1, minor));
                }
                make(&ground.root.join("tty"), FileType::CharacterDevice, makedev(5, 0));
            })
            .answers(&["C210"])
            .hold("a_device_is_refused");
    }
}

#[test]
fn listing_shows_what_things_are_without_touching_them() {
    for build in [Build::Normal, Build::Userspace, Build::LandlockOff] {
        let jail = TestJail::with_tree(build.options(), |root| {
            make(&root.join("fifo"), FileType::Fifo, 0);
            drop(UnixListener::bind(root.join("socket")).unwrap());
            std::os::unix::fs::symlink("../outside/secret.txt", root.join("link")).unwrap();
            std::os::unix::fs::symlink("../outside", root.join("folder-link")).unwrap();
        });
        let listed = jail.call("coder::list-folder", json!({})).expect("lists");
        let kinds: Vec<_> = listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["name"].as_str().unwrap(), entry["kind"].as_str().unwrap()))
            .collect();
        let expected = [("fifo", "other"), ("folder-link", "symlink"), ("link", "symlink"), ("socket", "other")];
        assert_eq!(kinds, expected, "{build:?}");
        // A link's own size, not its target's.
        assert_eq!(listed["entries"][2]["size"], json!("../outside/secret.txt".len()));
        jail.assert_intact();
    }
}

#[test]
fn a_file_renamed_after_it_was_listed_is_missing_and_nothing_else_is_read_for_it() {
    for build in Build::attacked() {
        let jail = TestJail::build(build);
        jail.write("folder/a", "first\n");
        let mut client = jail.connect();
        for round in 0..20 {
            let listed = client.call("coder::list-folder", json!({"path": "folder"})).unwrap();
            let name = listed["entries"][0]["name"].as_str().unwrap().to_owned();
            let new = format!("b{round}");
            fs::rename(jail.root.join("folder").join(&name), jail.root.join("folder").join(&new)).unwrap();
            let path = format!("folder/{name}");
            let reply = client.call("coder::read-file", json!({"path": path}));
            assert_eq!(reply.expect_err("gone").code(), "C211", "{build:?}");
            let reply = client.call("coder::read-file", json!({"paths": [path, format!("folder/{new}")]}));
            let results = reply.unwrap()["results"].take();
            assert_eq!(results[0]["error"]["code"], json!("C211"));
            assert_eq!(results[1]["content"], json!("first\n"));
        }
        jail.assert_intact();
    }
}

/// Nothing is unpacked: bytes are bytes.
#[test]
fn a_compressed_file_is_returned_as_it_is() {
    let jail = TestJail::new();
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03";
    jail.write("bomb.gz", gzip);
    let reply = jail.call("coder::read-file", json!({"path": "bomb.gz", "encoding": "base64"})).unwrap();
    assert_eq!((&reply["content"], &reply["size"]), (&json!("H4sIAAAAAAAAAw=="), &json!(gzip.len())));
}
