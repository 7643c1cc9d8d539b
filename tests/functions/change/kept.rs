//! What a replaced file keeps: owner, attributes, access lists; and what is said when it cannot.

use std::{fs, os::unix::fs::MetadataExt};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::*;
use crate::support::{peer::NOBODY, process};

/// On a disk: a file system in memory may have no attributes of users.
fn jail() -> TestJail {
    TestJail::new()
}

fn attribute(jail: &TestJail, file: &str, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let len = getxattr(jail.root.join(file), name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

fn overwrite(jail: &TestJail, name: &str) -> Value {
    create(jail, json!({"path": name, "content": "new", "overwrite": true}))
}

#[test]
fn attributes_of_users_are_kept() {
    let jail = jail();
    let path = jail.write("f", "old");
    if setxattr(&path, "user.colour", b"green", XattrFlags::empty()).is_err() {
        process::skip("attributes_of_users_are_kept: this file system has no attributes of users");
        return;
    }
    setxattr(&path, "user.empty", b"", XattrFlags::empty()).unwrap();
    let result = overwrite(&jail, "f");
    assert_success(&result);
    assert_eq!(attribute(&jail, "f", "user.colour").as_deref(), Some(&b"green"[..]));
    assert_eq!(attribute(&jail, "f", "user.empty").as_deref(), Some(&b""[..]));
    assert_eq!((result.get("owner_changed"), result.get("lost_attributes")), (None, None));
}

/// Version 2, then (tag, permissions, id) each: owner rw, user 1234 r, group r, mask r, others nothing.
fn access_list() -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1u16, 6u16, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn an_access_list_is_kept_unless_a_mode_is_given() {
    let jail = jail();
    for (name, mode_text) in [("kept", None), ("given", Some("0600"))] {
        let path = jail.write(name, "old");
        if setxattr(&path, "system.posix_acl_access", &access_list(), XattrFlags::empty()).is_err() {
            process::skip("an_access_list_is_kept_unless_a_mode_is_given: this file system has no access lists");
            return;
        }
        let mut entry = json!({"path": name, "content": "new", "overwrite": true});
        if let Some(text) = mode_text {
            entry["mode"] = json!(text);
        }
        assert_success(&create(&jail, entry));
    }
    assert_eq!(attribute(&jail, "kept", "system.posix_acl_access"), Some(access_list()));
    assert_eq!(mode(&jail, "kept"), 0o640);
    assert_eq!(attribute(&jail, "given", "system.posix_acl_access"), None);
    assert_eq!(mode(&jail, "given"), 0o600);
}

#[test]
fn an_owner_that_cannot_be_kept_is_told() {
    if !process::runs_as_root("an_owner_that_cannot_be_kept_is_told") {
        return;
    }
    let jail = jail();
    let path = jail.write("f", "old");
    set_mode(&path, 0o664);
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    // The service has no capability: it may read the file, and write its folder, but give nothing away.
    let result = overwrite(&jail, "f");
    assert_success(&result);
    assert_eq!(result["owner_changed"], json!(true), "{result}");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), mode(&jail, "f")), (0, 0o664), "the mode is kept all the same");
    assert_eq!(result.get("error"), None);
}

#[test]
fn an_owner_that_is_the_service_itself_is_kept() {
    let jail = jail();
    let before = fs::metadata(jail.write("f", "old")).unwrap();
    let result = overwrite(&jail, "f");
    let after = fs::metadata(jail.root.join("f")).unwrap();
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_eq!(result.get("owner_changed"), None);
}

/// In a folder that hands its group down a new file gets it, and so does a replaced one that had it.
#[test]
fn the_group_of_a_shared_folder_is_kept() {
    if !process::runs_as_root("the_group_of_a_shared_folder_is_kept") {
        return;
    }
    let jail = jail();
    fs::create_dir(jail.root.join("shared")).unwrap();
    std::os::unix::fs::chown(jail.root.join("shared"), None, Some(1234)).unwrap();
    set_mode(&jail.root.join("shared"), 0o2775);
    assert_success(&create(&jail, json!({"path": "shared/f", "content": "1"})));
    assert_eq!(fs::metadata(jail.root.join("shared/f")).unwrap().gid(), 1234);
    let result = overwrite(&jail, "shared/f");
    assert_eq!(result.get("owner_changed"), None, "{result}");
    assert_eq!(fs::metadata(jail.root.join("shared/f")).unwrap().gid(), 1234);
}

#[test]
fn a_hard_link_keeps_the_old_content() {
    let jail = jail();
    jail.write("f", "old");
    fs::hard_link(jail.root.join("f"), jail.root.join("g")).unwrap();
    assert_success(&overwrite(&jail, "f"));
    assert_eq!((read(&jail, "f").as_str(), read(&jail, "g").as_str()), ("new", "old"));
}

#[test]
fn files_with_several_names_are_refused_where_the_root_says_so() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\nhardlinks = \"refuse\"\n");
    jail.write("f", "old");
    fs::hard_link(jail.root.join("f"), jail.root.join("g")).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&overwrite(&jail, "f"), "C215");
        assert_refused(&relocate(&jail, COPY, json!({"from": "f", "to": "h"})), "C215");
    });
    assert_eq!(delete(&jail, "g")["removed"], json!(true), "a name is not content");
}
