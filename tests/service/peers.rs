//! Who is served, with which roots, and how many at once.

use crate::support::{
    Client, Options, TestJail, Value, json,
    peer::{NOBODY, connect_as},
    process,
};

/// Everybody can connect; who is served is for the peers to say.
const OPEN_SOCKET: &str = "[socket]\ngroup = \"nogroup\"\nmode = \"0666\"\n";

fn open_to_all(peers: &str) -> TestJail {
    let policy = format!("[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT-two\"\n{OPEN_SOCKET}{peers}");
    let options = Options { policy: Some(policy), folder_mode: Some(0o711), ..Options::default() };
    TestJail::with_tree(options, |root| {
        let two = root.with_file_name("root-two");
        std::fs::create_dir(&two).unwrap();
        std::fs::write(two.join("two.txt"), "two\n").unwrap();
        std::fs::write(root.join("one.txt"), "one\n").unwrap();
    })
}

fn refused(client: &mut Client) -> Value {
    let lines = client.rest();
    assert_eq!(lines.len(), 1, "one line, then the end: {lines:?}");
    assert_eq!(lines[0]["id"], Value::Null);
    lines[0]["error"]["data"].clone()
}

#[test]
fn a_stranger_gets_one_line_and_a_close() {
    if !process::runs_as_root("a_stranger_gets_one_line_and_a_close") {
        return;
    }
    let jail = open_to_all("");
    let mut stranger = Client::on(connect_as(NOBODY, NOBODY, &jail.socket).unwrap());
    let error = refused(&mut stranger);
    assert_eq!(error["code"], "C211");
    assert!(error["message"].as_str().unwrap().contains("[[peer]]"), "{error}");
    jail.assert_intact();
    process::eventually("it is in the audit", || {
        let log = jail.log();
        log.lines().any(|line| line.contains("\"refused\"") && line.contains("\"uid\":65534"))
    });
}

/// A call that was sent before the refusal must not hide it.
#[test]
fn a_stranger_that_talks_first_still_hears_why() {
    if !process::runs_as_root("a_stranger_that_talks_first_still_hears_why") {
        return;
    }
    let jail = open_to_all("");
    for _ in 0..20 {
        let mut stranger = Client::on(connect_as(NOBODY, NOBODY, &jail.socket).unwrap());
        let _ = std::io::Write::write_all(
            &mut stranger.stream,
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"coder::info\"}\n",
        );
        assert_eq!(refused(&mut stranger)["code"], "C211");
    }
}

#[test]
fn without_a_group_the_socket_is_out_of_reach() {
    if !process::runs_as_root("without_a_group_the_socket_is_out_of_reach") {
        return;
    }
    let jail = TestJail::new();
    let error = connect_as(NOBODY, NOBODY, &jail.socket).expect_err("0600 in 0700");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_peer_sees_its_own_roots_with_its_own_mode() {
    if !process::runs_as_root("a_peer_sees_its_own_roots_with_its_own_mode") {
        return;
    }
    let jail = open_to_all(
        "[[peer]]\nuid = 0\n[[peer]]\nuser = \"nobody\"\nroots = [\"ROOT-two\"]\nmode = \"ro\"\n[[peer]]\ngid = 4711\nmode = \"ro\"\n",
    );
    let roots = |uid: u32, gid: u32| {
        let mut client = Client::on(connect_as(uid, gid, &jail.socket).unwrap());
        let info = client.call("coder::info", json!({})).unwrap();
        let roots: Vec<(String, String)> = info["roots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|root| {
                let name = root["path"].as_str().unwrap().rsplit('/').next().unwrap();
                (name.to_owned(), root["mode"].as_str().unwrap().to_owned())
            })
            .collect();
        (client, roots)
    };
    let pair = |name: &str, mode: &str| (name.to_owned(), mode.to_owned());
    assert_eq!(roots(0, 0).1, [pair("root", "rw"), pair("root-two", "rw")]);
    assert_eq!(roots(4242, 4711).1, [pair("root", "ro"), pair("root-two", "ro")]);
    let (mut nobody, seen) = roots(NOBODY, NOBODY);
    assert_eq!(seen, [pair("root-two", "ro")]);
    assert_eq!(nobody.call("coder::read-file", json!({"path": "two.txt"})).unwrap()["content"], "two\n");
    let outside = jail.root.join("one.txt");
    let error = nobody.call("coder::read-file", json!({"path": outside})).unwrap_err();
    assert_eq!(error.code(), "C215", "another peer's root is no root of this one");
}

#[test]
fn connections_of_a_user_are_limited_and_the_place_comes_back() {
    let jail = TestJail::with_policy("[[root]]\npath = \"ROOT\"\n[limits]\nmax_connections_per_uid = 3\n");
    let mut served: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = jail.connect();
            client.call("coder::info", json!({})).expect("there is a place");
            client
        })
        .collect();
    let mut fourth = jail.connect();
    let error = refused(&mut fourth);
    assert_eq!(error["code"], "C222");
    assert!(error["message"].as_str().unwrap().contains("3 connections"), "{error}");
    drop(served.pop());
    process::eventually("the place comes back", || jail.connect().call("coder::info", json!({})).is_ok());
    for client in &mut served {
        client.call("coder::info", json!({})).expect("the others were not disturbed");
    }
}

#[test]
fn the_limit_of_one_user_is_not_that_of_another() {
    if !process::runs_as_root("the_limit_of_one_user_is_not_that_of_another") {
        return;
    }
    let jail = open_to_all("[limits]\nmax_connections_per_uid = 1\n[[peer]]\nuid = 0\n[[peer]]\nuid = 65534\n");
    let mut mine = jail.connect();
    mine.call("coder::info", json!({})).unwrap();
    let mut theirs = Client::on(connect_as(NOBODY, NOBODY, &jail.socket).unwrap());
    theirs.call("coder::info", json!({})).expect("served");
    assert_eq!(refused(&mut jail.connect())["code"], "C222");
}

/// The kernel gives its pid as 0 then.
#[test]
fn a_peer_outside_of_the_pid_namespace_is_served() {
    if !process::runs_as_root("a_peer_outside_of_the_pid_namespace_is_served") {
        return;
    }
    let through = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let jail = TestJail::with(Options { through: through.map(Into::into).into(), ..Options::default() });
    jail.assert_intact();
    let said = |line: &str| line.contains("\"accepted\"") && line.contains("\"pid\":0}");
    process::eventually("it is in the audit", || jail.log().lines().any(said));
}
