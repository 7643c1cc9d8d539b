//! The socket. Made before the identity is assumed, never reachable by more people than the policy names.

use std::{
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
};

use super::identity::Identity;
use crate::{
    policy::Policy,
    sys::{
        Errno,
        host::{self, Kind},
        process,
        socket::MAX_SOCKET_PATH,
        user,
    },
};

const PRIVATE_SOCKET: u32 = 0o600;

pub fn default_path() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) if process::effective_uid() != 0 => Path::new(&directory).join("stockade.sock"),
        _ => PathBuf::from("/run/stockade/stockade.sock"),
    }
}

/// A listening socket with its folder's and its own mode checked. A stale one is replaced, a live one never.
pub fn bind(path: &Path, policy: &Policy, identity: Identity) -> Result<UnixListener, String> {
    let shown = path.display();
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(format!(
            "{shown}: a socket path has at most {MAX_SOCKET_PATH} bytes, this one {}; choose a shorter one with --socket",
            path.as_os_str().len()
        ));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_folder(folder, policy, identity)?;
    remove_stale(path)?;
    let listener =
        host::with_private_umask(|| UnixListener::bind(path)).map_err(|error| format!("{shown}: {error}"))?;
    let (gid, mode) = match &policy.socket.group {
        None => (identity.gid, PRIVATE_SOCKET),
        Some(name) => {
            let gid = user::gid_of(name)
                .ok_or_else(|| format!("socket.group = \"{name}\": there is no such group"))?;
            (gid, policy.socket.mode)
        }
    };
    host::hand_over(path, identity.uid, gid, mode).map_err(|errno| format!("{shown}: {errno}"))?;
    Ok(listener)
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
    match UnixStream::connect(path) {
        Ok(_) => Err(format!("{shown}: another process is listening here")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %shown, "replacing a socket that nobody listens on");
            host::remove(path).map_err(|errno| format!("{shown}: {errno}"))
        }
        Err(error) => {
            Err(format!("{shown}: is there already, and whether somebody listens cannot be told: {error}"))
        }
    }
}
