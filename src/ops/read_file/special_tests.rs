//! Files that are not what they seem.

use std::{
    io::Write,
    os::unix::{fs::symlink, net::UnixListener},
};

use serde_json::{Value, json};

use super::*;
use crate::{
    jail::testing::{TestJail, TestJailOptions},
    path::Hardlinks,
    wire::Code,
};

fn code(test: &TestJail, path: &str) -> Code {
    let single = test.run::<ReadFile>(json!({"path": path})).unwrap_err();
    let batch = test.run::<ReadFile>(json!({"paths": [path]})).unwrap();
    assert_eq!(batch["results"][0]["error"]["code"], single.code.to_string(), "a batch says the same");
    single.code
}

#[test]
fn links_are_not_followed_wherever_they_lead() {
    let test = TestJail::new();
    test.write("d/inside", "x");
    symlink("d/inside", test.path("to-inside")).unwrap();
    symlink("/etc/passwd", test.path("to-outside")).unwrap();
    symlink("nowhere", test.path("dangling")).unwrap();
    symlink("loop", test.path("loop")).unwrap();
    symlink("d", test.path("dir")).unwrap();
    for path in ["to-inside", "to-outside", "dangling", "loop", "dir", "dir/inside"] {
        assert_eq!(code(&test, path), Code::OutsideRoots, "{path}");
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let test = TestJail::new();
    test.fifo("pipe");
    let _socket = UnixListener::bind(test.path("socket")).unwrap();
    for path in ["pipe", "socket"] {
        let error = test.run::<ReadFile>(json!({"path": path})).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.message.contains("not a regular file"), "{error}");
    }
    let devices = TestJail::with(TestJailOptions { root_folder: Some("/dev"), ..TestJailOptions::default() });
    assert_eq!(code(&devices, "null"), Code::BadInput);
}

/// Creates a file with the largest size that this file system accepts.
fn sparse(test: &TestJail) -> u64 {
    let file = std::fs::File::create(test.path("sparse")).unwrap();
    let sizes = [i64::MAX as u64, 1 << 50, 1 << 43, 1 << 40];
    sizes.into_iter().find(|&size| file.set_len(size).is_ok()).unwrap()
}

#[test]
fn a_sparse_giant_costs_nothing() {
    let test = TestJail::new();
    let size = sparse(&test);
    let error = test.run::<ReadFile>(json!({"path": "sparse"})).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains(&format!("{size} bytes")), "{error}");
    let probe = test.run::<ReadFile>(json!({"path": "sparse", "stat": true})).unwrap();
    assert_eq!((&probe["size"], probe.get("total_lines")), (&size.into(), None));
    let head = test.run::<ReadFile>(json!({"path": "sparse", "truncate": true})).unwrap();
    assert_eq!((&head["content"], &head["more_lines"]), (&"".into(), &true.into()));
    let end = test.run::<ReadFile>(json!({"path": "sparse", "byte_from": size - 2})).unwrap();
    assert_eq!((&end["content"], &end["more_lines"]), (&"\0\0".into(), &false.into()));
}

#[test]
fn a_sparse_giant_ends_with_the_deadline_where_all_of_it_is_asked_for() {
    let test = TestJail::new();
    sparse(&test);
    for request in [json!({"stat": true, "count_lines": true}), json!({"etag": true, "line_to": 1}), json!({"tail": 1})]
    {
        let mut request = request;
        request["path"] = "sparse".into();
        let error = test.run_in::<ReadFile>(&mut test.expired_call(), request).unwrap_err();
        assert_eq!(error.code, Code::Deadline);
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_bounded() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 10;
    test.write("a", "12345\n");
    let mut call = test.call();
    let located = test.jail.locate(&call, &RawPath::text("a"), None).unwrap();
    let open = |call: &mut Call| {
        let entry = test.jail.open(call, &located, Intent::Read).unwrap();
        entry.open_content(&test.jail, call).unwrap()
    };
    let plan = |request: Value| {
        ReadOptions::from(&serde_json::from_value::<ReadFileRequest>(request).unwrap()).plan().unwrap()
    };
    let file = open(&mut call);
    std::fs::OpenOptions::new().append(true).open(test.path("a")).unwrap().write_all(&vec![b'x'; 2 << 20]).unwrap();
    let error = full::read(&file, &call, &plan(json!({"path": "a"}))).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    let budget = ReadBudget::for_single(&call.limits, None);
    let probe = part::read(&file, &call, &plan(json!({"path": "a", "stat": true})), budget).unwrap();
    assert_eq!(probe.total_lines, None);
    let head = full::read(&file, &call, &plan(json!({"path": "a", "truncate": true, "max_output_bytes": 8}))).unwrap();
    assert_eq!((head.content.as_deref(), head.next_line), (Some("12345\n"), Some(2)));
}

#[test]
fn a_file_that_shrinks_under_a_tail_is_busy() {
    let mut test = TestJail::new();
    // Too large to be read whole for its version, so that the tail is what meets the end.
    test.limits.max_read_bytes = 1 << 20;
    test.write("a", "line\n".repeat(300_000));
    let mut call = test.call();
    let located = test.jail.locate(&call, &RawPath::text("a"), None).unwrap();
    let file = test.jail.open(&mut call, &located, Intent::Read).unwrap().open_content(&test.jail, &call).unwrap();
    std::fs::OpenOptions::new().write(true).open(test.path("a")).unwrap().set_len(2).unwrap();
    let request = ReadFileRequest { tail: Some(1), ..ReadFileRequest::default() };
    let plan = ReadOptions::from(&request).plan().unwrap();
    let error = tail::read(&file, &call, &plan, 1, ReadBudget::for_single(&call.limits, None)).unwrap_err();
    assert_eq!(error.code, Code::Busy);
}

#[test]
fn a_file_that_claims_no_size_is_read_all_the_same() {
    let test = TestJail::with(TestJailOptions { root_folder: Some("/proc"), ..TestJailOptions::default() });
    let full = test.run::<ReadFile>(json!({"path": "version"})).unwrap();
    let text = full["content"].as_str().unwrap();
    assert!(text.starts_with("Linux version") && full["size"] == 0);
    for part in [json!({"line_from": 1}), json!({"tail": 1}), json!({"byte_from": 0})] {
        let mut request = part;
        request["path"] = "version".into();
        assert_eq!(test.run::<ReadFile>(request).unwrap()["content"], text);
    }
    assert_eq!(test.run::<ReadFile>(json!({"path": "version", "stat": true})).unwrap()["total_lines"], 1);
}

#[test]
fn hard_links_are_refused_where_the_root_says_so() {
    let test = TestJail::with(TestJailOptions { hardlinks: Hardlinks::Refuse, ..TestJailOptions::default() });
    test.write("a", "x");
    std::fs::hard_link(test.path("a"), test.path("b")).unwrap();
    assert_eq!(code(&test, "a"), Code::OutsideRoots);
}

#[test]
fn unreadable_says_so() {
    let test = TestJail::new();
    test.write("a", "x");
    test.set_mode("a", 0);
    test.obey_permissions();
    assert_eq!(code(&test, "a"), Code::Io);
}

#[test]
fn a_cancelled_read_ends() {
    let test = TestJail::new();
    test.write("a", "x");
    let cancelled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut call = Call::new(
        crate::broker::Caller { deadline, ..test.call().caller() },
        std::sync::Arc::new(test.limits.clone()),
        cancelled,
    );
    let error = test.run_in::<ReadFile>(&mut call, json!({"path": "a"})).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
    assert!(error.message.contains("cancelled"), "{error}");
}
