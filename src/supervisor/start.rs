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
    audit::{Audit, RootsFile, Target},
    identity,
    lines::{Lines, MAX_LINE_BYTES},
    listen::{self, Place},
    notify::Notifier,
    offer::{Ground, Offer},
    reload::{PolicyFile, Reloader},
    requirements,
    spawn::Program,
};
use crate::{
    confine::{self, Kept, plan},
    policy::{self, AuditPath, Identity, Policy, PreparedRoot, PreparedRoots, Starter},
    sys::{
        host,
        lookup::{self, Found},
        process, socket,
    },
    terms::Level,
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
        place: Place,
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
    let prepared = prepare(args, log, |policy, starter, identity| {
        let ((listener, place), own) = match (one, handed_over) {
            (Some(connection), _) => {
                source = Some(Source::One(connection));
                return Ok(Vec::new());
            }
            (None, Some(socket)) => (listen::adopt(socket, policy, starter).map_err(Stop::Usage)?, false),
            (None, None) => {
                let path = args.socket.clone().unwrap_or_else(listen::default_path);
                (listen::bind(&path, policy, starter, identity).map_err(Stop::Failed)?, true)
            }
        };
        let mut denied = vec![place.path.clone()];
        denied.extend(place.path.parent().map(PathBuf::from));
        source = Some(Source::Listener { listener, place, own });
        Ok(denied)
    })?;
    let source = source.ok_or_else(|| Stop::Failed("no socket was made".into()))?;
    confine_self(&prepared, &source)?;
    accept::run(prepared, source, notify)
}

/// Policy to open descriptors and blueprints. `bind` runs while we may still be root; the paths it returns, absolute and
/// without links, are ours and become denied names where a root holds them.
pub fn prepare(
    args: &Args,
    log: Lines,
    bind: impl FnOnce(&Policy, &Starter, Identity) -> Result<Vec<PathBuf>, Stop>,
) -> Result<Prepared, Stop> {
    let usage = |error: policy::PolicyError| Stop::Usage(error.to_string());
    let starter = Starter::current();
    // Paths without links that no client may touch even where a root holds them.
    let mut own = Vec::new();
    let (policy, file) = match &args.policy {
        None => (args.served(), None),
        Some(path) => {
            let (opened, real) = starter.open_policy(path).map_err(usage)?;
            own.push(real);
            let file = PolicyFile::at(path, &starter).map_err(Stop::Usage)?;
            let policy = Policy::read(opened, &path.display().to_string(), &starter).map_err(usage)?;
            (policy, Some(Arc::new(file)))
        }
    };
    let landlock_abi =
        requirements::check(&policy).map_err(|missing| Stop::NotEnforceable(missing.to_string()))?;
    let prepared = policy.prepare_roots().map_err(usage)?;
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let identity = identity::choose(&policy, &prepared, &starter).map_err(usage)?;
    let PreparedRoots { roots, found, absent, .. } = prepared;
    let peers = policy.profiles(&roots, identity.uid, &starter.accounts).map_err(usage)?;
    let program = Rc::new(Program::find().map_err(Stop::Failed)?);
    let level = policy.confinement;
    if level == Level::Userspace {
        tracing::warn!("confinement = \"userspace\": no Landlock, no seccomp; only our own checks hold");
    }
    own.extend(bind(&policy, &starter, identity)?);
    let mut target = audit_target(args, &policy);
    let roots_file = match target.as_ref().map(|target| RootsFile::open(target, &starter, identity.uid)) {
        None => None,
        Some(Ok(opened)) => opened,
        Some(Err(reason)) if target.as_ref().is_some_and(|target| target.is_shared) => {
            tracing::warn!(%reason, "no audit is written");
            target = None;
            None
        }
        Some(Err(reason)) => return Err(Stop::Failed(reason)),
    };
    identity::assume(identity).map_err(Stop::Failed)?;
    let audit = Audit::open(target.as_ref(), roots_file, &log, policy.audit.level, level, identity.uid)
        .map_err(Stop::Failed)?;
    own.extend(audit.own_paths());
    // Also where this service writes to another file or to none: other commands of the same user do write there.
    let of_user =
        AuditPath::of_user(|name| std::env::var_os(name)).and_then(|path| lookup::look_up(&path).ok());
    if let Some(found) = of_user.filter(|found| !own.contains(&found.path)) {
        own.extend(AuditPath::names(&found.path));
    }
    own.push(program.path.clone());
    own.extend(std::env::current_exe());
    // Where the socket's folder is itself a root, the socket alone is denied.
    own.retain(|path| !roots.iter().any(|root| root.root.path == *path));
    let opened = open_roots(&roots, found, starter.uid != identity.uid)?;
    let ground = Ground {
        level,
        landlock_abi,
        uid: identity.uid,
        accounts: starter.accounts,
        roots,
        opened,
        absent,
        own,
        program,
        audited: audit.is_on(),
    };
    // One connection needs one worker, the one that proves the jail.
    let warm = if args.mode == Mode::Daemon { policy.workers.pool as usize } else { 0 };
    let offer = ground.offer(&policy, peers, warm).map_err(Stop::Usage)?;
    Ok(Prepared { offer, reloader: Reloader { ground, policy, file }, audit, log })
}

/// A policy names its audit, and a service without one writes to standard error. A supervisor of one command writes to the
/// file that its user named, or to the one that all commands of this user share.
fn audit_target(args: &Args, policy: &Policy) -> Option<Target> {
    let file = |path, is_shared| Target { path: AuditPath::File(path), is_shared };
    match (args.mode, &args.audit) {
        (Mode::Inetd, Some(audit)) if audit == "off" => None,
        (Mode::Inetd, Some(audit)) => Some(file(audit.into(), false)),
        (Mode::Inetd, None) if args.policy.is_none() => {
            AuditPath::of_user(|name| std::env::var_os(name)).map(|path| file(path, true))
        }
        (Mode::Check, _) if args.policy.is_none() => None,
        _ => Some(Target { path: policy.audit.path.clone(), is_shared: false }),
    }
}

/// The folders that were found at first; from here on only descriptors count. A service that has become another user finds
/// them `again` with the rights of that user, so that nobody reaches through it what that user may not.
fn open_roots(roots: &[PreparedRoot], found: Vec<Found>, again: bool) -> Result<Vec<Arc<OwnedFd>>, Stop> {
    let open = |(prepared, found): (&PreparedRoot, Found)| {
        let path = &prepared.root.path;
        tracing::info!(root = %path.display(), given = %prepared.given.display(), mode = ?prepared.root.mode);
        if !again {
            return Ok(Arc::new(found.folder));
        }
        let failed = |what: String| Stop::Failed(format!("{}: {what}", path.display()));
        let reached = lookup::look_up(path).map_err(|errno| failed(errno.to_string()))?;
        if reached.facts.id != found.facts.id || reached.path != *path {
            return Err(failed("is another folder than at the beginning of the start: another process replaced it; start again".into()));
        }
        Ok(Arc::new(reached.folder))
    };
    roots.iter().zip(found).map(open).collect()
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
    let socket_folder = match source {
        Source::Listener { place, own: true, .. } => Some(place.folder.as_fd()),
        _ => None,
    };
    let Reloader { ground, file, .. } = &prepared.reloader;
    let roots = ground.roots.iter().zip(&ground.opened);
    confine::confine_supervisor(&Kept {
        roots: roots.map(|(prepared, fd)| (fd.as_fd(), prepared.root.mode)).collect(),
        program: Some(ground.program.fd.as_fd()),
        policy_folder: file.as_ref().map(|file| file.folder()),
        socket_folder,
        audit_folder: prepared.audit.folder(),
        rotates_audit: prepared.audit.rotates(),
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
    let lines = Lines::new(stderr.into());
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
