//! A socket that somebody else has made and hands over, as systemd does.

use std::{
    fs,
    io::Read,
    net::TcpListener,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::support::{
    Client, TestJail, daemon_command, json,
    process::{self, Signal, runs_as_root},
};

const OURS: &str = "LISTEN_PID=$$ LISTEN_FDS=1";

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = TestJail::directory();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::write(dir.path().join("root/note.txt"), "a note\n").unwrap();
        Self { dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("stockade.sock")
    }

    fn listener(&self, mode: u32) -> UnixListener {
        let _ = fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        fs::set_permissions(self.socket(), fs::Permissions::from_mode(mode)).unwrap();
        listener
    }

    /// A daemon that finds `handed` as descriptor 3. A shell in between sets the variables and becomes the daemon.
    fn start(&self, variables: &str, handed: Stdio, arguments: &[&str]) -> Child {
        let script = format!("export {variables} && exec \"$@\" 3<&0 </dev/null");
        let through = ["sh", "-c", &script, "sh"].map(Into::into);
        let mut command: Command = daemon_command(None, &through, None);
        match arguments {
            [] => command.arg("--root").arg(self.dir.path().join("root")),
            _ => command.args(arguments),
        };
        command.stdin(handed).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[track_caller]
    fn assert_refused(&self, variables: &str, handed: Stdio, arguments: &[&str], texts: &[&str]) {
        let mut child = self.start(variables, handed, arguments);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{said}");
        for text in texts {
            assert!(said.contains(text), "{text:?} is missing in {said}");
        }
    }
}

fn given(fd: impl Into<OwnedFd>) -> Stdio {
    Stdio::from(fd.into())
}

/// Once it serves: until then a signal simply ends it.
fn stop(place: &Place, mut child: Child) {
    Client::connect(&place.socket()).call("coder::info", json!({})).expect("served");
    process::signal(child.id(), Signal::TERM);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
}

#[test]
fn a_socket_that_is_handed_over_is_served_and_outlives_the_service() {
    let place = Place::new();
    let listener = place.listener(0o600);
    // Before anybody serves: systemd starts the service because of this one.
    let mut first = Client::connect(&place.socket());
    let daemon = place.start(OURS, given(listener.try_clone().unwrap()), &[]);
    let read = |client: &mut Client| client.call("coder::read-file", json!({"path": "note.txt"})).unwrap();
    assert_eq!(read(&mut first)["content"], "a note\n");
    stop(&place, daemon);
    assert!(place.socket().exists(), "it is not ours to remove");
    let mut queued = Client::connect(&place.socket());
    let id = queued.send("coder::read-file", json!({"path": "note.txt"}));
    let daemon = place.start(OURS, given(listener), &[]);
    assert_eq!(queued.reply_to(id).unwrap()["content"], "a note\n");
    stop(&place, daemon);
}

#[test]
fn a_socket_inside_a_root_is_a_denied_name() {
    let place = Place::new();
    let listener = place.listener(0o600);
    let dir = place.dir.path().to_str().unwrap();
    let daemon = place.start(OURS, given(listener), &["--root", dir]);
    let mut client = Client::connect(&place.socket());
    let error = client.call("coder::stat", json!({"paths": ["stockade.sock"]}));
    let stat = error.unwrap();
    assert_eq!(stat["results"][0]["error"]["code"], "C211", "{stat}");
    stop(&place, daemon);
}

#[test]
fn anything_but_one_listening_stream_socket_for_us_refuses_the_start() {
    let place = Place::new();
    let listener = place.listener(0o600);
    let socket = || given(listener.try_clone().unwrap());
    for (variables, texts) in [
        ("LISTEN_PID=1 LISTEN_FDS=1", &["LISTEN_PID=1", "another process", "exec"][..]),
        ("LISTEN_PID=x LISTEN_FDS=1", &["LISTEN_PID=x"]),
        ("LISTEN_PID=$$ LISTEN_FDS=2", &["LISTEN_FDS=2", "exactly one"]),
        ("LISTEN_PID=$$ LISTEN_FDS=0", &["LISTEN_FDS=0", "exactly one"]),
        ("LISTEN_PID=$$ LISTEN_FDS=-1", &["LISTEN_FDS=-1", "exactly one"]),
        ("LISTEN_PID=$$", &["belong together"]),
        ("LISTEN_FDS=1", &["belong together"]),
    ] {
        place.assert_refused(variables, socket(), &[], texts);
    }
    let not_listening = "no listening Unix stream socket";
    let (connected, _other) = UnixStream::pair().unwrap();
    place.assert_refused(OURS, given(connected), &[], &[not_listening, "Accept=no"]);
    place.assert_refused(OURS, given(UnixDatagram::unbound().unwrap()), &[], &[not_listening]);
    place.assert_refused(OURS, given(TcpListener::bind("127.0.0.1:0").unwrap()), &[], &[not_listening]);
    place.assert_refused(OURS, Stdio::null(), &[], &[not_listening]);
    let closed = format!("{OURS} && exec \"$@\" 3<&- #");
    place.assert_refused(&closed, socket(), &[], &["descriptor 3 is not open"]);
    let name = format!("stockade-test-{}", std::process::id());
    let nameless = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    place.assert_refused(OURS, given(nameless), &[], &["has no path", "everybody could connect"]);
}

#[test]
fn a_socket_of_our_own_and_one_handed_over_exclude_each_other() {
    let place = Place::new();
    let root = place.dir.path().join("root");
    let arguments = ["--root", root.to_str().unwrap(), "--socket", "/nowhere/stockade.sock"];
    place.assert_refused(OURS, given(place.listener(0o600)), &arguments, &["--socket", "leave --socket out"]);
}

#[test]
fn a_socket_that_lets_in_more_people_than_the_policy_is_refused() {
    let place = Place::new();
    for mode in [0o666, 0o660, 0o602] {
        let texts = [&*format!("{mode:04o}"), "allows 0600", "SocketMode="];
        place.assert_refused(OURS, given(place.listener(mode)), &[], &texts);
    }
    // Who may not write to it cannot connect, whatever the other bits say.
    stop(&place, place.start(OURS, given(place.listener(0o755)), &[]));
    if !runs_as_root("a_socket_that_lets_in_more_people_than_the_policy_is_refused") {
        return;
    }
    let policy = place.dir.path().join("policy.toml");
    let root = place.dir.path().join("root");
    fs::write(&policy, format!("[[root]]\npath = {root:?}\n[socket]\ngroup = \"nogroup\"\n")).unwrap();
    let arguments = ["--policy", policy.to_str().unwrap()];
    let of_root = given(place.listener(0o660));
    place.assert_refused(OURS, of_root, &arguments, &["belongs to gid 0", "SocketGroup="]);
    let listener = place.listener(0o660);
    std::os::unix::fs::chown(place.socket(), None, Some(65534)).unwrap();
    stop(&place, place.start(OURS, given(listener), &arguments));
}
