//! Starts workers: an exec, not only a fork, through a descriptor that was opened at the start, so that an upgrade of the
//! package never stops new connections. A worker gets an empty environment and the channel as descriptor 0; descriptors 1 and
//! 2 are /dev/null, and it inherits no others.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::io::{Interest, unix::AsyncFd};

use super::attend;
use crate::{
    VERSION,
    broker::{
        codec::{MAX_MESSAGE_BYTES, ToSupervisor, ToWorker},
        setup::Setup,
    },
    confine::escape,
    sys::{
        Errno,
        host::{self, HostFileKind},
        lookup::{self, LookupResult},
        poll,
        process::{self, ChildHandle},
        socket::{self, WaitMode},
    },
};

/// Time for a worker to report that it is ready. It needs about a millisecond, and more on a loaded machine.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The path of the worker's program, and the descriptor that it is executed through.
#[derive(Debug)]
pub struct WorkerProgram {
    pub path: PathBuf,
    pub fd: OwnedFd,
    null_device: OwnedFd,
}

impl WorkerProgram {
    /// Finds the worker's program in the folder of this executable, or in `libexec` of the same prefix.
    pub fn find() -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| format!("own executable: {error}"))?;
        let folder = own.parent().ok_or("own executable: has no folder")?;
        let candidates = [folder.join("stockade-worker"), folder.join("../libexec/stockade/stockade-worker")];
        for path in &candidates {
            let failed = |errno: Errno| format!("{}: {errno}", path.display());
            let found = lookup::look_up(path).map_err(failed)?;
            if !found.is_missing {
                return Self::check_program(found, &lookup::look_up(&own).map_err(failed)?);
            }
        }
        Err(format!(
            "stockade-worker is missing: looked for {} and {}",
            candidates[0].display(),
            candidates[1].display()
        ))
    }

    /// Refuses a program that other users could change.
    fn check_program(found: LookupResult, own: &LookupResult) -> Result<Self, String> {
        let shown = found.path.display();
        let failed = |errno: Errno| format!("{shown}: {errno}");
        if found.ends_in_link {
            return Err(format!("{shown}: is a link; install the worker's program itself under this name"));
        }
        let name = found.file_name().map_err(failed)?;
        let fd = host::open_program(&found.folder, Path::new(name)).map_err(failed)?;
        let facts = host::facts(&fd).map_err(failed)?;
        if facts.kind != HostFileKind::RegularFile {
            return Err(format!("{shown}: is not a regular file"));
        }
        let by_group = facts.mode & 0o020 != 0 && facts.gid != process::effective_gid();
        if facts.mode & 0o002 != 0 || by_group {
            return Err(format!("{shown}: may be written by others (mode {:04o}); refusing to run it", facts.mode));
        }
        // The owner of this executable is trusted, because that user could have changed this very check.
        let our_owner = own.file_name().and_then(|name| host::facts_at(&own.folder, name));
        let our_owner = our_owner.map_err(|errno| format!("{}: {errno}", own.path.display()))?.uid;
        if ![0, process::effective_uid(), our_owner].contains(&facts.uid) {
            return Err(format!("{shown}: belongs to uid {}, who could change it; refusing to run it", facts.uid));
        }
        if let Some(chooser) = found.choosers_beyond(own).next().filter(|_| process::is_privileged()) {
            return Err(format!(
                "{shown}: {chooser}, so another user could replace the worker's program; install it in a folder that only root can change"
            ));
        }
        let null = host::open_null().map_err(|errno| format!("/dev/null: {errno}"))?;
        Ok(Self { path: found.path, fd, null_device: null })
    }

    fn execute(&self, channel: OwnedFd) -> io::Result<u32> {
        Command::new(host::executable(&self.path, &self.fd)?)
            .arg0("stockade-worker")
            .env_clear()
            .stdin(Stdio::from(channel))
            .stdout(Stdio::from(self.null_device.try_clone()?))
            .stderr(Stdio::from(self.null_device.try_clone()?))
            .spawn()
            .map(|child| child.id())
    }
}

/// A worker that has proved its confinement and waits for a connection.
#[derive(Debug)]
pub struct WarmWorker {
    pub pid: u32,
    pub process: ChildHandle,
    pub channel: Arc<OwnedFd>,
    /// The results of the worker's own attempts to escape.
    pub escape_results: Vec<(u8, escape::AttemptResult)>,
}

impl WarmWorker {
    /// False if the channel is readable: an idle worker sends nothing, so its channel has ended or it violates the protocol.
    pub fn is_usable(&self) -> bool {
        !poll::is_readable(self.channel.as_fd())
    }
}

/// Everything that a worker of one profile is started with.
#[derive(Debug)]
pub struct WorkerBlueprint {
    pub program: Rc<WorkerProgram>,
    pub setup: Setup,
    pub roots: Vec<Arc<OwnedFd>>,
}

impl WorkerBlueprint {
    /// Starts a worker and returns it once it has reported a working jail. Leaves nothing behind on failure.
    pub async fn start_worker(&self) -> Result<WarmWorker, String> {
        let (ours, theirs) = socket::message_pair().map_err(|errno| format!("socketpair: {errno}"))?;
        let json = serde_json::to_vec(&self.setup).map_err(|error| error.to_string())?;
        let roots: Vec<_> = self.roots.iter().map(|fd| fd.as_fd()).collect();
        if !roots.iter().all(|fd| process::is_path_directory(*fd)) {
            return Err("a root is not an O_PATH directory".into());
        }
        socket::send(ours.as_fd(), &ToWorker::Setup { json }.encode(), &roots, WaitMode::Now)
            .map_err(|errno| format!("the policy does not fit into a set-up message: {errno}"))?;
        let pid = self.program.execute(theirs).map_err(|error| format!("{}: {error}", self.program.path.display()))?;
        let process = ChildHandle::of(pid).map_err(|errno| format!("pidfd_open: {errno}"))?;
        let channel = watch_readable(ours).map_err(|error| error.to_string())?;
        let ready = match tokio::time::timeout(READY_TIMEOUT, receive_report(&channel)).await {
            Ok(received) => received.and_then(|message| self.check_report(message)),
            Err(_) => Err("the worker did not get ready in time".into()),
        };
        match ready {
            Ok(probes) => {
                Ok(WarmWorker { pid, process, channel: Arc::new(channel.into_inner()), escape_results: probes })
            }
            Err(reason) => {
                process.kill();
                Err(reason)
            }
        }
    }

    fn check_report(&self, message: Option<ToSupervisor>) -> Result<Vec<(u8, escape::AttemptResult)>, String> {
        let (version, probes) = match message {
            Some(ToSupervisor::Ready { version, escape_results: probes }) => (version, probes),
            // Quoted with escapes, because the text comes from an unconfined worker.
            Some(ToSupervisor::Failed { reason }) => {
                return Err(format!("the worker could not confine itself; it reports {reason:?}"));
            }
            _ => return Err("the worker ended before it was confined".into()),
        };
        if version != VERSION {
            return Err(format!("the worker is version {version}, this is {VERSION}; install both from one package"));
        }
        match escape::check_report(&self.setup, &probes) {
            Ok(()) => Ok(probes),
            Err(wrong) => Err(format!("the jail does not hold: {}", wrong.join("; "))),
        }
    }
}

/// Registers a descriptor in the event loop, for reading only. With interest in writing, the loop would also wake whenever
/// the far end receives a message, which is once per answer.
#[allow(deprecated)]
pub fn watch_readable<T: AsFd + AsRawFd>(fd: T) -> io::Result<AsyncFd<T>> {
    // Deprecated because `as_raw_fd` of a type could return a descriptor that the value does not own. The types used here own
    // theirs. The replacement is an unsafe function; those belong into `sys`, which does not depend on the runtime.
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Receives the report of a new worker; `None` if the worker ends without one.
async fn receive_report(channel: &AsyncFd<OwnedFd>) -> Result<Option<ToSupervisor>, String> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let receive = |channel: &OwnedFd| Ok(socket::receive(channel.as_fd(), &mut buffer, WaitMode::Now)?);
    match channel.async_io(Interest::READABLE, receive).await {
        Ok(received) if received.len == 0 => Ok(None),
        Ok(received) => attend::decode_message(&received, &buffer).map(Some),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
