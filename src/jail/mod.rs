//! Runs in the worker. The only code there that turns a name into a descriptor.
//! Trusts: the root table and the answers of its supervisor. Does not trust: names, and what lies on disk.
//! Never opens anything but one leaf beneath an O_PATH parent that the supervisor resolved for this call, and never
//! keeps a descriptor from one call to the next but those of its own private folder.
//!
//! `RawPath` (as sent) → `Jail::locate` → `Located` (lexically inside, not denied) → `Jail::open` → `Entry`
//! (opened beneath its root) → `File` or `Dir`. To change: `Located` → `Jail::claim` → `Claim` (with its lease) → `Staged`
//! (a whole new file without a name) → `ChangePlan` (steps that change names) → `Plan::run`.
//!
//! | module | what it does |
//! |---|---|
//! | `located` | a name that was checked |
//! | `open` | opens a resolved name, reads files and lists folders, words refusals |
//! | `resolve_method` | goes through trees |
//! | `change` | changes names and contents |
//! | `state` | keeps journals, the trash and the worker's own folder |
//! | `call` `clock` `crew` | one running call: its limits, its deadline, threads that it may borrow |

mod call;
mod change;
mod clock;
mod crew;
mod located;
mod open;
mod state;
#[cfg(test)]
pub(crate) mod testing;
pub mod walk;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::{
    broker::{
        Answer, AskSupervisor, Caller, EntryOutcome, Intent, Parent, Question, Refusal,
        codec::{MAX_PARENTS, MAX_PATH_BYTES},
        setup::Setup,
    },
    path::{Denied, JailPath, RawPath, RootTable, Symlinks, is_private_name},
    sys::fs::{Mounts, OpenRules, ResolveMethod},
    wire::{
        Code, Error, Result,
        compat::WireVersion,
        confinement::describe_confinement,
        types::info::{Confinement, Resolver, Trash},
    },
};

pub use call::{Call, SentEntry};
pub use change::{
    BatchFailure, ChangePlan, Claim, ContentSource, CopyTotals, EntryCount, FileProperties, ForeseenChanges, PlanMode,
    Planning, Staged, check_size,
};
pub use clock::{Clock, HaltReason};
pub use crew::{Crew, SharedWork};
pub use located::Located;
pub use open::{
    CHUNK_BYTES, Dir, DirEntry, EntryOpenError, EntryStat, JailEntry, JailFile, NameList, ReadControl, ReadIntoError,
    folder_list_error, stat_all,
};
pub use state::{TrashSlot, UnsettledName};
pub use walk::Excludes;

use open::{entry, filter::DeniedNames, refusal};
use state::workspace::Workspaces;

/// Names asked about together, in one message to the supervisor.
pub const BATCH_QUESTIONS: usize = 32;
/// Different folders among them: each is a descriptor that is held until its names are done. With the default of four
/// threads the worker so stays below 64 descriptors, whatever its calls name.
pub const BATCH_PARENTS: usize = MAX_PARENTS;

/// Whether listings show denied entries, flagged as such, or leave them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedInListings {
    Show,
    Hide,
}

/// What a worker knows about its profile besides roots and limits. Facts for `coder::info` and for listings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub list_denied: DeniedInListings,
    pub non_accessible_globs: Vec<String>,
    pub non_accessible_except_globs: Vec<String>,
    pub read_only_globs: Vec<String>,
    pub read_only_except_globs: Vec<String>,
    pub default_exclude_globs: Vec<String>,
    pub confinement: Confinement,
    /// Whether a write is on disk before it is acknowledged.
    pub durable: bool,
    pub trash: Trash,
    /// Whether the supervisor writes an audit.
    pub audited: bool,
    /// The uid of the worker. State folders are ours only if they belong to it.
    pub uid: u32,
    pub wire: WireVersion,
}

/// The capability to reach everything below the roots that the deny globs leave, and nothing else. A clone is the same jail, for
/// threads that help with a call.
#[derive(Clone)]
pub struct Jail {
    roots: Arc<RootTable>,
    denied: Arc<Denied>,
    broker: Arc<dyn AskSupervisor>,
    settings: Arc<Settings>,
    /// Compiled by the first call that needs them: most connections never do.
    excludes: Arc<OnceLock<Excludes>>,
    denied_names: Arc<OnceLock<DeniedNames>>,
    workspaces: Arc<Workspaces>,
}

impl fmt::Debug for Jail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jail").field("roots", &self.roots.roots()).finish_non_exhaustive()
    }
}

impl Jail {
    pub fn new(roots: RootTable, denied: Denied, broker: Arc<dyn AskSupervisor>, settings: Settings) -> Self {
        let workspaces = Arc::new(Workspaces::for_roots(roots.roots().len()));
        Self {
            roots: Arc::new(roots),
            denied: Arc::new(denied),
            broker,
            settings: Arc::new(settings),
            excludes: Arc::default(),
            denied_names: Arc::default(),
            workspaces,
        }
    }

    /// The jail of a worker: what its supervisor told it, and the channel back.
    pub fn from_setup(setup: Setup, uid: u32, broker: Arc<dyn AskSupervisor>) -> Self {
        let settings = Settings {
            list_denied: if setup.hide_denied { DeniedInListings::Hide } else { DeniedInListings::Show },
            non_accessible_globs: setup.denied.globs().patterns().to_vec(),
            non_accessible_except_globs: setup.denied.globs().exceptions().to_vec(),
            read_only_globs: setup.denied.protect().patterns().to_vec(),
            read_only_except_globs: setup.denied.protect().exceptions().to_vec(),
            default_exclude_globs: setup.default_exclude_globs,
            confinement: describe_confinement(&setup.enforced, &setup.roots),
            durable: setup.durable,
            trash: setup.trash,
            audited: setup.audited,
            uid,
            wire: setup.wire,
        };
        Self::new(RootTable::new(setup.roots), setup.denied, broker, settings)
    }

    /// Before the worker exits: waits for running changes, lets no more begin, and removes its own folders.
    pub fn close(&self) {
        self.workspaces.close();
    }

    pub fn roots(&self) -> &RootTable {
        &self.roots
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The default excludes: names that tree, search and find leave out unless a call asks for them.
    pub fn excludes(&self) -> &Excludes {
        self.excludes.get_or_init(|| Excludes::new(&self.settings.default_exclude_globs))
    }

    /// Like `is_denied` for the entries of a folder that is itself not denied, but faster.
    pub fn denied_entries(&self, folder: JailPath) -> impl Fn(&[u8]) -> bool {
        let names = self.denied_names();
        let all = self.hides_content(&folder);
        move |name| all || names.is_denied(&self.denied, &folder, name)
    }

    /// Like `denied_entries`, for a walk, which never opens a folder whose content is all denied.
    fn denied_names(&self) -> &DeniedNames {
        self.denied_names.get_or_init(|| DeniedNames::new(&self.denied))
    }

    /// Whether a glob denies all content of this folder.
    fn hides_content(&self, folder: &JailPath) -> bool {
        let is_hidden = |name| self.denied_names().hides_content(&self.denied, name, || folder.clone());
        folder.file_name().is_some_and(is_hidden)
    }

    /// The worker opens leaves with the same resolver as the supervisor opens their folders.
    fn resolve_method(&self) -> ResolveMethod {
        match self.settings.confinement.resolver {
            Resolver::Openat2 => ResolveMethod::Openat2,
            Resolver::Stepwise => ResolveMethod::Stepwise,
        }
    }

    /// How to open something at this path: with which resolver, and whether mount points may be crossed.
    fn open_rules(&self, path: &JailPath) -> OpenRules {
        let mounts = if self.roots.rules(path).cross_mounts { Mounts::Cross } else { Mounts::Refuse };
        OpenRules { method: self.resolve_method(), mounts }
    }

    /// The real path of a name: links are followed. C218 if a link leads out of the call's `base_dir`.
    fn real_path(&self, name: &Located, parent: &Parent) -> Result<JailPath> {
        if self.roots.root(&name.path).symlinks == Symlinks::Refuse {
            return Ok(name.path.clone());
        }
        let real = self.roots.check(name.path.root(), &parent.path);
        let real = real.map_err(|wrong| Error::io(&name.sent, wrong))?;
        // Second layer: the supervisor refuses this, too.
        if self.denied.is_in_inner_root(real.root(), real.rel()) {
            return Err(refusal::link(&self.roots, name));
        }
        match &name.base {
            Some(base) if !self.roots.is_at_or_below(&real, base) => {
                Err(refusal::leaves_base(&name.sent, &self.roots.absolute(base)))
            }
            _ => Ok(real),
        }
    }

    /// The real path of the call's `base_dir`, for a path whose root follows links. A folder that does not exist has the path that
    /// was sent, because no link can lead out of it.
    fn real_base_path(&self, call: &Call, path: &JailPath, base_dir: Option<&RawPath>) -> Result<Option<JailPath>> {
        let Some(base_dir) = base_dir.filter(|_| self.roots.root(path).symlinks == Symlinks::Beneath) else {
            return Ok(None);
        };
        let path = self.roots.locate(base_dir, None)?;
        let Ok(base) = Located::new(self, path.clone(), base_dir.display()) else { return Ok(Some(path)) };
        match self.ask_afresh(call, &base, Intent::Read) {
            Ok(parent) => match self.real_path(&base, &parent)? {
                // A `base_dir` narrows a call. If it were a link, the client could change its target.
                real if real != base.path => Err(refusal::base_is_link(&base.sent)),
                real => Ok(Some(real)),
            },
            Err(_) => Ok(Some(path)),
        }
    }

    /// Checks a path by its text and against the deny globs, before any system call on it, so that the answer for a denied name
    /// cannot depend on whether it exists.
    pub fn locate(&self, call: &Call, raw: &RawPath, base_dir: Option<&RawPath>) -> Result<Located> {
        let located = self.locate_text(raw, base_dir).and_then(|located| {
            let base = self.real_base_path(call, &located.path, base_dir)?;
            Ok(located.within_base(base))
        });
        located.inspect_err(|error| {
            if error.code != Code::BadInput {
                let below = base_dir.filter(|_| !raw.as_bytes().starts_with(b"/"));
                let sent = below.map(|base| [base.as_bytes(), b"/", raw.as_bytes()].concat());
                self.broker.report_refusal(call.caller(), error.code, sent.as_deref().unwrap_or(raw.as_bytes()));
            }
        })
    }

    /// Like `locate`, before the call runs: tells which question it will ask. The call itself replies and reports the refusal when
    /// it runs.
    pub fn locate_early(&self, raw: &RawPath, base_dir: Option<&RawPath>) -> Option<Located> {
        self.locate_text(raw, base_dir).ok()
    }

    fn locate_text(&self, raw: &RawPath, base_dir: Option<&RawPath>) -> Result<Located> {
        if self.settings.wire == WireVersion::V02 && raw.as_bytes().starts_with(b"/") {
            let text = format!("{}: absolute, and wire 0.2 takes relative paths only", raw.display());
            return Err(Error::bad_input(text));
        }
        Located::new(self, self.roots.locate(raw, base_dir)?, raw.display())
    }

    /// Reports to the audit that a link leads out of the root or of the call's `base_dir`. The supervisor cannot know:
    /// it answered for the folder, not for the name in it.
    pub fn report_escape(&self, call: &Call, name: &Located, error: &Error) {
        self.report_escape_of(call.caller(), name, error);
    }

    fn report_escape_of(&self, caller: Caller, name: &Located, error: &Error) {
        if matches!(error.code, Code::OutsideRoots | Code::OutsideBaseDir) {
            self.broker.report_refusal(caller, error.code, name.sent.as_bytes());
        }
    }

    /// Sends the outcomes of one call to the audit. Does not wait for an answer.
    pub fn report_outcomes(&self, function: u8, outcomes: Vec<EntryOutcome>) {
        self.broker.report_outcomes(function, outcomes);
    }

    /// Whether an entry of a located folder is denied.
    pub fn is_denied(&self, path: &JailPath) -> bool {
        self.denied.is_denied(path)
    }

    /// C211 for a path that can be read but not moved, copied to, restored or deleted: all below it is denied, or it is or
    /// contains the name of a root. C221 for one that is to be changed and is protected, or of which all content is. For both
    /// ends of a move or copy, and for deletes. Called with the path as sent, and again with the real path once links were
    /// followed.
    pub fn check_operand(&self, call: &Call, name: &Located, path: &JailPath, intent: Intent) -> Result<()> {
        if self.denied.is_denied_operand(path) {
            self.broker.report_refusal(call.caller(), Code::NotFound, name.sent.as_bytes());
            return Err(Error::denied(&name.sent));
        }
        if intent.changes() { self.check_unprotected_operand(call, name, path) } else { Ok(()) }
    }

    /// Whether this entry of a folder is reserved for the service's state at the top of a root. No listing or copy holds such
    /// an entry, whatever the policy shows; also where the root lies inside the one that is listed.
    pub fn is_private_entry(&self, folder: &JailPath, name: &[u8]) -> bool {
        is_private_name(name) && self.denied.is_private(&folder.join(name))
    }

    /// Opens one name.
    pub fn open(&self, call: &mut Call, name: &Located, intent: Intent) -> Result<JailEntry> {
        let known = call.take_answer(&name.question(intent));
        let answer = known.unwrap_or_else(|| self.ask_afresh(call, name, intent));
        self.entry_from_answer(call, name, intent, answer)
    }

    /// Opens one name again after a race. Asks the supervisor anew, because an earlier answer may be out of date.
    fn open_afresh(&self, call: &Call, name: &Located, intent: Intent) -> Result<JailEntry> {
        self.entry_from_answer(call, name, intent, self.ask_afresh(call, name, intent))
    }

    fn ask_afresh(&self, call: &Call, name: &Located, intent: Intent) -> Answer {
        let answer = self.broker.ask(call.caller(), &[name.question(intent)]).pop();
        answer.unwrap_or(Err(Refusal::Busy))
    }

    /// Opens a name for which the supervisor has answered, together with others.
    pub fn open_answered(&self, call: &Call, name: &Located, intent: Intent, answer: Answer) -> Result<JailEntry> {
        self.entry_from_answer(call, name, intent, answer)
    }

    fn entry_from_answer(&self, call: &Call, name: &Located, intent: Intent, answer: Answer) -> Result<JailEntry> {
        match answer {
            Ok(parent) => {
                JailEntry::open(self, name, intent, parent).inspect_err(|error| self.report_escape(call, name, error))
            }
            Err(refusal) => {
                // The channel answers Busy if the deadline passes while it waits. The client then gets C220, which is the real
                // reason.
                call.checkpoint()?;
                Err(refusal::error(self, name, refusal))
            }
        }
    }

    /// Returns one answer per name, in order, even if the channel fails. Holds a descriptor per different folder: callers keep to
    /// `BATCH_QUESTIONS` and `BATCH_PARENTS`, see `QuestionBatch`.
    pub fn ask(&self, call: &mut Call, names: &[Located], intent: Intent) -> Vec<Answer> {
        self.ask_questions(call, names.iter().map(|name| name.question(intent)).collect())
    }

    fn ask_questions(&self, call: &mut Call, questions: Vec<Question>) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = Vec::with_capacity(questions.len());
        let mut open = Vec::new();
        for (index, question) in questions.into_iter().enumerate() {
            let known = call.take_answer(&question);
            if known.is_none() {
                open.push((index, question));
            }
            answers.push(known);
        }
        let mut rest = open.as_slice();
        while !rest.is_empty() {
            let mut together = QuestionBatch::default();
            let fits = rest.iter().take_while(|(_, question)| together.admit(self, question)).count();
            let (message, later) = rest.split_at(fits);
            rest = later;
            let questions: Vec<Question> = message.iter().map(|(_, question)| question.clone()).collect();
            for ((index, _), answer) in message.iter().zip(self.broker.ask(call.caller(), &questions)) {
                answers[*index] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Busy))).collect()
    }
}

/// Questions that may be asked together: as many as one message and the bound on descriptors allow.
#[derive(Debug, Default)]
pub struct QuestionBatch {
    questions: usize,
    path_bytes: usize,
    parents: Vec<(u16, Vec<u8>)>,
}

impl QuestionBatch {
    /// False if the question has to go into the next message. The first question always fits.
    pub fn admit(&mut self, jail: &Jail, question: &Question) -> bool {
        let slash = question.path.iter().rposition(|byte| *byte == b'/');
        let parent = slash.map_or(&[][..], |slash| &question.path[..slash]);
        // Where links are followed, names of one folder may lead into as many other folders.
        let follows = jail.roots.roots()[usize::from(question.root)].symlinks == Symlinks::Beneath;
        let same = |(root, path): &(u16, Vec<u8>)| *root == question.root && path == parent;
        let known = !follows && self.parents.iter().any(same);
        let path_bytes = self.path_bytes + question.path.len();
        let full = self.questions == BATCH_QUESTIONS || path_bytes > MAX_PATH_BYTES;
        if self.questions > 0 && (full || (!known && self.parents.len() == BATCH_PARENTS)) {
            return false;
        }
        self.questions += 1;
        self.path_bytes = path_bytes;
        if !known {
            self.parents.push((question.root, parent.to_vec()));
        }
        true
    }
}

#[cfg(test)]
mod tests;
