//! The socket: who could reach or replace it decides whether it is made.

use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::support::{Client, Daemon, TestJail, daemon_command, json, process::eventually, refused};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = TestJail::directory();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir }
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// The text of a start that is refused with status 1.
    fn refused(&self, socket: &Path) -> String {
        let mut command = daemon_command(None, &[], None);
        command.arg("--root").arg(self.dir.path().join("root")).arg("--socket").arg(socket);
        let (code, text) = refused(&mut command);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(socket.parent().unwrap().to_str().unwrap()), "names the place: {text}");
        text
    }
}

#[test]
fn a_folder_open_to_others_is_refused() {
    let place = Place::new();
    for (name, mode) in [("read", 0o755), ("search", 0o711), ("group", 0o750)] {
        let text = place.refused(&place.folder(name, mode).join("s"));
        assert!(text.contains("open to others") && text.contains(&format!("{mode:04o}")), "{text}");
    }
    for (name, mode) in [("world", 0o777), ("sticky", 0o1777), ("writers", 0o770)] {
        let text = place.refused(&place.folder(name, mode).join("s"));
        assert!(text.contains("written by others"), "{text}");
    }
    let text = place.refused(&place.dir.path().join("no/such/folder/s"));
    assert!(text.contains("cannot be made"), "{text}");
}

#[test]
fn a_missing_folder_is_made_for_us_alone() {
    let place = Place::new();
    let socket = place.dir.path().join("made/s");
    let mut command = daemon_command(None, &[], None);
    command.arg("--root").arg(place.dir.path().join("root")).arg("--socket").arg(&socket);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::support::process::eventually("it serves", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(socket.parent().unwrap()), mode(&socket)), (0o700, 0o600));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_file_in_the_way_stays() {
    let place = Place::new();
    let socket = place.folder("run", 0o700).join("s");
    fs::write(&socket, "mine").unwrap();
    assert!(place.refused(&socket).contains("is not a socket"));
    assert_eq!(fs::read(&socket).unwrap(), b"mine");
    fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink("/dev/null", &socket).unwrap();
    assert!(place.refused(&socket).contains("is not a socket"));
}

#[test]
fn a_live_socket_is_never_taken_over_and_a_stale_one_is() {
    let jail = TestJail::new();
    let mut command = daemon_command(None, &[], None);
    command.arg("--root").arg(&jail.root).arg("--socket").arg(&jail.socket);
    let (code, text) = refused(&mut command);
    assert_eq!(code, Some(1));
    assert!(text.contains("another process is listening"), "{text}");
    jail.assert_intact();

    let stale = jail.dir.path().join("run/stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(fs::symlink_metadata(&stale).unwrap().file_type().is_socket());
    let mut command = daemon_command(None, &[], None);
    command.arg("--root").arg(&jail.root).arg("--socket").arg(&stale);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::support::process::eventually("it serves", || std::os::unix::net::UnixStream::connect(&stale).is_ok());
    crate::support::Client::connect(&stale).call("coder::info", json!({})).expect("served");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Somebody who listens and never accepts: their queue is full, and a place in it would be waited for without end.
#[test]
fn a_socket_whose_queue_is_full_is_not_waited_for() {
    let place = Place::new();
    let socket = place.folder("run", 0o700).join("s");
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&socket).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _queued = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let start = std::time::Instant::now();
    assert!(place.refused(&socket).contains("another process is listening"));
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_with_its_length() {
    let place = Place::new();
    let folder = place.folder("run", 0o700);
    let name = "s".repeat(108 - folder.as_os_str().len() - 1);
    let socket = folder.join(name);
    assert_eq!(socket.as_os_str().len(), 108);
    let text = place.refused(&socket);
    assert!(text.contains("at most 107 bytes") && text.contains("108"), "{text}");
}

#[test]
fn files_of_the_service_inside_a_root_are_denied_also_when_named_through_a_link() {
    let dir = TestJail::directory();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.path().join("other.toml"), "").unwrap();
    let policy = dir.path().join("policy.toml");
    fs::write(&policy, format!("[[root]]\npath = {:?}\n", dir.path())).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink("policy.toml", dir.path().join("link.toml")).unwrap();
    let socket = run.join("stockade.sock");
    let mut daemon = daemon_command(None, &[], None)
        .arg("--policy")
        .arg(dir.path().join("link.toml"))
        .arg("--socket")
        .arg(&socket)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(daemon.try_wait().unwrap().is_none(), "it did not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut client = crate::support::Client::connect(&socket);
    let mut read = |path: &str| client.call("coder::read-file", json!({ "path": path }));
    let codes = ["policy.toml", "run/stockade.sock"].map(|path| read(path).map_err(|failure| failure.code()));
    let other = read("other.toml");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(codes, [Err("C211".to_owned()), Err("C211".to_owned())]);
    assert!(other.is_ok(), "{other:?}");
}

/// Without a lock the slower of the two removes what the faster has made.
#[test]
fn of_two_services_that_find_one_stale_socket_one_serves_and_the_other_says_why_not() {
    const ROUNDS: usize = 8;
    let place = Place::new();
    let socket = place.folder("run", 0o700).join("s");
    for round in 0..ROUNDS {
        drop(UnixListener::bind(&socket).unwrap());
        let start = || {
            let mut command = daemon_command(None, &[], None);
            command.arg("--root").arg(place.dir.path().join("root")).arg("--socket").arg(&socket);
            Daemon { child: command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap() }
        };
        let mut both = [start(), start()];
        let mut loser = None;
        eventually("one of them gives up", || {
            loser = both.iter_mut().position(|one| one.child.try_wait().unwrap().is_some());
            loser.is_some()
        });
        let [mut winner, mut loser] = if loser == Some(0) {
            let [loser, winner] = both;
            [winner, loser]
        } else {
            both
        };
        let mut said = String::new();
        loser.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(loser.child.wait().unwrap().code(), Some(1), "{round}: {said}");
        assert!(said.contains("another process is listening here"), "{round}: {said}");
        // Reachable, not only alive.
        Client::connect(&socket).call("coder::info", json!({})).expect("the other one serves");
        assert_eq!(winner.terminate(), Some(0));
    }
}

#[test]
fn a_folder_that_somebody_else_has_locked_is_not_waited_for_for_ever() {
    let place = Place::new();
    let folder = place.folder("run", 0o700);
    let lock = fs::File::open(&folder).unwrap();
    lock.lock().unwrap();
    assert!(place.refused(&folder.join("s")).contains("is locked by another process"));
}
