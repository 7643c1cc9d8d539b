//! The start, in the one order that is safe: while single-threaded and unconfined as little as possible is done, and
//! nothing of it after the supervisor has confined itself. A broker outside the jail is a known escape.

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
    Stop, accept,
    args::{Args, Mode},
    audit::Audit,
    identity::{self, Identity},
    lines::{Lines, MAX_LINE_BYTES, Sink},
    listen,
    notify::Notifier,
    offer::{self, Ground, Offer},
    reload::{PolicyFile, Reloader},
    requirements,
    spawn::Program,
};
use crate::{
    confine::{self, Kept, plan},
    policy::{self, Confinement, Policy, PreparedRoot},
    sys::{host, process, socket, user::Accounts},
    wire::types::info::Level,
};

/// Everything that was prepared, for the loop that serves.
#[derive(Debug)]
pub struct Prepared {
    pub offer: Offer,
    pub reloader: Reloader,
    pub audit: Audit,
    pub log: Lines,
}

/// Where clients come from.
#[derive(Debug)]
pub enum Source {
    /// `own`: we have made the socket, and remove it.
    Listener {
        listener: UnixListener,
        path: PathBuf,
        own: bool,
    },
    One(OwnedFd),
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let is_daemon = args.mode == Mode::Daemon;
    let handed_over = if is_daemon { listen::handed_over().map_err(Stop::Usage)? } else { None };
    if handed_over.is_some() && args.socket.is_some() {
        let both = "--socket: the socket is the one that systemd has handed over; leave --socket out, or start without";
        return Err(Stop::Usage(both.into()));
    }
    let first_unwanted = 3 + u32::from(handed_over.is_some());
    process::close_from(first_unwanted).map_err(|errno| Stop::Failed(format!("close_range: {errno}")))?;
    let log = start_log(args.mode)?;
    let notify =
        if is_daemon { Notifier::from_environment().map_err(Stop::Failed)? } else { Notifier::default() };
    let one = if args.mode == Mode::Inetd { Some(connection_on_stdin()?) } else { None };
    let mut source = None;
    let prepared = prepare(args, log, |policy, identity, accounts| {
        let (listener, path, own) = match (one, handed_over) {
            (Some(connection), _) => {
                source = Some(Source::One(connection));
                return Ok(Vec::new());
            }
            (None, Some(socket)) => {
                let (listener, path) = listen::adopt(socket, policy, accounts).map_err(Stop::Usage)?;
                (listener, path, false)
            }
            (None, None) => {
                let path = args.socket.clone().unwrap_or_else(listen::default_path);
                (listen::bind(&path, policy, identity, accounts).map_err(Stop::Failed)?, path, true)
            }
        };
        source = Some(Source::Listener { listener, path: path.clone(), own });
        Ok(vec![listen::folder_of(&path).to_path_buf(), path])
    })?;
    let source = source.ok_or_else(|| Stop::Failed("no socket was made".into()))?;
    confine_self(&prepared, &source)?;
    accept::run(prepared, source, notify)
}

/// Policy to open descriptors and blueprints. `bind` runs while we may still be root; the paths it returns are ours
/// and become denied names where a root holds them.
pub fn prepare(
    args: &Args,
    log: Lines,
    bind: impl FnOnce(&Policy, Identity, &Accounts) -> Result<Vec<PathBuf>, Stop>,
) -> Result<Prepared, Stop> {
    let usage = |error: policy::PolicyError| Stop::Usage(error.to_string());
    let policy = match &args.policy {
        Some(path) => Policy::load(path).map_err(usage)?,
        None => Policy::embedded(&args.roots),
    };
    let file = args.policy.as_deref().map(PolicyFile::at).transpose().map_err(Stop::Usage)?.map(Arc::new);
    let landlock_abi =
        requirements::check(&policy).map_err(|missing| Stop::NotEnforceable(missing.to_string()))?;
    let policy::PreparedRoots { roots, warnings, absent } = policy.prepare_roots().map_err(usage)?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let accounts = Accounts::read();
    let identity = identity::choose(&policy, &roots, &accounts).map_err(Stop::Usage)?;
    let peers = offer::peers(&policy, &roots, identity.uid, &accounts).map_err(usage)?;
    let program = Rc::new(Program::find().map_err(Stop::Failed)?);
    let level = match policy.confinement {
        Confinement::Kernel => Level::Kernel,
        Confinement::Userspace => {
            tracing::warn!("confinement = \"userspace\": no Landlock, no seccomp; only our own checks hold");
            Level::Userspace
        }
    };
    let mut own = bind(&policy, identity, &accounts)?;
    let audited = args.mode == Mode::Daemon || args.policy.is_some();
    let audit_path = audited.then_some(&policy.audit.path);
    let audit =
        Audit::open(audit_path, &log, policy.audit.level, level, identity.uid).map_err(Stop::Failed)?;
    own.extend(own_files(args, &policy, &program));
    // Roots are compared by their real paths; one of ours that was named through a link must not slip through.
    let mut own: Vec<PathBuf> = own.iter().filter_map(|path| policy::real_path(path)).collect();
    // Where the socket's folder is itself a root, the socket alone is denied.
    own.retain(|path| !roots.iter().any(|root| root.root.path == *path));
    identity.assume().map_err(Stop::Failed)?;
    let opened = open_roots(&roots)?;
    let ground =
        Ground { level, landlock_abi, uid: identity.uid, accounts, roots, opened, absent, own, program };
    // One connection needs one worker, the one that proves the jail.
    let warm = if args.mode == Mode::Daemon { policy.workers.pool as usize } else { 0 };
    let offer = ground.offer(&policy, peers, warm).map_err(Stop::Usage)?;
    Ok(Prepared { offer, reloader: Reloader { ground, policy, file }, audit, log })
}

/// Names that no client may touch even where a root holds them.
fn own_files(args: &Args, policy: &Policy, program: &Program) -> Vec<PathBuf> {
    let mut own = vec![program.path.clone()];
    own.extend(std::env::current_exe());
    own.extend(args.policy.clone());
    if let policy::AuditPath::File(path) = &policy.audit.path {
        own.push(path.clone());
    }
    own
}

/// Under the identity that will serve them, once; from here on only descriptors count.
fn open_roots(roots: &[PreparedRoot]) -> Result<Vec<Arc<OwnedFd>>, Stop> {
    let open = |prepared: &PreparedRoot| {
        let path = &prepared.root.path;
        tracing::info!(root = %path.display(), given = %prepared.given.display(), mode = ?prepared.root.mode);
        let opened = host::open_directory(path).map(Arc::new);
        opened.map_err(|errno| Stop::Failed(format!("{}: {errno}", path.display())))
    };
    roots.iter().map(open).collect()
}

/// The supervisor's own jail: the roots, whoever may see them now or after a reload; its program; its policy's folder;
/// removing its socket.
pub fn confine_self(prepared: &Prepared, source: &Source) -> Result<(), Stop> {
    let failed = |error: confine::Failed| Stop::NotEnforceable(error.to_string());
    confine::give_up_privileges().map_err(failed)?;
    process::raise_open_files();
    let first = prepared.offer.pools.first().map(|pool| &pool.blueprint.setup);
    if !first.is_some_and(plan::uses_landlock) {
        return Ok(());
    }
    let folder = match source {
        Source::Listener { path, own: true, .. } => {
            path.parent().and_then(|folder| host::open_directory(folder).ok())
        }
        _ => None,
    };
    let Reloader { ground, file, .. } = &prepared.reloader;
    let roots = ground.roots.iter().zip(&ground.opened);
    confine::confine_supervisor(&Kept {
        roots: roots.map(|(prepared, fd)| (fd.as_fd(), prepared.root.mode)).collect(),
        program: Some(ground.program.fd.as_fd()),
        policy_folder: file.as_ref().map(|file| file.folder()),
        socket_folder: folder.as_ref().map(AsFd::as_fd),
        audit_folder: prepared.audit.folder(),
    })
    .map_err(failed)
}

fn connection_on_stdin() -> Result<OwnedFd, Stop> {
    let stdin = std::io::stdin();
    if !socket::is_unix_stream(&stdin, false) {
        return Err(Stop::Usage("--inetd: standard input is not a connected Unix stream socket".into()));
    }
    let connection = stdin.as_fd().try_clone_to_owned().map_err(|error| Stop::Failed(error.to_string()))?;
    // The duplicate is the connection; a second one on descriptor 0 would keep it open for ever.
    host::replace_stdin_with_null().map_err(|errno| Stop::Failed(format!("/dev/null: {errno}")))?;
    Ok(connection)
}

/// What the log writes to: a line that finds no place is lost, the service goes on.
struct Log(Lines);

impl std::io::Write for Log {
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

/// Text for a person, JSON for a journal; a private supervisor speaks up only when something is wrong.
pub fn start_log(mode: Mode) -> Result<Lines, Stop> {
    let stderr =
        host::duplicate_stderr().map_err(|errno| Stop::Failed(format!("standard error: {errno}")))?;
    let lines = Lines::new(Sink { fd: stderr, torn: false });
    let writer = lines.clone();
    let level = if mode == Mode::Daemon { tracing::Level::INFO } else { tracing::Level::ERROR };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || Log(writer.clone()))
        .with_target(false);
    if std::io::stderr().is_terminal() {
        log.compact().init()
    } else {
        log.json().init()
    }
    Ok(lines)
}
