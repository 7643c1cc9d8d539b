//! Part B, section 9.1, and what Part A says differently.

use std::fs;

use super::*;

#[test]
fn a_new_file_has_its_content_and_its_size_and_version_are_told() {
    let jail = jail();
    let result = create(&jail, json!({"path": "notes.md", "content": "# notes\n- one\n- two\n"}));
    assert_success(&result);
    assert_eq!((&result["bytes_written"], read(&jail, "notes.md").as_str()), (&json!(20), "# notes\n- one\n- two\n"));
    assert_eq!(result["path"], json!(jail.root.join("notes.md").to_str().unwrap()), "canonical absolute path");
    let stat = jail.call("coder::stat", json!({"paths": ["notes.md"], "etag": true})).unwrap();
    assert_eq!(stat["results"][0]["etag"], result["etag"]);
}

#[test]
fn files_are_required_and_an_empty_list_fails_the_call() {
    let jail = jail();
    for params in [json!({}), json!({"files": []}), json!({"files": "x"})] {
        assert_eq!(jail.call(CREATE, params).expect_err("refused").code(), "C210");
    }
}

#[test]
fn more_entries_than_a_batch_holds_fail_the_call() {
    let jail = jail();
    let files = vec![json!({"path": "x", "content": ""}); 1001];
    assert_eq!(jail.call(CREATE, json!({"files": files})).expect_err("refused").code(), "C213");
    assert!(everything(&jail.root).is_empty());
}

#[test]
fn one_bad_entry_fails_alone() {
    let jail = jail();
    let results = results(jail.call(
        CREATE,
        json!({"files": [{"path": "a", "content": "a"}, {"path": 7, "content": ""}, {"path": "b"}, {"path": "c", "content": "c"}]}),
    ));
    let success: Vec<bool> = results.iter().map(|result| result["success"].as_bool().unwrap()).collect();
    assert_eq!(success, [true, false, false, true]);
    assert!(assert_refused(&results[1], "C210").contains("files[1].path"));
    assert!(assert_refused(&results[2], "C210").contains("files[2].content"));
    assert_eq!(results[2]["path"], json!("b"), "as sent");
    assert_eq!(results[1]["bytes_written"], json!(0));
}

#[test]
fn content_above_max_write_bytes_is_refused_and_one_byte_less_is_not() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[limits]\nmax_write_bytes = 5\n");
    assert_success(&create(&jail, json!({"path": "five", "content": "12345"})));
    let text = assert_refused(&create(&jail, json!({"path": "six", "content": "123456"})), "C213");
    assert!(text.contains("six") && text.contains('6') && text.contains("max_write_bytes") && text.contains('5'));
    assert_refused(&create(&jail, json!({"path": "six", "content": "MTIzNDU2", "encoding": "base64"})), "C213");
    assert!(!jail.root.join("six").exists());
}

/// Order: resolve and deny, then size, then whether it exists.
#[test]
fn a_denied_name_hides_its_size_limit_and_a_large_content_hides_whether_it_exists() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[limits]\nmax_write_bytes = 5\n");
    jail.write("there", "x");
    assert_refused(&create(&jail, json!({"path": ".env", "content": "123456"})), "C211");
    assert_refused(&create(&jail, json!({"path": "there", "content": "123456"})), "C213");
    assert_refused(&create(&jail, json!({"path": "../x", "content": "123456"})), "C215");
}

#[test]
fn an_existing_file_is_refused_unless_overwrite_and_then_replaced() {
    let jail = jail();
    jail.write("f", "old");
    let text = assert_refused(&create(&jail, json!({"path": "f", "content": "new"})), "C217");
    assert!(text.contains("f already exists; pass overwrite=true to replace"), "{text}");
    assert_eq!(read(&jail, "f"), "old");
    assert_success(&create(&jail, json!({"path": "f", "content": "new", "overwrite": true})));
    assert_eq!(read(&jail, "f"), "new");
}

#[test]
fn missing_folders_are_made_unless_parents_is_false() {
    let jail = jail();
    assert_refused(&create(&jail, json!({"path": "a/b/f", "content": "", "parents": false})), "C211");
    assert!(everything(&jail.root).is_empty(), "a refusal leaves nothing behind");
    assert_success(&create(&jail, json!({"path": "a/b/f", "content": "x"})));
    assert_eq!((mode(&jail, "a"), mode(&jail, "a/b")), (0o755, 0o755));
    assert_success(&create(&jail, json!({"path": "a/b/g", "content": "x", "parents": false})));
}

#[test]
fn the_mode_is_exact_whatever_the_umask_of_the_service() {
    let jail = jail();
    for (index, (text, expected)) in
        [("0644", 0o644), ("777", 0o777), ("0", 0), ("000", 0), ("7", 0o007), ("0600", 0o600), ("0666", 0o666)]
            .into_iter()
            .enumerate()
    {
        let name = format!("f{index}");
        assert_success(&create(&jail, json!({"path": name, "content": "x", "mode": text})));
        assert_eq!(mode(&jail, &name), expected, "{text}");
    }
    assert_success(&create(&jail, json!({"path": "default", "content": ""})));
    assert_eq!(mode(&jail, "default"), 0o644);
}

#[test]
fn a_bad_mode_is_refused_before_anything_is_written() {
    let jail = jail();
    for text in ["", "9z9", "1777", "4755", "2755", "07777", "00644", "0o644", "-1", "u+x"] {
        let result = changes_nothing(&jail, || create(&jail, json!({"path": "a/f", "content": "x", "mode": text})));
        let message = assert_refused(&result, "C210");
        assert!(message.contains("mode: "), "{message}");
    }
}

#[test]
fn overwrite_keeps_the_mode_unless_one_is_given() {
    let jail = jail();
    set_mode(&jail.write("f", "old"), 0o750);
    assert_success(&create(&jail, json!({"path": "f", "content": "1", "overwrite": true})));
    assert_eq!(mode(&jail, "f"), 0o750);
    assert_success(&create(&jail, json!({"path": "f", "content": "2", "overwrite": true, "mode": "0604"})));
    assert_eq!(mode(&jail, "f"), 0o604);
}

#[test]
fn setuid_and_setgid_do_not_survive_an_overwrite() {
    let jail = jail();
    set_mode(&jail.write("f", "old"), 0o6755);
    assert_success(&create(&jail, json!({"path": "f", "content": "new", "overwrite": true})));
    assert_eq!(mode(&jail, "f"), 0o755);
}

#[test]
fn a_folder_is_not_overwritten() {
    let jail = jail();
    jail.write("d/f", "x");
    changes_nothing(&jail, || {
        assert_refused(&create(&jail, json!({"path": "d", "content": ""})), "C217");
        assert_refused(&create(&jail, json!({"path": "d", "content": "", "overwrite": true})), "C216");
        assert_refused(&create(&jail, json!({"path": ".", "content": "", "overwrite": true})), "C216");
        assert_refused(&create(&jail, json!({"path": "", "content": ""})), "C217");
    });
}

#[test]
fn a_path_below_a_file_is_an_error_and_makes_nothing() {
    let jail = jail();
    jail.write("f", "x");
    changes_nothing(&jail, || assert_refused(&create(&jail, json!({"path": "f/x/y", "content": ""})), "C216"));
}

#[test]
fn base64_content_is_written_as_exact_bytes() {
    let jail = jail();
    let bytes: Vec<u8> = (0..=255).collect();
    use base64::{Engine, engine::general_purpose::STANDARD};
    let entry = json!({"path": "bytes", "content": STANDARD.encode(&bytes), "encoding": "base64"});
    let result = create(&jail, entry);
    assert_eq!((&result["bytes_written"], fs::read(jail.root.join("bytes")).unwrap()), (&json!(256), bytes));
    for wrong in ["*", "YQ", "YQ==\n"] {
        let result = create(&jail, json!({"path": "x", "content": wrong, "encoding": "base64"}));
        assert!(assert_refused(&result, "C210").contains("base64"));
    }
}

#[test]
fn names_that_are_not_utf8_are_made_by_their_bytes() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use std::os::unix::ffi::OsStrExt;
    let jail = jail();
    let name = b"caf\xe9";
    let result = create(&jail, json!({"path_bytes": STANDARD.encode(name), "content": "x"}));
    assert_success(&result);
    let path = jail.root.join(std::ffi::OsStr::from_bytes(name));
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    assert_eq!(result["path_bytes"], json!(STANDARD.encode(path.as_os_str().as_bytes())));
    assert_refused(&create(&jail, json!({"path": "a", "path_bytes": "YQ==", "content": ""})), "C210");
}

#[test]
fn an_empty_file_and_one_of_many_megabytes_are_whole() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n");
    assert_success(&create(&jail, json!({"path": "empty", "content": ""})));
    assert_eq!(read(&jail, "empty"), "");
    let large = "0123456789abcdef".repeat(200_000);
    assert_success(&create(&jail, json!({"path": "large", "content": large})));
    assert!(read(&jail, "large") == large);
}

#[test]
fn files_of_a_folder_that_the_first_makes_need_no_parents() {
    let jail = jail();
    let file = |n: usize| json!({"path": format!("d/{n}"), "content": "", "parents": n == 0});
    let files: Vec<Value> = (0..100).map(file).collect();
    results(jail.call(CREATE, json!({ "files": files }))).iter().for_each(assert_success);
    let missing = json!({"files": [{"path": "e/f", "content": ""}, {"path": "g/h", "content": "", "parents": false}]});
    let results = results(jail.call(CREATE, missing));
    assert_success(&results[0]);
    assert_refused(&results[1], "C211");
}

#[test]
fn the_same_file_twice_is_made_and_then_refused_or_replaced() {
    let jail = jail();
    let file = |overwrite: bool, content: &str| json!({"path": "f", "content": content, "overwrite": overwrite});
    let both = results(jail.call(CREATE, json!({"files": [file(false, "1"), file(false, "2"), file(true, "3")]})));
    assert_success(&both[0]);
    assert_refused(&both[1], "C217");
    assert_success(&both[2]);
    assert_eq!(read(&jail, "f"), "3");
}
