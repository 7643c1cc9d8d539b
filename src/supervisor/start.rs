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
};

use super::{
    Stop, accept,
    answer::Profile,
    args::{Args, Mode},
    audit::Audit,
    identity::{self, Identity},
    listen, requirements,
    spawn::{Blueprint, Program},
};
use crate::{
    VERSION,
    broker::setup::Setup,
    confine::{self, Kept, plan, report},
    path::{Denied, DenyGlobs, Root},
    policy::{self, Confinement, Durability, ListDenied, Policy, PreparedRoot},
    resolve::{Openat2, Resolver, Stepwise},
    sys::{host, process, socket, user},
    wire::types::info::{self, Level},
};

/// What a pipe takes without waiting.
const MAX_LOG_LINE: usize = 4096;

/// Everything that was prepared, for the loop that serves.
#[derive(Debug)]
pub struct Prepared {
    pub policy: Policy,
    pub level: Level,
    pub landlock_abi: u32,
    pub peers: Vec<policy::Profile>,
    /// One each per entry of `peers`.
    pub profiles: Vec<Rc<Profile>>,
    pub blueprints: Vec<Blueprint>,
    pub audit: Audit,
}

/// Where clients come from.
#[derive(Debug)]
pub enum Source {
    Listener { listener: UnixListener, path: PathBuf },
    One(OwnedFd),
}

pub fn run(args: &Args) -> Result<(), Stop> {
    process::close_from(3).map_err(|errno| Stop::Failed(format!("close_range: {errno}")))?;
    start_log(args.mode);
    let one = match args.mode {
        Mode::Inetd => Some(connection_on_stdin()?),
        _ => None,
    };
    let socket_path = args.socket.clone().unwrap_or_else(listen::default_path);
    let mut source = None;
    let prepared = prepare(args, |policy, identity| {
        source = Some(match one {
            Some(connection) => Source::One(connection),
            None => {
                let listener = listen::bind(&socket_path, policy, identity).map_err(Stop::Failed)?;
                Source::Listener { listener, path: socket_path.clone() }
            }
        });
        Ok(vec![socket_path.clone()])
    })?;
    let source = source.ok_or_else(|| Stop::Failed("no socket was made".into()))?;
    confine_self(&prepared, &source)?;
    accept::run(prepared, source)
}

/// Policy to open descriptors and blueprints. `bind` runs while we may still be root; the paths it returns are ours
/// and become denied names where a root holds them.
pub fn prepare(
    args: &Args,
    bind: impl FnOnce(&Policy, Identity) -> Result<Vec<PathBuf>, Stop>,
) -> Result<Prepared, Stop> {
    let usage = |error: policy::PolicyError| Stop::Usage(error.to_string());
    let policy = match &args.policy {
        Some(path) => Policy::load(path).map_err(usage)?,
        None => Policy::embedded(&args.roots),
    };
    let landlock_abi =
        requirements::check(&policy).map_err(|missing| Stop::NotEnforceable(missing.to_string()))?;
    let roots = policy.prepare_roots().map_err(usage)?;
    for warning in &roots.warnings {
        tracing::warn!("{warning}");
    }
    let identity = identity::choose(&policy, &roots.roots).map_err(Stop::Usage)?;
    let accounts = policy::Accounts { uid_of: &user::uid_of, gid_of: &user::gid_of };
    let peers = policy.profiles(&roots.roots, identity.uid, accounts).map_err(usage)?;
    let program = Rc::new(Program::find().map_err(Stop::Failed)?);
    let level = match policy.confinement {
        Confinement::Kernel => Level::Kernel,
        Confinement::Userspace => {
            tracing::warn!("confinement = \"userspace\": no Landlock, no seccomp; only our own checks hold");
            Level::Userspace
        }
    };
    let mut own = bind(&policy, identity)?;
    let quiet = args.mode != Mode::Daemon && args.policy.is_none();
    let audit = Audit::open(&policy.audit.path, policy.audit.level, level, quiet).map_err(Stop::Failed)?;
    own.extend(own_files(args, &policy, &program));
    // Roots are compared by their real paths; one of ours that was named through a link must not slip through.
    let own: Vec<PathBuf> = own.iter().filter_map(|path| policy::real_path(path)).collect();
    identity.assume().map_err(Stop::Failed)?;
    let mut prepared =
        Prepared { level, landlock_abi, peers, profiles: Vec::new(), blueprints: Vec::new(), audit, policy };
    prepared.open_profiles(&roots.roots, &own, &program)?;
    Ok(prepared)
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

impl Prepared {
    /// The roots are opened under the identity that will serve them, once; from here on only descriptors count.
    fn open_profiles(
        &mut self,
        roots: &[PreparedRoot],
        own: &[PathBuf],
        program: &Rc<Program>,
    ) -> Result<(), Stop> {
        let opened: Vec<Rc<OwnedFd>> = roots
            .iter()
            .map(|prepared| {
                let path = &prepared.root.path;
                tracing::info!(root = %path.display(), given = %prepared.given.display(), mode = ?prepared.root.mode);
                host::open_directory(path)
                    .map(Rc::new)
                    .map_err(|errno| Stop::Failed(format!("{}: {errno}", path.display())))
            })
            .collect::<Result<_, _>>()?;
        for peer in &self.peers {
            let own_roots: Vec<(Root, Rc<OwnedFd>)> = peer
                .roots
                .iter()
                .map(|(index, mode)| {
                    let index = usize::from(*index);
                    (Root { mode: *mode, ..roots[index].root.clone() }, opened[index].clone())
                })
                .collect();
            let table: Vec<Root> = own_roots.iter().map(|(root, _)| root.clone()).collect();
            let denied = self.denied(&table, own)?;
            let resolver: Box<dyn Resolver> = match self.level {
                Level::Kernel => Box::new(Openat2),
                Level::Userspace => Box::new(Stepwise),
            };
            let setup = self.setup(table, denied.clone(), resolver.kind());
            self.blueprints.push(Blueprint {
                program: program.clone(),
                setup,
                roots: own_roots.iter().map(|(_, fd)| fd.clone()).collect(),
            });
            self.profiles.push(Rc::new(Profile { roots: own_roots, denied, resolver }));
        }
        Ok(())
    }

    fn denied(&self, roots: &[Root], own: &[PathBuf]) -> Result<Denied, Stop> {
        let globs = DenyGlobs::new(&self.policy.deny.non_accessible_globs)
            .map_err(|(glob, error)| Stop::Usage(format!("deny.non_accessible_globs: {glob}: {error}")))?;
        Denied::new(globs, roots, own)
            .map_err(|path| Stop::Usage(format!("{}: is our own and cannot be a root", path.display())))
    }

    fn setup(&self, roots: Vec<Root>, denied: Denied, resolver: info::Resolver) -> Setup {
        Setup {
            version: VERSION.into(),
            confinement: report::confinement(self.level, self.landlock_abi, resolver, &roots),
            roots,
            denied,
            default_exclude_globs: self.policy.default_exclude_globs.clone(),
            hide_denied: self.policy.deny.list_denied == ListDenied::Hide,
            limits: self.policy.limits.clone(),
            threads: self.policy.workers.threads as usize,
            max_memory_bytes: self.policy.workers.max_memory_bytes,
            durable: self.policy.durability == Durability::Fsync,
            trash: self.policy.trash.clone(),
            #[cfg(feature = "weakened")]
            weakened: {
                crate::sys::weakened::set(crate::sys::weakened::from_environment());
                crate::sys::weakened::get()
            },
            #[cfg(not(feature = "weakened"))]
            weakened: 0,
            #[cfg(feature = "weakened")]
            fault: std::env::var("STOCKADE_FAULT").unwrap_or_default(),
            #[cfg(not(feature = "weakened"))]
            fault: String::new(),
        }
    }
}

/// The supervisor's own jail: the union of what its workers may do, its program, and removing its socket.
pub fn confine_self(prepared: &Prepared, source: &Source) -> Result<(), Stop> {
    let failed = |error: confine::Failed| Stop::NotEnforceable(error.to_string());
    confine::give_up_privileges().map_err(failed)?;
    process::raise_open_files();
    let Some(blueprint) = prepared.blueprints.first().filter(|first| plan::uses_landlock(&first.setup))
    else {
        return Ok(());
    };
    let folder = match source {
        Source::Listener { path, .. } => path.parent().and_then(|folder| host::open_directory(folder).ok()),
        Source::One(_) => None,
    };
    let roots = prepared.profiles.iter().flat_map(|profile| &profile.roots);
    confine::confine_supervisor(&Kept {
        roots: roots.map(|(root, fd)| (fd.as_fd(), root.mode)).collect(),
        // One program for all profiles.
        program: Some(blueprint.program.fd.as_fd()),
        socket_folder: folder.as_ref().map(AsFd::as_fd),
    })
    .map_err(failed)
}

fn connection_on_stdin() -> Result<OwnedFd, Stop> {
    let stdin = std::io::stdin();
    if !socket::is_unix_stream(&stdin) {
        return Err(Stop::Usage("--inetd: standard input is not a connected Unix stream socket".into()));
    }
    let connection = stdin.as_fd().try_clone_to_owned().map_err(|error| Stop::Failed(error.to_string()))?;
    // The duplicate is the connection; a second one on descriptor 0 would keep it open for ever.
    host::replace_stdin_with_null().map_err(|errno| Stop::Failed(format!("/dev/null: {errno}")))?;
    Ok(connection)
}

/// Standard error that never waits: a log nobody reads must not stop the service.
struct Stderr;

impl std::io::Write for Stderr {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        host::append(std::io::stderr(), &line[..line.len().min(MAX_LOG_LINE)]);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Text for a person, JSON for a journal; a private supervisor speaks up only when something is wrong.
fn start_log(mode: Mode) {
    let level = if mode == Mode::Daemon { tracing::Level::INFO } else { tracing::Level::ERROR };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(|| Stderr).with_target(false);
    if std::io::stderr().is_terminal() { log.compact().init() } else { log.json().init() }
}
