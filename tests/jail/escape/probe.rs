//! A jail that lacks one rule is found out before the first client: the start ends, and says which attempt went through.

use crate::support::{TestJail, refused_start};

fn refuses(weakened: &str, attempt: &str) {
    let dir = TestJail::directory();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let socket = dir.path().join("run/stockade.sock");
    let arguments = ["--root", root.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
    let (status, text) = refused_start(&arguments, Some(weakened));
    assert_eq!(status, Some(4), "{text}");
    assert!(text.contains(attempt) && text.contains("went through"), "{text}");
    assert!(!socket.exists() || std::os::unix::net::UnixStream::connect(&socket).is_err(), "nobody listens");
}

#[test]
fn one_landlock_right_too_many_refuses_the_start() {
    refuses("one-right", "open_outside");
}

#[test]
fn one_system_call_too_many_refuses_the_start() {
    refuses("one-syscall", "unix_socket");
}
