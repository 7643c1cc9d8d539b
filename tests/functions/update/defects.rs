//! Defects of the public worker that concern updates, by their number in the contract: ours has none of them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use super::{
    UPDATE, assert_edit, assert_refused,
    support::{COLD, TestJail, json, process},
    update,
};

/// 9: cost grew with the square of the number of matches; 200,000 took 12 seconds.
#[test]
fn defect_9_newline_changing_matches_cost_their_number() {
    let jail = TestJail::with_policy(COLD);
    let (mut client, worker) = jail.connect_and_find_worker();
    let mut cost = |matches: usize| {
        jail.write("file", "ab\n".repeat(matches));
        let before = process::cpu_time(worker);
        let ops = json!([{"op": "replace", "pattern": "b\n", "replacement": "b\n\n", "expect_matches": matches}]);
        let result = update(&mut client, "file", ops);
        assert_eq!(result["new_line_count"], 2 * matches, "{result}");
        process::cpu_time(worker) - before
    };
    cost(1000);
    let (some, many) = (cost(50_000), cost(200_000));
    // Four times as many; the square would be sixteen.
    assert!(many.as_millis() < 8 * some.as_millis().max(50), "{some:?} for 50,000, {many:?} for 200,000");
}

/// 10: a 1 MB file and a 2,000-byte replacement of `.` took 4 GB before it was refused.
#[test]
fn defect_10_a_result_that_is_too_large_is_not_built() {
    let jail = TestJail::with_policy(COLD);
    let (mut client, worker) = jail.connect_and_find_worker();
    let path = jail.write("file", "x".repeat(1_000_000));
    let ops = json!([{"op": "replace", "pattern": ".", "replacement": "y".repeat(2000)}]);
    let result = update(&mut client, "file", ops);
    assert_eq!(result["error"]["code"], "C213", "{result}");
    let peak_kib: u64 = process::status(worker, "VmHWM")[0].parse().unwrap();
    assert!(peak_kib < 100 << 10, "{peak_kib} KiB at its peak");
    assert_eq!(fs::metadata(path).unwrap().len(), 1_000_000);
}

/// 14: mode, owner, hard links and attributes were lost.
#[test]
fn defect_14_mode_owner_and_attributes_are_kept_and_other_names_are_not_written_through() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let path = jail.write("file", "a\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    rustix::fs::setxattr(&path, "user.kept", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    fs::hard_link(&path, jail.root.join("other")).unwrap();
    let before = fs::metadata(&path).unwrap();
    let result = update(&mut client, "file", json!([{"op": "append", "content": "b\n"}]));
    assert_eq!(result["success"], true, "{result}");
    assert!(result.get("owner_changed").is_none() && result.get("lost_attributes").is_none(), "{result}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(&path, "user.kept", &mut value).unwrap();
    assert_eq!(&value[..len], b"value");
    assert_eq!(fs::read(jail.root.join("other")).unwrap(), b"a\n", "the other name keeps the old file");
}

/// 15: untouched bytes were rewritten.
#[test]
fn defect_15_untouched_bytes_stay_as_they_are() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let insert = json!([{"op": "insert", "at_line": 2, "content": "x"}]);
    assert_edit(&jail, &mut client, b"caf\xe9\nb\r\nc\r\r\nd\n", insert, b"caf\xe9\nx\nb\r\nc\r\r\nd\n");
    let nothing = json!([{"op": "replace", "pattern": "zzz", "replacement": ""}]);
    for file in [&b"\n"[..], b"\r\r\n", b"a\r\nb\n", b"\xff"] {
        let result = assert_edit(&jail, &mut client, file, nothing.clone(), file);
        assert_eq!(result["changed"], false);
    }
}

/// 20: a line added to an empty file had no final newline.
#[test]
fn defect_20_an_appended_line_of_an_empty_file_ends_as_it_was_sent() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for op in [json!({"op": "insert", "at_line": 1, "content": "x\n"}), json!({"op": "append", "content": "x\n"})] {
        assert_edit(&jail, &mut client, b"", json!([op]), b"x\n");
    }
    let message =
        assert_refused(&jail, &mut client, b"", json!([{"op": "insert", "at_line": 2, "content": "x"}]), "C210");
    assert!(message.contains("1-based"), "{message}");
}

/// 18: no protection against lost updates, and a predictable temporary name.
#[test]
fn defect_18_no_other_name_is_seen_and_the_version_protects() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    jail.write("file", "a\n");
    let etag = client.call("coder::read-file", json!({"path": "file"})).unwrap()["etag"].clone();
    jail.write("file", "theirs\n");
    let file = json!({"path": "file", "if_match": etag, "ops": [{"op": "append", "content": "b\n"}]});
    let result = client.call(UPDATE, json!({"files": [file]})).unwrap()["results"][0].clone();
    assert_eq!(result["error"]["code"], "C219", "{result}");
    assert_eq!(fs::read(jail.root.join("file")).unwrap(), b"theirs\n");
    update(&mut client, "file", json!([{"op": "append", "content": "b\n"}]));
    let names = client.call("coder::list-folder", json!({})).unwrap();
    assert_eq!(names["total"], 1, "{names}");
}
