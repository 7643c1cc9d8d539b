//! What a request can say besides names: windows, pages, `base_dir`, bytes that are no JSON.

use std::{fs, io::Write};

use super::{
    attack::{INSIDE, LIST, READ, outcomes},
    support::{Build, Client, Options, TestJail, audit::Refused, canary::assert_no_secret, json},
};

#[test]
fn base_dir_cannot_lead_outside() {
    for build in Build::attacked() {
        let options = build.options();
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir(root.join("sub")).unwrap();
            std::os::unix::fs::symlink("../outside", root.join("link")).unwrap();
        });
        let outside = jail.canaries.dir.to_str().unwrap();
        let mut client = jail.connect();
        let mut refused = Refused::default();
        for (path, base_dir, code) in [
            ("secret.txt", "../outside", "C215"),
            ("secret.txt", outside, "C215"),
            ("secret.txt", "sub/../../outside", "C215"),
            ("secret.txt", "link", "C215"),
            ("../../outside/secret.txt", "sub", "C215"),
            ("../link/secret.txt", "sub", "C218"),
            ("x", "sub\0", "C210"),
            ("../secret.txt", outside, "C215"),
        ] {
            for function in [READ, LIST] {
                let reply = client.call(function, json!({"path": path, "base_dir": base_dir}));
                assert_no_secret(&reply);
                if build.is_whole() {
                    assert_eq!(outcomes(&reply), [code], "{function} {path} in {base_dir}: {reply:?}");
                    refused.expect(function, code, format!("{base_dir}/{path}").as_bytes());
                }
            }
        }
        if build.is_whole() {
            refused.assert_audited(&jail);
        }
        jail.assert_intact();
    }
}

#[test]
fn numbers_at_the_edge_of_their_range_neither_overflow_nor_panic() {
    let jail = TestJail::new();
    jail.write("inside.txt", INSIDE);
    let mut client = jail.connect();
    let edges = [0, 1, i64::MAX as u64 - 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX];
    for edge in edges {
        for params in [
            json!({"path": "inside.txt", "byte_from": edge}),
            json!({"path": "inside.txt", "byte_to": edge}),
            json!({"path": "inside.txt", "byte_from": edge, "byte_to": u64::MAX}),
            json!({"path": "inside.txt", "byte_from": edge, "byte_to": edge}),
            json!({"path": "inside.txt", "byte_from": edge, "encoding": "base64"}),
            json!({"path": "inside.txt", "line_from": edge}),
            json!({"path": "inside.txt", "line_to": edge}),
            json!({"path": "inside.txt", "line_from": edge, "line_to": u64::MAX, "count_lines": true}),
            json!({"path": "inside.txt", "tail": edge}),
            json!({"path": "inside.txt", "max_output_bytes": edge}),
            json!({"paths": [{"path": "inside.txt", "byte_from": edge}, {"path": "inside.txt", "tail": edge}]}),
        ] {
            let reply = client.call(READ, params.clone());
            for outcome in outcomes(&reply) {
                assert!(["ok", "C210", "C213"].contains(&&*outcome), "{params}: {reply:?}");
            }
        }
        for params in [json!({"page": edge}), json!({"page_size": edge}), json!({"page": edge, "page_size": edge})] {
            let reply = client.call(LIST, params.clone());
            for outcome in outcomes(&reply) {
                assert!(["ok", "C210"].contains(&&*outcome), "{params}: {reply:?}");
            }
        }
    }
    for wrong in [json!(-1), json!(1.5), json!(1e300), json!("1"), json!([]), json!(true)] {
        for field in ["byte_from", "line_from", "tail", "byte_to", "max_output_bytes"] {
            let failure = client.call(READ, json!({"path": "inside.txt", field: wrong})).expect_err("refused");
            assert_eq!(failure.code(), "C210", "{field}: {wrong}");
        }
    }
    jail.assert_intact();
}

#[test]
fn a_path_that_is_no_text_is_refused() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for wrong in [json!(7), json!(["../outside/secret.txt"]), json!({"path": "x"}), json!(true)] {
        for function in [READ, LIST] {
            let failure = client.call(function, json!({"path": wrong})).expect_err("refused");
            assert_eq!(failure.code(), "C210", "{wrong}");
        }
        let entry = client.call(READ, json!({"paths": [{"path": wrong}]})).expect("entries fail alone");
        assert_eq!(entry["results"][0]["error"]["code"], json!("C210"), "{wrong}");
    }
    for both in [json!({"path": "a", "path_bytes": "YQ=="}), json!({"path_bytes": "*"})] {
        assert_eq!(client.call(READ, both).expect_err("refused").code(), "C210");
    }
    jail.assert_intact();
}

/// Escapes of JSON are decoded once, before the path rules; what is no JSON at all is never a path.
#[test]
fn json_cannot_smuggle_a_path_past_the_rules() {
    for build in Build::attacked() {
        let jail = TestJail::build(build);
        let mut client = jail.connect();
        let frame = |path: &[u8]| {
            let mut frame = br#"{"jsonrpc":"2.0","id":1,"method":"coder::read-file","params":{"path":""#.to_vec();
            frame.extend_from_slice(path);
            frame.extend_from_slice(b"\"}}\n");
            frame
        };
        for (path, code) in [
            (&br"\u002e\u002e/outside/secret.txt"[..], "C215"),
            (br"..\/outside\/secret.txt", "C215"),
            (br"inside.txt\u0000", "C210"),
            (b"\xc0\xae\xc0\xae/outside/secret.txt", "-32700"),
            (b"../outside/\xff", "-32700"),
            (br"\ud800../outside", "-32700"),
            (b"x\0", "-32700"),
            (b"x\x01", "-32700"),
        ] {
            client.stream.write_all(&frame(path)).unwrap();
            let reply = client.reply_to(1);
            assert_no_secret(&reply);
            let code_of_reply = reply.expect_err("refused").code();
            if build.is_whole() {
                assert_eq!(code_of_reply, code, "{}", path.escape_ascii());
            }
        }
        jail.assert_intact();
    }
}

/// A file far larger than memory, as one line: windows of it cost what they return.
#[test]
fn a_file_of_a_terabyte_is_read_in_bounded_memory() {
    const PEAK_KIB: u64 = 32 << 10;
    // Each of the file's bytes takes six in JSON, and a debug build is slow: a small limit shows as much.
    let policy = "[[root]]\npath = \"ROOT\"\n[limits]\nmax_read_bytes = 1048576\n";
    let jail = TestJail::with(Options { policy: Some(policy.into()), ..Options::default() });
    let file = fs::File::create(jail.root.join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let mut client = jail.connect();
    let full = client.call(READ, json!({"path": "huge"}));
    assert_eq!(outcomes(&full), ["C213"]);
    for params in [
        json!({"path": "huge", "stat": true}),
        json!({"path": "huge", "byte_from": (1u64 << 40) - 10}),
        json!({"path": "huge", "byte_from": 1u64 << 39, "byte_to": (1u64 << 39) + 4096, "encoding": "base64"}),
        json!({"path": "huge", "truncate": true}),
        json!({"path": "huge", "line_from": 1, "line_to": 1}),
        json!({"path": "huge", "tail": 1}),
        json!({"paths": vec!["huge"; 60]}),
    ] {
        let reply = client.call(READ, params.clone());
        for outcome in outcomes(&reply) {
            assert!(["ok", "C213"].contains(&&*outcome), "{params}: {outcome}");
        }
    }
    for worker in jail.daemon.workers() {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak < PEAK_KIB, "a worker needed {peak} KiB");
    }
    jail.assert_intact();
}

/// EAGAIN is the kernel's answer to `..` while anything on the host is renamed; without `..` there is none.
#[test]
fn a_storm_of_renames_elsewhere_delays_nothing() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let jail = TestJail::new();
    jail.write("a/b/c/file", INSIDE);
    let elsewhere = jail.dir.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("a")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(elsewhere.join("a"), elsewhere.join("b")).unwrap();
                fs::rename(elsewhere.join("b"), elsewhere.join("a")).unwrap();
            }
        });
        let mut client = Client::connect(&jail.socket);
        let replies: Vec<_> = (0..1000)
            .map(|_| client.call(READ, json!({"path": "a/x/../b/./c/file"})).map(|reply| reply["content"].clone()))
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(replies.iter().all(|reply| reply == &Ok(json!(INSIDE))));
    });
    jail.assert_intact();
}
