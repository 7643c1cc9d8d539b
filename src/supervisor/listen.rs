//! The socket. Made before the identity is assumed, never reachable by more people than the policy names.

use std::{
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{identity::Identity, notify};
use crate::{
    policy::Policy,
    sys::{
        Errno,
        host::{self, Kind},
        process, raw,
        socket::{self, MAX_SOCKET_PATH},
        user::Accounts,
    },
};

/// Another service needs a moment to make its socket; whoever holds the folder for longer is something else.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// The first descriptor that systemd passes on.
const HANDED_OVER: i32 = 3;

pub fn default_path() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) if process::effective_uid() != 0 => Path::new(&directory).join("stockade.sock"),
        _ => PathBuf::from("/run/stockade/stockade.sock"),
    }
}

/// A listening socket with its folder's and its own mode checked. A stale one is replaced, a live one never.
pub fn bind(
    path: &Path,
    policy: &Policy,
    identity: Identity,
    accounts: &Accounts,
) -> Result<UnixListener, String> {
    let shown = path.display();
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(format!(
            "{shown}: a socket path has at most {MAX_SOCKET_PATH} bytes, this one {}; choose a shorter one with --socket",
            path.as_os_str().len()
        ));
    }
    let folder = folder_of(path);
    check_folder(folder, policy, identity)?;
    let _lock = lock(folder)?;
    remove_stale(path)?;
    let listener =
        host::with_private_umask(|| UnixListener::bind(path)).map_err(|error| format!("{shown}: {error}"))?;
    let (group, mode) = access(policy, accounts)?;
    host::hand_over(path, identity.uid, group.unwrap_or(identity.gid), mode)
        .map_err(|errno| format!("{shown}: {errno}"))?;
    Ok(listener)
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// While a socket is looked at and replaced. Of two services that find the same stale one, the slower would otherwise
/// remove what the faster has just made, and that one would listen where nobody can connect.
fn lock(folder: &Path) -> Result<Option<OwnedFd>, String> {
    let start = Instant::now();
    loop {
        match host::lock_directory(folder) {
            Ok(lock) => return Ok(Some(lock)),
            Err(Errno::AGAIN) if start.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_RETRY),
            Err(Errno::AGAIN) => return Err(format!("{}: is locked by another process", folder.display())),
            // Some file systems lock no folders; then it is as it would be without.
            Err(_) => return Ok(None),
        }
    }
}

/// The group, if one may connect, and the mode that the policy gives the socket.
fn access(policy: &Policy, accounts: &Accounts) -> Result<(Option<u32>, u32), String> {
    let Some(name) = &policy.socket.group else { return Ok((None, policy.socket.mode)) };
    let gid = accounts.gid_of(name);
    let gid = gid.ok_or_else(|| format!("socket.group = \"{name}\": there is no such group"))?;
    Ok((Some(gid), policy.socket.mode))
}

/// The listening socket that systemd hands over; `None` if it has none for us. To be asked first of all, before what
/// else was left open is closed. Uses up the variables of the protocol.
pub fn handed_over() -> Result<Option<OwnedFd>, String> {
    let (pid, count) = (raw::take_variable("LISTEN_PID"), raw::take_variable("LISTEN_FDS"));
    raw::take_variable("LISTEN_FDNAMES");
    let (pid, count) = match (pid, count) {
        (None, None) => return Ok(None),
        (Some(pid), Some(count)) => (pid, count),
        _ => return Err("LISTEN_PID and LISTEN_FDS belong together, and only one of them is set".into()),
    };
    let own = process::own_pid();
    if notify::number(&pid) != Some(own.into()) {
        return Err(format!(
            "LISTEN_PID={}: the socket is meant for another process, this is {own}; let a script in between exec stockaded, \
             or unset LISTEN_PID and LISTEN_FDS",
            pid.display()
        ));
    }
    if notify::number(&count) != Some(1) {
        return Err(format!(
            "LISTEN_FDS={}: exactly one socket is taken; leave one ListenStream= in the socket unit",
            count.display()
        ));
    }
    let socket = socket::take_inherited(HANDED_OVER).ok_or("LISTEN_FDS=1, and descriptor 3 is not open")?;
    if !socket::is_unix_stream(&socket, true) {
        return Err("descriptor 3 is no listening Unix stream socket; the socket unit needs ListenStream= with a path, \
                    and Accept=no"
            .into());
    }
    Ok(Some(socket))
}

/// A socket that systemd has made. Its unit decides who reaches it, and may not let in more than the policy names.
pub fn adopt(
    socket: OwnedFd,
    policy: &Policy,
    accounts: &Accounts,
) -> Result<(UnixListener, PathBuf), String> {
    let listener = UnixListener::from(socket);
    let address = listener.local_addr().map_err(|error| format!("the socket handed over: {error}"))?;
    let path = address.as_pathname().ok_or(
        "the socket handed over has no path and so no mode: everybody could connect; give ListenStream= a path",
    )?;
    let shown = path.display();
    let facts = host::facts_at(path).map_err(|errno| format!("{shown}: {errno}"))?;
    let (group, mode) = access(policy, accounts)?;
    // Connecting takes the right to write, whatever the other bits say.
    if facts.mode & 0o022 & !mode != 0 {
        return Err(format!(
            "{shown}: has mode {:04o}, and the policy's [socket] allows {mode:04o}; set SocketMode= in the socket unit, \
             or group and mode in the policy",
            facts.mode
        ));
    }
    if facts.mode & 0o020 != 0 && Some(facts.gid) != group {
        return Err(format!(
            "{shown}: belongs to gid {}, which is not the [socket] group of the policy; set SocketGroup= in the socket unit",
            facts.gid
        ));
    }
    Ok((listener, path.to_path_buf()))
}

/// The folder decides who can reach or replace the socket. Missing: made, for us alone.
fn check_folder(folder: &Path, policy: &Policy, identity: Identity) -> Result<(), String> {
    let shown = folder.display();
    match host::make_private_directory(folder) {
        Ok(()) => {
            let mode = if policy.socket.group.is_some() { 0o711 } else { 0o700 };
            return host::hand_over(folder, identity.uid, identity.gid, mode)
                .map_err(|e| format!("{shown}: {e}"));
        }
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(format!("{shown}: the socket's folder cannot be made: {errno}")),
    }
    let directory = host::open_directory(folder).map_err(|errno| format!("{shown}: {errno}"))?;
    let facts = host::facts(directory).map_err(|errno| format!("{shown}: {errno}"))?;
    if facts.uid != 0 && facts.uid != identity.uid && facts.uid != process::effective_uid() {
        return Err(format!(
            "{shown}: the socket's folder belongs to uid {}, who could replace the socket",
            facts.uid
        ));
    }
    if facts.mode & 0o022 != 0 {
        return Err(format!(
            "{shown}: the socket's folder may be written by others (mode {:04o}); use a folder of your own, mode 0700",
            facts.mode
        ));
    }
    if facts.mode & 0o077 != 0 && policy.socket.group.is_none() {
        return Err(format!(
            "{shown}: the socket's folder is open to others (mode {:04o}); make it 0700, or name who may connect with \
             [socket] group and [[peer]] in the policy",
            facts.mode
        ));
    }
    Ok(())
}

fn remove_stale(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let facts = match host::facts_at(path) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(|errno| format!("{shown}: {errno}"))?,
    };
    if facts.kind != Kind::Socket {
        return Err(format!("{shown}: is there already and is not a socket"));
    }
    match socket::is_listened_to(path) {
        Ok(true) => Err(format!("{shown}: another process is listening here")),
        Ok(false) => {
            tracing::info!(path = %shown, "replacing a socket that nobody listens on");
            host::remove(path).map_err(|errno| format!("{shown}: {errno}"))
        }
        Err(error) => {
            Err(format!("{shown}: is there already, and whether somebody listens cannot be told: {error}"))
        }
    }
}
