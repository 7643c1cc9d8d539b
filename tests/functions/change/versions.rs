//! `etag`, `if_match`, `if_none_match`.

use super::*;

/// From BLAKE3's own test vectors: the first 32 digits for "abc".
const ABC: &str = "6437b3ac38465133ffb63b75273a8db5";

#[test]
fn an_etag_is_the_first_half_of_blake3_of_the_bytes() {
    let jail = jail();
    assert_eq!(create(&jail, json!({"path": "f", "content": "abc"}))["etag"], json!(ABC));
    assert_eq!(relocate(&jail, COPY, json!({"from": "f", "to": "g"}))["etag"], json!(ABC));
    assert_eq!(relocate(&jail, MOVE, json!({"from": "g", "to": "h", "etag": true}))["etag"], json!(ABC));
}

/// Every mutation with the etag of what is there succeeds, and with another one is C219 with the present etag.
#[test]
fn every_mutation_accepts_if_match() {
    let jail = jail();
    for function in [CREATE, DELETE, MOVE, COPY] {
        let call = |etag: &str| match function {
            CREATE => create(&jail, json!({"path": "f", "content": "new", "overwrite": true, "if_match": etag})),
            DELETE => one(jail.call(DELETE, json!({"paths": [{"path": "f", "if_match": etag}]}))),
            _ => relocate(&jail, function, json!({"from": "f", "to": "g", "overwrite": true, "if_match": etag})),
        };
        jail.write("f", "abc");
        let result = changes_nothing(&jail, || call("00000000000000000000000000000000"));
        assert_refused(&result, "C219");
        assert_eq!(result["error"]["etag"], json!(ABC), "{function}: {result}");
        assert_success(&call(ABC));
        std::fs::remove_file(jail.root.join("f")).ok();
        if function != COPY && function != MOVE {
            let result = changes_nothing(&jail, || call(ABC));
            assert_refused(&result, "C219");
            assert_eq!(result["error"].get("etag"), None, "absent if the file is gone");
        }
    }
}

#[test]
fn if_match_of_what_has_no_content_is_bad_input() {
    let jail = jail();
    jail.write("d/f", "");
    for result in [
        create(&jail, json!({"path": "d", "content": "", "overwrite": true, "if_match": ABC})),
        one(jail.call(DELETE, json!({"paths": [{"path": "d", "if_match": ABC}], "recursive": true}))),
        relocate(&jail, MOVE, json!({"from": "d", "to": "e", "if_match": ABC})),
        relocate(&jail, COPY, json!({"from": "d", "to": "e", "recursive": true, "if_match": ABC})),
    ] {
        assert_refused(&result, "C210");
    }
}

#[test]
fn if_none_match_equals_overwrite_false() {
    let jail = jail();
    assert_success(&create(&jail, json!({"path": "f", "content": "1", "if_none_match": "*"})));
    changes_nothing(&jail, || {
        assert_refused(&create(&jail, json!({"path": "f", "content": "2", "if_none_match": "*"})), "C217");
        for wrong in [json!({"if_none_match": ABC}), json!({"if_none_match": "*", "overwrite": true})] {
            let mut entry = json!({"path": "f", "content": "2"});
            entry.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            assert_refused(&create(&jail, entry), "C210");
        }
    });
}

/// A stat version of a window names what is there as well as a hash does: every mutation takes it, and refuses one of a file that was
/// written since, also if size and content stay.
#[test]
fn every_mutation_accepts_the_stat_version_of_a_window() {
    let jail = jail();
    let content = "line\n".repeat(300_000);
    let functions = [CREATE, DELETE, MOVE, COPY, "coder::update-file"];
    let name = |function: &str, is_stale: bool| format!("{}{is_stale}", function.replace("::", "-"));
    let names = functions.iter().flat_map(|function| [name(function, false), name(function, true)]);
    names.for_each(|name| drop(jail.write(&name, &content)));
    // A file that has just been changed has no stat version.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    for function in functions {
        for is_stale in [false, true] {
            let name = name(function, is_stale);
            let read = jail.call("coder::read-file", json!({"path": name, "line_to": 1})).unwrap();
            let version = read["etag"].as_str().unwrap_or_default().to_owned();
            assert!(version.starts_with("stat:"), "{read}");
            if is_stale {
                jail.write(&name, &content);
            }
            let to = format!("{name}.new");
            let mut file = json!({"path": name, "if_match": version});
            let reply = match function {
                CREATE => {
                    (file["content"], file["overwrite"]) = ("new".into(), true.into());
                    jail.call(function, json!({ "files": [file] }))
                }
                DELETE => jail.call(function, json!({ "paths": [file] })),
                MOVE | COPY => jail.call(function, json!({"files": [{"from": name, "to": to, "if_match": version}]})),
                _ => {
                    file["ops"] = json!([{"op": "append", "content": "x\n"}]);
                    jail.call(function, json!({ "files": [file] }))
                }
            };
            let reply = reply.unwrap();
            let result = &reply["results"][0];
            if is_stale {
                assert_refused(result, "C219");
                assert_eq!(result["error"]["etag"].as_str().map(str::len), Some(32), "{reply}");
            } else {
                assert_success(result);
                let warning = reply["warnings"][0].as_str().unwrap_or_default();
                assert!(warning.contains("[0].if_match: compared by size, times and inode"), "{reply}");
            }
        }
    }
}
