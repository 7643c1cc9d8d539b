//! The listening socket. Created before the process changes to its identity, and never reachable by more users than the
//! policy names. Runs as root if root starts the service. Then every name that another user could change is created, replaced
//! or removed only with the file rights of the service's identity.

use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::notify;
use crate::{
    policy::{Policy, ServiceIdentity, Starter},
    sys::{
        Errno,
        host::{self, HostFileKind},
        lookup::{self, LookupResult},
        process, raw,
        socket::{self, MAX_SOCKET_PATH},
    },
};

/// Time to wait for the lock of the folder. Another service needs it only for a moment, to create its socket.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(5);
/// The first descriptor that systemd passes on.
const FIRST_PASSED_DESCRIPTOR: i32 = 3;

pub fn default_socket_path() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) if process::effective_uid() != 0 => Path::new(&directory).join("stockade.sock"),
        _ => PathBuf::from("/run/stockade/stockade.sock"),
    }
}

/// Adds advice to the reason why the default socket was not made, if the user is not root and has no runtime folder.
pub fn advise_on_default(reason: String) -> String {
    if process::effective_uid() == 0 || std::env::var_os("XDG_RUNTIME_DIR").is_some() {
        return reason;
    }
    format!(
        "{reason}; XDG_RUNTIME_DIR is not set, so give the socket a place of your own: --socket \"$HOME/.stockade/stockade.sock\", \
         and the same path in STOCKADE_SOCKET for clients"
    )
}

/// The path of a socket. The folder stays open, so that later only the socket's own name is resolved again.
#[derive(Debug)]
pub struct SocketLocation {
    pub folder: OwnedFd,
    pub name: OsString,
    /// Absolute and without links.
    pub path: PathBuf,
}

/// A listening socket in a checked folder. Replaces a stale socket, but never one that a service still listens on.
pub fn bind_socket(
    path: &Path,
    policy: &Policy,
    starter: &Starter,
    identity: ServiceIdentity,
) -> Result<(UnixListener, SocketLocation), String> {
    let shown = path.display();
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(format!(
            "{shown}: a socket path has at most {MAX_SOCKET_PATH} bytes, this one {}; choose a shorter one with --socket",
            path.as_os_str().len()
        ));
    }
    let (group, mode) = (policy.socket_gid(&starter.accounts)?, policy.socket.mode);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| format!("{shown}: is not the name of a socket"))?;
    let found = prepare_folder(folder, policy, starter, identity)?;
    let failed = |errno: Errno| format!("{shown}: {errno}");
    let _lock = lock_folder(&found.folder, folder)?;
    let owner = SocketOwner::of(&found, starter, identity, group);
    owner.run_as_owner(|| remove_stale_socket(&found.folder, name, path)).map_err(failed)??;
    // Only root can create the socket with another group. Otherwise it is created with the bits of the owner alone, and group
    // and mode are set afterwards.
    let first_mode = if starter.is_privileged || group.is_none() { mode } else { mode & 0o700 };
    let listen = || owner.run_as_owner(|| socket::listen_here(name, first_mode));
    let listener = host::in_directory(&found.folder, listen).and_then(|made| made?).map_err(failed)?;
    if let Some(gid) = group.filter(|_| !starter.is_privileged) {
        host::give_to_group(&found.folder, name, gid, mode).map_err(failed)?;
    }
    let facts = host::facts_at(&found.folder, name).map_err(failed)?;
    let gid_counts = mode & 0o070 != 0;
    if facts.uid != identity.uid || facts.mode != mode || (gid_counts && facts.gid != owner.gid) {
        return Err(format!(
            "{shown}: the new socket has owner {}, group {} and mode {:04o} instead of {}, {} and {mode:04o}; \
             remove the folder's setgid bit and default access list",
            facts.uid, facts.gid, facts.mode, identity.uid, owner.gid
        ));
    }
    let place = SocketLocation { name: name.into(), path: found.path.join(name), folder: found.folder };
    Ok((UnixListener::from(listener), place))
}

/// The owner of the socket and of its folder. A service that root starts creates them with the rights of its identity,
/// because in a folder of that identity every name can be a trap for root.
struct SocketOwner {
    uid: u32,
    gid: u32,
    is_privileged: bool,
    /// Only root can change the folder: keep CAP_DAC_OVERRIDE, because the identity may not write there.
    keeps_dac_override: bool,
}

impl SocketOwner {
    fn of(folder: &LookupResult, starter: &Starter, identity: ServiceIdentity, group: Option<u32>) -> Self {
        Self {
            uid: identity.uid,
            gid: group.unwrap_or(identity.gid),
            is_privileged: starter.is_privileged,
            keeps_dac_override: folder.writer_beside_root(&starter.accounts).is_none(),
        }
    }

    fn run_as_owner<T>(&self, act: impl FnOnce() -> T) -> Result<T, Errno> {
        if !self.is_privileged {
            return Ok(act());
        }
        process::with_file_owner(self.uid, self.gid, self.keeps_dac_override, act)
    }
}

/// Locks the folder while a socket is checked and replaced. Without the lock, the slower of two services that find the same
/// stale socket would remove the socket that the faster one has just made, and no client could connect to the faster service.
fn lock_folder(folder: &OwnedFd, shown: &Path) -> Result<Option<OwnedFd>, String> {
    let start = Instant::now();
    loop {
        match host::lock_directory(folder) {
            Ok(lock) => return Ok(Some(lock)),
            Err(Errno::AGAIN) if start.elapsed() < LOCK_TIMEOUT => std::thread::sleep(LOCK_RETRY_PAUSE),
            Err(Errno::AGAIN) => return Err(format!("{}: is locked by another process", shown.display())),
            // Some file systems cannot lock folders. The service then works without the lock.
            Err(_) => return Ok(None),
        }
    }
}

/// Takes the listening socket that systemd passes on; `None` if systemd passes none to this process. Call this before the
/// process closes inherited descriptors. Removes the variables of the protocol from the environment.
pub fn take_inherited_socket() -> Result<Option<OwnedFd>, String> {
    let (pid, count) = (raw::take_variable("LISTEN_PID"), raw::take_variable("LISTEN_FDS"));
    raw::take_variable("LISTEN_FDNAMES");
    let (pid, count) = match (pid, count) {
        (None, None) => return Ok(None),
        (Some(pid), Some(count)) => (pid, count),
        _ => return Err("LISTEN_PID and LISTEN_FDS belong together, and only one of them is set".into()),
    };
    let own = process::own_pid();
    if notify::parse_number(&pid) != Some(own.into()) {
        return Err(format!(
            "LISTEN_PID={}: the socket is meant for another process, this is {own}; let a script in between exec stockaded, \
             or unset LISTEN_PID and LISTEN_FDS",
            pid.display()
        ));
    }
    if notify::parse_number(&count) != Some(1) {
        return Err(format!(
            "LISTEN_FDS={}: exactly one socket is taken; leave one ListenStream= in the socket unit",
            count.display()
        ));
    }
    let socket = socket::take_inherited(FIRST_PASSED_DESCRIPTOR).ok_or("LISTEN_FDS=1, and descriptor 3 is not open")?;
    if !socket::is_unix_stream(&socket, true) {
        return Err(
            "descriptor 3 is no listening Unix stream socket; the socket unit needs ListenStream= with a path, \
                    and Accept=no"
                .into(),
        );
    }
    Ok(Some(socket))
}

/// Checks and uses a socket that systemd created. The socket unit decides which users can connect, and may not admit more
/// users than the policy names.
pub fn adopt_inherited_socket(
    socket: OwnedFd,
    policy: &Policy,
    starter: &Starter,
) -> Result<(UnixListener, SocketLocation), String> {
    let listener = UnixListener::from(socket);
    let address = listener.local_addr().map_err(|error| format!("the socket handed over: {error}"))?;
    let path = address.as_pathname().ok_or(
        "the socket handed over has no path and so no mode: everybody could connect; give ListenStream= a path",
    )?;
    let shown = path.display();
    let found = lookup::look_up(path).map_err(|errno| format!("{shown}: {errno}"))?;
    // Otherwise the name could by now belong to another socket with another mode.
    if let Some(chooser) = found.foreign_chooser(&[], &starter.accounts).filter(|_| starter.is_privileged) {
        return Err(format!(
            "{shown}: {chooser}, so another user could replace the socket; use a folder that only root can change"
        ));
    }
    let name = found.file_name().map_err(|errno| format!("{shown}: {errno}"))?;
    let facts = host::facts_at(&found.folder, name).map_err(|errno| format!("{shown}: {errno}"))?;
    let (group, mode) = (policy.socket_gid(&starter.accounts)?, policy.socket.mode);
    // A client needs the right to write in order to connect; the other bits do not matter.
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
    let place = SocketLocation { name: name.into(), path: found.path, folder: found.folder };
    Ok((listener, place))
}

/// Checks the folder, which decides who can reach or replace the socket. A missing folder is created, and only the identity
/// can write to it.
fn prepare_folder(
    folder: &Path,
    policy: &Policy,
    starter: &Starter,
    identity: ServiceIdentity,
) -> Result<LookupResult, String> {
    let shown = folder.display();
    let mut found = open_checked_folder(folder, starter, identity)?;
    if found.is_missing {
        let not_made = |errno: Errno| format!("{shown}: the socket's folder cannot be made: {errno}");
        let (parent, name) = (folder.parent(), folder.file_name());
        let (parent, name) = parent.zip(name).ok_or_else(|| not_made(Errno::NOENT))?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let above = open_checked_folder(parent, starter, identity)?;
        if above.is_missing {
            return Err(not_made(Errno::NOENT));
        }
        let mode = if policy.socket.group.is_some() { 0o711 } else { 0o700 };
        let owner = SocketOwner::of(&above, starter, identity, None);
        let made = owner.run_as_owner(|| host::make_directory(&above.folder, name, mode)).and_then(|made| made);
        match made {
            Ok(()) | Err(Errno::EXIST) => found = open_checked_folder(folder, starter, identity)?,
            Err(errno) => return Err(not_made(errno)),
        }
    }
    if !found.rest.as_os_str().is_empty() {
        return Err(format!("{shown}: is not a folder"));
    }
    let facts = found.facts;
    if facts.uid != 0 && facts.uid != identity.uid && facts.uid != starter.uid {
        return Err(format!("{shown}: the socket's folder belongs to uid {}, who could replace the socket", facts.uid));
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
    Ok(found)
}

/// Opens a folder. If root starts the service, no user other than root and the identity may be able to replace it.
fn open_checked_folder(folder: &Path, starter: &Starter, identity: ServiceIdentity) -> Result<LookupResult, String> {
    let shown = folder.display();
    let found = lookup::look_up(folder).map_err(|errno| format!("{shown}: {errno}"))?;
    // The name of a missing folder is checked after the folder is created.
    let chooser = found.foreign_chooser(&[identity.uid], &starter.accounts);
    match chooser.filter(|_| starter.is_privileged && !found.is_missing) {
        None => Ok(found),
        Some(chooser) => Err(format!(
            "{shown}: {chooser}, so another user could replace the socket's folder; use a folder that only root or uid {} can change",
            identity.uid
        )),
    }
}

fn remove_stale_socket(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), String> {
    let shown = path.display();
    let facts = match host::facts_at(folder, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(|errno| format!("{shown}: {errno}"))?,
    };
    if facts.kind != HostFileKind::Socket {
        return Err(format!("{shown}: is there already and is not a socket"));
    }
    match socket::is_listened_to(folder, name) {
        Ok(true) => Err(format!("{shown}: another process is listening here")),
        Ok(false) => {
            tracing::info!(path = %shown, "replacing a socket that nobody listens on");
            host::remove(folder, name).map_err(|errno| format!("{shown}: {errno}"))
        }
        Err(error) => Err(format!("{shown}: is there already, and whether somebody listens cannot be told: {error}")),
    }
}
