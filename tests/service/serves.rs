//! The first claim: a person can start `stockaded` on a directory and talk to it, and nothing outside is reached.

use crate::support;

use support::{Build, TestJail, canary::assert_no_secret, json};

#[test]
fn a_file_below_the_root_is_read() {
    let jail = TestJail::new();
    jail.write("notes.md", "# notes\n- one\n");
    let reply = jail.read("notes.md").expect("reads");
    assert_eq!(reply["content"], json!("# notes\n- one\n"));
    jail.assert_intact();
}

#[test]
fn no_build_reads_the_canary_by_climbing() {
    for build in Build::ALL {
        let jail = TestJail::build(build);
        let reply = jail.read("../outside/secret.txt");
        assert!(reply.is_err(), "{build:?}: {reply:?}");
        assert_no_secret(&reply);
        jail.assert_intact();
    }
}
