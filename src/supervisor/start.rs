//! The start, in the only safe order: while the supervisor is single-threaded and unconfined it does as little as possible,
//! and after it has confined itself it does none of that any more. A broker outside the jail is a known way to escape.

use std::{
    io::IsTerminal,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use super::{
    SupervisorError, accept,
    args::{RunMode, SupervisorArgs},
    audit::{AuditTarget, AuditWriter, PreopenedAuditFile},
    identity,
    line_writer::{LineWriter, MAX_LINE_BYTES},
    listen::{self, SocketLocation},
    notify::Notifier,
    policy_in_force::{PolicyInForce, StartState},
    reload::{PolicyFile, Reloader},
    requirements,
    spawn::WorkerProgram,
};
use crate::{
    confine::{self, SupervisorAccess, layers},
    policy::{self, AuditPath, Policy, PreparedRoot, PreparedRoots, ServiceIdentity, Starter},
    sys::{
        host,
        lookup::{self, LookupResult},
        process, socket,
    },
    terms::Level,
};

/// Everything that `prepare` makes for the event loop.
#[derive(Debug)]
pub struct PreparedService {
    pub policy_in_force: PolicyInForce,
    pub reloader: Reloader,
    pub audit: AuditWriter,
    pub log: LineWriter,
}

/// The source of client connections.
#[derive(Debug)]
pub enum ClientSource {
    /// `owns_socket`: this process created the socket, and removes it at the end.
    Listener {
        listener: UnixListener,
        location: SocketLocation,
        owns_socket: bool,
    },
    SingleConnection(OwnedFd),
}

pub fn run(args: &SupervisorArgs) -> Result<(), SupervisorError> {
    let is_daemon = args.mode == RunMode::Daemon;
    let handed_over = if is_daemon { listen::take_inherited_socket().map_err(SupervisorError::Usage)? } else { None };
    if handed_over.is_some() && args.socket.is_some() {
        let both = "--socket: the socket is the one that systemd has handed over; leave --socket out, or start without";
        return Err(SupervisorError::Usage(both.into()));
    }
    let first_unwanted = 3 + u32::from(handed_over.is_some());
    process::close_from(first_unwanted).map_err(|errno| SupervisorError::Failed(format!("close_range: {errno}")))?;
    let log = start_log(args.mode)?;
    let notify =
        if is_daemon { Notifier::from_environment().map_err(SupervisorError::Failed)? } else { Notifier::default() };
    let one = if args.mode == RunMode::Inetd { Some(take_stdin_connection()?) } else { None };
    let mut source = None;
    let prepared = prepare(args, log, |policy, starter, identity| {
        let ((listener, place), own) = match (one, handed_over) {
            (Some(connection), _) => {
                source = Some(ClientSource::SingleConnection(connection));
                return Ok(Vec::new());
            }
            (None, Some(socket)) => {
                (listen::adopt_inherited_socket(socket, policy, starter).map_err(SupervisorError::Usage)?, false)
            }
            (None, None) => {
                let path = args.socket.clone().unwrap_or_else(listen::default_socket_path);
                let bound = listen::bind_socket(&path, policy, starter, identity);
                let advise = |reason| if args.socket.is_some() { reason } else { listen::advise_on_default(reason) };
                (bound.map_err(|reason| SupervisorError::Failed(advise(reason)))?, true)
            }
        };
        let mut denied = vec![place.path.clone()];
        denied.extend(place.path.parent().map(PathBuf::from));
        source = Some(ClientSource::Listener { listener, location: place, owns_socket: own });
        Ok(denied)
    })?;
    let source = source.ok_or_else(|| SupervisorError::Failed("no socket was made".into()))?;
    confine_self(&prepared, &source)?;
    accept::run(prepared, source, notify)
}

/// Turns the policy into open descriptors and worker blueprints. `bind` may still run as root. It returns absolute paths
/// without links that belong to the service; they become denied names if a root contains them.
pub fn prepare(
    args: &SupervisorArgs,
    log: LineWriter,
    bind: impl FnOnce(&Policy, &Starter, ServiceIdentity) -> Result<Vec<PathBuf>, SupervisorError>,
) -> Result<PreparedService, SupervisorError> {
    let usage = |error: policy::PolicyError| SupervisorError::Usage(error.to_string());
    let starter = Starter::current();
    // Real paths that no client may use, even if they are in a root.
    let mut own = Vec::new();
    let (policy, file) = match &args.policy {
        None => (args.command_line_policy(), None),
        Some(path) => {
            let (opened, real) = starter.open_policy(path).map_err(usage)?;
            own.push(real);
            let file = PolicyFile::open(path, &starter).map_err(SupervisorError::Usage)?;
            let policy = Policy::read(opened, &path.display().to_string(), &starter).map_err(usage)?;
            (policy, Some(Arc::new(file)))
        }
    };
    let landlock_abi = requirements::check_requirements(&policy).map_err(SupervisorError::NotEnforceable)?;
    let prepared = policy.prepare_roots().map_err(usage)?;
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let identity = identity::choose(&policy, &prepared, &starter).map_err(usage)?;
    let PreparedRoots { roots, found, absent_optional: absent, .. } = prepared;
    let peers = policy.profiles(&roots, identity.uid, &starter.accounts).map_err(usage)?;
    let program = Rc::new(WorkerProgram::find().map_err(SupervisorError::Failed)?);
    let level = policy.confinement;
    if level == Level::Userspace {
        tracing::warn!("confinement = \"userspace\": no Landlock, no seccomp; only our own checks hold");
    }
    own.extend(bind(&policy, &starter, identity)?);
    let mut target = audit_target(args, &policy);
    let roots_file = match target.as_ref().map(|target| PreopenedAuditFile::open(target, &starter, identity.uid)) {
        None => None,
        Some(Ok(opened)) => opened,
        Some(Err(reason)) if target.as_ref().is_some_and(|target| target.is_shared) => {
            tracing::warn!(%reason, "no audit is written");
            target = None;
            None
        }
        Some(Err(reason)) => return Err(SupervisorError::Failed(reason)),
    };
    identity::assume(identity).map_err(SupervisorError::Failed)?;
    let audit = AuditWriter::open(target.as_ref(), roots_file, &log, policy.audit.level, level, identity.uid)
        .map_err(SupervisorError::Failed)?;
    own.extend(audit.file_paths());
    // Denied even if this service writes to another file or to none, because other commands of the same user write there.
    let of_user = AuditPath::for_user(|name| std::env::var_os(name)).and_then(|path| lookup::look_up(&path).ok());
    if let Some(found) = of_user.filter(|found| !own.contains(&found.path)) {
        own.extend(AuditPath::names(&found.path));
    }
    own.push(program.path.clone());
    own.extend(std::env::current_exe());
    // If the folder of the socket is itself a root, only the socket is denied.
    own.retain(|path| !roots.iter().any(|root| root.root.path == *path));
    let opened = open_roots(&roots, found, starter.uid != identity.uid)?;
    let ground = StartState {
        level,
        landlock_abi,
        uid: identity.uid,
        accounts: starter.accounts,
        roots,
        root_folders: opened,
        absent_roots: absent,
        service_paths: own,
        program,
        is_audited: audit.is_on(),
    };
    // One connection needs one worker, the one that proves the jail.
    let warm = if args.mode == RunMode::Daemon { policy.workers.pool as usize } else { 0 };
    let offer = ground.build_policy_in_force(&policy, peers, warm).map_err(SupervisorError::Usage)?;
    Ok(PreparedService { policy_in_force: offer, reloader: Reloader { start_state: ground, policy, file }, audit, log })
}

/// A policy names its audit file; without one, records go to standard error. A supervisor of one command writes to the file
/// that its user named, or to the file that all commands of this user share.
fn audit_target(args: &SupervisorArgs, policy: &Policy) -> Option<AuditTarget> {
    let file = |path, is_shared| AuditTarget { path: AuditPath::File(path), is_shared };
    match (args.mode, &args.audit) {
        (RunMode::Inetd, Some(audit)) if audit == "off" => None,
        (RunMode::Inetd, Some(audit)) => Some(file(audit.into(), false)),
        (RunMode::Inetd, None) if args.policy.is_none() => {
            AuditPath::for_user(|name| std::env::var_os(name)).map(|path| file(path, true))
        }
        (RunMode::Check, _) if args.policy.is_none() => None,
        _ => Some(AuditTarget { path: policy.audit.path.clone(), is_shared: false }),
    }
}

/// Takes the folders that the first resolution found; from here on only descriptors count. A service that has changed to
/// another user opens them `again` with the rights of that user, so that clients reach nothing that this user may not.
fn open_roots(
    roots: &[PreparedRoot],
    found: Vec<LookupResult>,
    again: bool,
) -> Result<Vec<Arc<OwnedFd>>, SupervisorError> {
    let open = |(prepared, found): (&PreparedRoot, LookupResult)| {
        let path = &prepared.root.path;
        tracing::info!(root = %path.display(), given = %prepared.written_path.display(), mode = ?prepared.root.mode);
        if !again {
            return Ok(Arc::new(found.folder));
        }
        let failed = |what: String| SupervisorError::Failed(format!("{}: {what}", path.display()));
        let reached = lookup::look_up(path).map_err(|errno| failed(errno.to_string()))?;
        if reached.facts.id != found.facts.id || reached.path != *path {
            return Err(failed(
                "is another folder than at the beginning of the start: another process replaced it; start again".into(),
            ));
        }
        Ok(Arc::new(reached.folder))
    };
    roots.iter().zip(found).map(open).collect()
}

/// Confines the supervisor. It keeps access to the roots of all profiles, also for a later reload, to the worker's program
/// and the folder of the policy, and it may remove its socket.
pub fn confine_self(prepared: &PreparedService, source: &ClientSource) -> Result<(), SupervisorError> {
    let failed = |error: confine::ConfineError| SupervisorError::NotEnforceable(error.to_string());
    confine::give_up_privileges().map_err(failed)?;
    process::raise_open_files();
    let first = prepared.policy_in_force.pools.first().map(|pool| &pool.blueprint.setup);
    if !first.is_some_and(layers::uses_landlock) {
        return Ok(());
    }
    let socket_folder = match source {
        ClientSource::Listener { location: place, owns_socket: true, .. } => Some(place.folder.as_fd()),
        _ => None,
    };
    let Reloader { start_state: ground, file, .. } = &prepared.reloader;
    let roots = ground.roots.iter().zip(&ground.root_folders);
    confine::confine_supervisor(&SupervisorAccess {
        roots: roots.map(|(prepared, fd)| (fd.as_fd(), prepared.root.mode)).collect(),
        program: Some(ground.program.fd.as_fd()),
        policy_folder: file.as_ref().map(|file| file.folder()),
        socket_folder,
        audit_folder: prepared.audit.folder(),
        rotates_audit: prepared.audit.rotates_file(),
    })
    .map_err(failed)
}

fn take_stdin_connection() -> Result<OwnedFd, SupervisorError> {
    let stdin = std::io::stdin();
    if !socket::is_unix_stream(&stdin, false) {
        return Err(SupervisorError::Usage("--inetd: standard input is not a connected Unix stream socket".into()));
    }
    let connection = stdin.as_fd().try_clone_to_owned().map_err(|error| SupervisorError::Failed(error.to_string()))?;
    // The duplicate serves as the connection. Another one on descriptor 0 would keep it open for ever.
    host::replace_stdin_with_null().map_err(|errno| SupervisorError::Failed(format!("/dev/null: {errno}")))?;
    Ok(connection)
}

/// The writer of the log. A line that does not fit into the queue is lost, and the service continues.
struct LogWriter(LineWriter);

impl std::io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let cut = &line[..line.len().min(MAX_LINE_BYTES)];
        match cut.split_last() {
            Some((b'\n', _)) => self.0.push(cut),
            Some((_, rest)) => self.0.push(&[rest, b"\n"].concat()),
            None => true,
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts the log: text on a terminal, else JSON for a journal. In all modes other than the daemon only errors are logged.
pub fn start_log(mode: RunMode) -> Result<LineWriter, SupervisorError> {
    let stderr =
        host::duplicate_stderr().map_err(|errno| SupervisorError::Failed(format!("standard error: {errno}")))?;
    let lines = LineWriter::new(stderr.into());
    let writer = lines.clone();
    let level = if mode == RunMode::Daemon { tracing::Level::INFO } else { tracing::Level::ERROR };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || LogWriter(writer.clone()))
        .with_target(false);
    if std::io::stderr().is_terminal() {
        log.compact().init()
    } else {
        log.json().init()
    }
    Ok(lines)
}
