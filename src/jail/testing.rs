//! A jail for unit tests: a temporary folder, and a broker in the same process that resolves with openat2.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Call, Crew, DeniedInListings, Dir, Jail, Settings, SharedWork};
use crate::{
    broker::{
        Answer, AskSupervisor, CallId, Caller, EntryOutcome, Intent, Lease, Parent, Question, Refusal, WorkerLeases,
    },
    path::{AccessTimes, Denied, DenyGlobs, Hardlinks, Mode, ProtectGlobs, Root, RootNames, RootTable, Symlinks},
    sys::{
        Errno,
        fs::{self, Mounts, OFlags, OpenRules, ResolveMethod},
    },
    wire::{
        Code, Limits,
        compat::WireVersion,
        types::info::{Confinement, Layer, Level, Resolver, Trash},
    },
};

/// Runs just before the n-th question is answered, so that a test can act as the attacker.
type Interference = Box<dyn FnMut(usize, &Question) -> Option<Refusal> + Send>;

/// Resolves like the supervisor: parent beneath the root, leaf left to the worker.
pub(crate) struct TestBroker {
    roots: Vec<OwnedFd>,
    mode: Mode,
    leases: Arc<WorkerLeases>,
    next_lease: AtomicU64,
    /// Leases that are held, in the order they were taken.
    pub(crate) leased: Arc<Mutex<Vec<u64>>>,
    pub(crate) messages: Mutex<Vec<Vec<Question>>>,
    pub(crate) reports: Mutex<Vec<(Code, Vec<u8>)>>,
    pub(crate) outcomes: Mutex<Vec<(u8, EntryOutcome)>>,
    interfere: Mutex<Option<Interference>>,
}

impl TestBroker {
    fn new(root: OwnedFd, mode: Mode) -> Self {
        let leased = Arc::<Mutex<Vec<u64>>>::default();
        let held = leased.clone();
        Self {
            roots: vec![root],
            mode,
            leases: WorkerLeases::new(move |ids| held.lock().unwrap().retain(|id| !ids.contains(id))),
            next_lease: AtomicU64::new(1),
            leased,
            messages: Mutex::default(),
            reports: Mutex::default(),
            outcomes: Mutex::default(),
            interfere: Mutex::default(),
        }
    }

    fn answer(&self, caller: Caller, question: &Question) -> Answer {
        if question.intent.changes() && self.mode == Mode::Ro {
            return Err(Refusal::ReadOnly);
        }
        let names: Vec<&[u8]> = question.path.split(|&byte| byte == b'/').collect();
        let (leaf, folders) = names.split_last().expect("at least an empty name");
        let mut missing = 0;
        let dir = loop {
            match self.folder(question.root, &folders[..folders.len() - missing]) {
                Err(Refusal::NotFound) if question.intent == Intent::Create && missing < folders.len() => {
                    missing += 1;
                }
                other => break other?,
            }
        };
        Ok(Parent {
            dir: Arc::new(dir),
            path: question.path.clone(),
            leaf: leaf.to_vec(),
            missing,
            lease: (question.intent.changes() && caller.takes_leases).then(|| self.lease()),
        })
    }

    fn folder(&self, root: u16, names: &[&[u8]]) -> Result<OwnedFd, Refusal> {
        let root = self.roots[usize::from(root)].as_fd();
        let path = if names.is_empty() { b".".to_vec() } else { names.join(&b'/') };
        let how = OpenRules { method: ResolveMethod::Openat2, mounts: Mounts::Refuse };
        fs::open_beneath(root, &path, OFlags::PATH | OFlags::DIRECTORY, how).map_err(|errno| match errno {
            Errno::NOENT | Errno::ACCESS => Refusal::NotFound,
            Errno::LOOP => Refusal::Escape,
            Errno::XDEV => Refusal::Mount,
            Errno::NOTDIR => Refusal::NotDirectory,
            other => Refusal::Io(other.raw_os_error()),
        })
    }

    /// Grants a new lease every time, because no other client exists.
    fn lease(&self) -> Arc<Lease> {
        let id = self.next_lease.fetch_add(1, Ordering::Relaxed);
        self.leased.lock().unwrap().push(id);
        self.leases.register_lease(id)
    }
}

impl AskSupervisor for TestBroker {
    fn ask(&self, caller: Caller, questions: &[Question]) -> Vec<Answer> {
        self.messages.lock().unwrap().push(questions.to_vec());
        let answered: usize = self.messages.lock().unwrap().len();
        let refuse = |question: &Question| match &mut *self.interfere.lock().unwrap() {
            Some(interfere) => interfere(answered, question),
            None => None,
        };
        questions.iter().map(|q| refuse(q).map_or_else(|| self.answer(caller, q), Err)).collect()
    }

    fn report_refusal(&self, _: Caller, code: Code, path: &[u8]) {
        self.reports.lock().unwrap().push((code, path.to_vec()));
    }

    fn report_outcomes(&self, function: u8, outcomes: Vec<EntryOutcome>) {
        self.outcomes.lock().unwrap().extend(outcomes.into_iter().map(|outcome| (function, outcome)));
    }
}

/// The folder, its jail and the limits of its calls.
pub(crate) struct TestJail {
    /// Removed with the jail.
    _dir: tempfile::TempDir,
    pub(crate) jail: Jail,
    pub(crate) broker: Arc<TestBroker>,
    pub(crate) limits: Limits,
}

pub(crate) struct TestJailOptions {
    /// A host folder instead of the temporary one.
    pub(crate) root_folder: Option<&'static str>,
    pub(crate) deny: &'static [&'static str],
    pub(crate) exclude: &'static [&'static str],
    pub(crate) list_denied: DeniedInListings,
    pub(crate) hardlinks: Hardlinks,
    pub(crate) symlinks: Symlinks,
    pub(crate) mode: Mode,
    pub(crate) durable: bool,
    pub(crate) wire: WireVersion,
    pub(crate) trash: Trash,
    /// How the worker's side resolves names. The test broker always uses the kernel.
    pub(crate) resolver: Resolver,
}

impl Default for TestJailOptions {
    fn default() -> Self {
        Self {
            root_folder: None,
            deny: &["**/.env", "**/secrets/**"],
            exclude: &["**/target/**", "**/*.pyc"],
            list_denied: DeniedInListings::Show,
            hardlinks: Hardlinks::Allow,
            symlinks: Symlinks::Refuse,
            mode: Mode::Ro,
            durable: false,
            wire: WireVersion::Current,
            trash: Trash { enabled: true, default: false, max_bytes: 1 << 30 },
            resolver: Resolver::Openat2,
        }
    }
}

impl TestJail {
    pub(crate) fn new() -> Self {
        Self::with(TestJailOptions::default())
    }

    /// The folder with the service's state, which exists.
    pub(crate) fn state(&self) -> PathBuf {
        let names = std::fs::read_dir(self.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let states = names.filter(|name| name.as_bytes().starts_with(b".stockade-"));
        let states: Vec<_> = states.filter(|name| crate::path::is_private_name(name.as_bytes())).collect();
        assert_eq!(states.len(), 1, "{states:?}");
        self.path(states[0].to_str().unwrap())
    }

    pub(crate) fn writable() -> Self {
        Self::with(TestJailOptions { mode: Mode::Rw, ..TestJailOptions::default() })
    }

    pub(crate) fn with(options: TestJailOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = options.root_folder.map_or(dir.path(), Path::new).canonicalize().unwrap();
        let fd = std::fs::File::open(&path).unwrap().into();
        let root = Root {
            path,
            mode: options.mode,
            symlinks: options.symlinks,
            cross_mounts: false,
            hardlinks: options.hardlinks,
            access_times: AccessTimes::OwnerOnly,
        };
        let broker = Arc::new(TestBroker::new(fd, options.mode));
        let settings = Settings {
            audited: true,
            list_denied: options.list_denied,
            read_only_globs: vec!["**/.lock".into()],
            read_only_except_globs: vec![],
            non_accessible_except_globs: vec![],
            non_accessible_globs: options.deny.iter().map(|&glob| glob.to_owned()).collect(),
            default_exclude_globs: options.exclude.iter().map(|&glob| glob.to_owned()).collect(),
            confinement: Confinement {
                level: Level::Kernel,
                landlock_abi: Some(7),
                resolver: options.resolver,
                layers: vec![Layer { closes: "reading outside the roots".into(), by: vec!["landlock".into()] }],
                limitations: vec![],
            },
            durable: options.durable,
            trash: options.trash,
            uid: rustix::process::geteuid().as_raw(),
            wire: options.wire,
        };
        let roots = vec![root];
        let globs = DenyGlobs::new(&settings.non_accessible_globs, &[]).unwrap();
        let globs = (globs, ProtectGlobs::new(&settings.read_only_globs, &[]).unwrap());
        let denied = Denied::new(globs, &roots, &[], RootNames::default()).unwrap();
        let jail = Jail::new(RootTable::new(roots), denied, broker.clone(), settings);
        Self { _dir: dir, jail, broker, limits: Limits::default() }
    }

    /// Canonical path of the root.
    pub(crate) fn root(&self) -> &Path {
        &self.jail.roots().primary().path
    }

    pub(crate) fn path(&self, name: impl AsRef<std::ffi::OsStr>) -> PathBuf {
        self.root().join(Path::new(name.as_ref()))
    }

    pub(crate) fn raw(&self, name: &[u8]) -> PathBuf {
        self.path(std::ffi::OsStr::from_bytes(name))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn call(&self) -> Call {
        self.call_with_deadline(Duration::from_secs(60))
    }

    pub(crate) fn call_with_deadline(&self, left: Duration) -> Call {
        Call::new(Caller::new(CallId(1), 0, Instant::now() + left), Arc::new(self.limits.clone()), Arc::default())
    }

    /// A call that so many threads may help with.
    pub(crate) fn call_with_helpers(&self, helpers: usize) -> Call {
        self.call().with_crew(Arc::new(TestHelpers(helpers)))
    }

    pub(crate) fn open_dir(&self, name: &str) -> Dir {
        let located = self.jail.locate(&self.call(), &crate::path::RawPath::text(name), None).unwrap();
        let entry = self.jail.open(&mut self.call(), &located, crate::broker::Intent::Read).unwrap();
        entry.open_dir(&self.jail, &self.call()).unwrap()
    }

    pub(crate) fn expired_call(&self) -> Call {
        self.call_with_deadline(Duration::ZERO)
    }

    /// `interfere` sees the number of the message (from 1) and each question before it is answered.
    pub(crate) fn interfere(&self, interfere: impl FnMut(usize, &Question) -> Option<Refusal> + Send + 'static) {
        *self.broker.interfere.lock().unwrap() = Some(Box::new(interfere));
    }

    /// From here on this thread obeys permission bits, also when the tests run as root.
    pub(crate) fn obey_permissions(&self) {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective = rustix::thread::CapabilitySet::empty();
        rustix::thread::set_capabilities(None, sets).unwrap();
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn fifo(&self, name: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, self.path(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    /// Runs a function on a request given as JSON; the result as JSON.
    pub(crate) fn run<F: crate::ops::Handler>(
        &self,
        request: serde_json::Value,
    ) -> crate::wire::Result<serde_json::Value> {
        self.run_in::<F>(&mut self.call(), request)
    }

    pub(crate) fn run_in<F: crate::ops::Handler>(
        &self,
        call: &mut Call,
        request: serde_json::Value,
    ) -> crate::wire::Result<serde_json::Value> {
        use crate::wire::decode;
        let request = match F::CLASS {
            crate::wire::function::FunctionClass::Read => decode::decode(request, "", &mut call.warnings)?,
            crate::wire::function::FunctionClass::Write => decode::decode_change(request)?,
        };
        F::run(&self.jail, call, request).map(|response| serde_json::to_value(response).unwrap())
    }
}

/// Starts new threads for each invitation.
#[derive(Debug)]
pub(crate) struct TestHelpers(pub(crate) usize);

impl Crew for TestHelpers {
    fn size(&self) -> usize {
        self.0
    }

    fn invite(&self, work: Arc<dyn SharedWork>) {
        for _ in 0..self.0 {
            let work = Arc::clone(&work);
            std::thread::spawn(move || work.help(&TestHelpers(0)));
        }
    }

    fn dismiss(&self, _: &Arc<dyn SharedWork>) {}

    fn is_needed_elsewhere(&self) -> bool {
        false
    }
}
