//! Answers a worker's questions: checks every rule of paths again (`resolve::rules`), then opens the parent folder. Runs in the
//! supervisor, on the attendant's thread. Trusts the profile. Does not trust the worker, whose own checks may be switched off.
//! Never opens a file for content; only O_PATH directories and names leave this module.

use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    lease::{LeaseName, Leases},
    unsettled::UnsettledNames,
};
use crate::{
    broker::{
        Intent, Question, Refusal,
        codec::{ChannelAnswer, ChannelQuestion},
    },
    path::{Denied, Mode, PRIVATE_FOLDER, PRIVATE_WORK, Root, Symlinks, is_normalised, is_private_name},
    resolve::{self, LeafLinkRule, PathResolver},
    sys::{host, process},
};

/// Most names at the top of a root that `may_need_recovery` reads.
const MAX_NAMES_READ: usize = 10_000;

/// The roots and rules of one profile, which the answers to questions are made from.
pub struct ServedProfile {
    pub roots: Vec<(Root, Arc<OwnedFd>)>,
    pub denied: Denied,
    pub resolver: Box<dyn PathResolver + Send + Sync>,
}

/// An answer before it is put on the channel. Equal parents share one descriptor.
#[derive(Debug, Default)]
pub struct AnswerMessage {
    pub answers: Vec<ChannelAnswer>,
    pub fds: Vec<Arc<OwnedFd>>,
    pub lease_requests: Vec<LeaseRequest>,
}

/// An answer that is granted only together with a lease.
#[derive(Debug)]
pub struct LeaseRequest {
    /// Index into the answers.
    answer: usize,
    name: LeaseName,
    call: u64,
    deadline: Instant,
}

/// One message of questions while it is answered.
struct QuestionBatch<'p> {
    profile: &'p ServedProfile,
    unsettled: Option<&'p UnsettledNames>,
    message: AnswerMessage,
    /// Parents that earlier questions have asked for: root, path, and the index of the descriptor.
    opened: Vec<(u16, Vec<u8>, Result<u8, Refusal>)>,
}

impl ServedProfile {
    pub fn root_names(&self) -> Vec<String> {
        self.roots.iter().map(|(root, _)| root.path.to_string_lossy().into_owned()).collect()
    }

    /// True if a writable root may hold journals of running or killed workers. Also true if not all names could be read: an
    /// unnecessary recovery costs only the start of a worker.
    pub fn may_need_recovery(&self) -> bool {
        self.roots.iter().any(|(root, fd)| root.mode == Mode::Rw && self.may_have_journals(root, fd))
    }

    fn may_have_journals(&self, root: &Root, fd: &OwnedFd) -> bool {
        let Ok(names) = host::names(fd, MAX_NAMES_READ) else { return true };
        let is_work = |state: &Vec<u8>| {
            let uid = process::effective_uid();
            // Earlier versions had one folder for all users.
            let own = if state == PRIVATE_FOLDER.as_bytes() { format!("/{uid}/") } else { "/".into() };
            let path = [state, own.as_bytes(), PRIVATE_WORK.as_bytes()].concat();
            // Other errors do not show whether there are journals.
            let is_absent = [Refusal::NotFound, Refusal::Escape, Refusal::Mount, Refusal::NotDirectory];
            let opened = self.resolver.open_directory(fd.as_fd(), &path, root);
            opened.err().is_none_or(|refusal| !is_absent.contains(&refusal))
        };
        names.len() == MAX_NAMES_READ || names.iter().filter(|name| is_private_name(name)).any(is_work)
    }

    /// Absolute paths of the roots that may be written.
    pub fn writable_roots(&self) -> Vec<Vec<u8>> {
        let writable = self.roots.iter().filter(|(root, _)| root.mode == Mode::Rw);
        writable.map(|(root, _)| absolute_path(root, b"")).collect()
    }

    /// The absolute path of what a worker that recovers could not put in order; `None` if no worker could have changed it.
    pub fn unsettled_name(&self, root: u16, path: &[u8]) -> Option<Vec<u8>> {
        let index = root;
        let (root, _) = self.roots.get(usize::from(index)).filter(|(root, _)| root.mode == Mode::Rw)?;
        let is_own = is_normalised(path) && !self.denied.is_in_inner_root(index, path);
        is_own.then(|| absolute_path(root, path))
    }

    /// True if any of these changes has to wait until its name is settled.
    pub fn must_wait_for_recovery(&self, asked: &[ChannelQuestion], unsettled: &UnsettledNames) -> bool {
        asked.iter().map(|one| &one.question).any(|question| {
            let root = self.roots.get(usize::from(question.root));
            question.intent.changes()
                && root.is_some_and(|(root, _)| is_unsettled(Some(unsettled), root, question, &question.path))
        })
    }

    /// Refuses `unsettled` names.
    pub fn answer(&self, asked: &[ChannelQuestion], unsettled: Option<&UnsettledNames>) -> AnswerMessage {
        let message = AnswerMessage::default();
        let mut batch = QuestionBatch { profile: self, unsettled, message, opened: Vec::new() };
        for one in asked {
            let answer = batch.answer_one(one);
            batch.message.answers.push(answer.unwrap_or_else(ChannelAnswer::Refused));
        }
        batch.message
    }
}

impl QuestionBatch<'_> {
    fn answer_one(&mut self, asked: &ChannelQuestion) -> Result<ChannelAnswer, Refusal> {
        let (ServedProfile { roots, denied, .. }, question) = (self.profile, &asked.question);
        let (root, root_fd) = roots.get(usize::from(question.root)).ok_or(Refusal::Escape)?;
        resolve::check_question(denied, root, question)?;
        // Before any system call on the path: the name may be missing only because its change was interrupted.
        if is_unsettled(self.unsettled, root, question, &question.path) {
            return Err(Refusal::Unsettled);
        }
        if root.symlinks == Symlinks::Refuse {
            return self.answer_with_parent(asked, &question.path);
        }
        let is_denied = |path: &[u8]| denied.is_denied_at(question.root, path);
        let leaf = LeafLinkRule::of(question.intent);
        let path = resolve::follow_links(root_fd.as_fd(), &question.path, root, leaf, is_denied)?;
        resolve::check_real_path(denied, question, &path)?;
        if is_unsettled(self.unsettled, root, question, &path) {
            return Err(Refusal::Unsettled);
        }
        // `follow_links` has just resolved every link, so a link in this path is new.
        let moved = |refusal| if refusal == Refusal::Escape { Refusal::Busy } else { refusal };
        self.answer_with_parent(asked, &path).map_err(moved)
    }

    /// Opens the parent of `path` without following links, and adds the request for a lease.
    fn answer_with_parent(&mut self, asked: &ChannelQuestion, path: &[u8]) -> Result<ChannelAnswer, Refusal> {
        let question = &asked.question;
        let parent = parent_path(path);
        let (parent, missing) = match self.open_parent(question.root, parent) {
            Ok(fd) => (fd, 0),
            Err(Refusal::NotFound) if question.intent == Intent::Create => self.open_ancestor(question.root, parent)?,
            Err(refusal) => return Err(refusal),
        };
        if question.intent.changes() && asked.takes_leases {
            let (root, _) = &self.profile.roots[usize::from(question.root)];
            let fd = &self.message.fds[usize::from(parent)];
            let (device, inode) = host::identity(fd).map_err(|errno| Refusal::Io(errno.raw_os_error()))?;
            let rest = last_components(path, missing + 1);
            let first_missing = memchr::memchr(b'/', rest).map_or(0, |slash| rest.len() - slash);
            let name = LeaseName {
                key: (device, inode, rest.to_vec()),
                path: absolute_path(root, &path[..path.len() - first_missing]),
            };
            let deadline = Instant::now() + Duration::from_millis(asked.deadline_ms.into());
            let (answer, call) = (self.message.answers.len(), asked.call.0);
            self.message.lease_requests.push(LeaseRequest { answer, name, call, deadline });
        }
        Ok(ChannelAnswer::Parent { fd: parent, missing: missing as u16, lease: 0, path: path.to_vec() })
    }

    fn open_parent(&mut self, index: u16, rel: &[u8]) -> Result<u8, Refusal> {
        if let Some((_, _, known)) = self.opened.iter().find(|(at, path, _)| *at == index && path == rel) {
            return *known;
        }
        let ServedProfile { roots, resolver, .. } = self.profile;
        let (root, root_fd) = &roots[usize::from(index)];
        let directory = if rel.is_empty() {
            Ok(root_fd.clone())
        } else {
            resolver.open_directory(root_fd.as_fd(), rel, root).map(Arc::new)
        };
        let result = directory.map(|directory| {
            self.message.fds.push(directory);
            (self.message.fds.len() - 1) as u8
        });
        self.opened.push((index, rel.to_vec(), result));
        result
    }

    /// For a create: the longest ancestor that exists, and how many folders are missing below it. A binary search: a path of two
    /// thousand missing folders costs eleven opens. Each open starts at the root and is atomic.
    fn open_ancestor(&mut self, index: u16, rel: &[u8]) -> Result<(u8, usize), Refusal> {
        let ServedProfile { roots, resolver, .. } = self.profile;
        let (root, root_fd) = &roots[usize::from(index)];
        let ends: Vec<usize> = memchr::memchr_iter(b'/', rel).chain([rel.len()]).collect();
        // The folder of the first `exists` components is there, that of the first `missing` is not.
        let (mut exists, mut missing) = (0, ends.len());
        while missing - exists > 1 {
            let middle = exists.midpoint(missing);
            match resolver.open_directory(root_fd.as_fd(), &rel[..ends[middle - 1]], root) {
                Ok(_) => exists = middle,
                Err(Refusal::NotFound) => missing = middle,
                Err(refusal) => return Err(refusal),
            }
        }
        let longest = if exists == 0 { &[][..] } else { &rel[..ends[exists - 1]] };
        let fd = self.open_parent(index, longest)?;
        Ok((fd, ends.len() - exists))
    }
}

impl AnswerMessage {
    /// Grants leases up to the first that has to be waited for. True if all were granted. Like `wait_for_leases`, it keeps to the
    /// order of the questions: all workers ask for names in one order, and in another two of them could wait for each other.
    pub fn try_lease(&mut self, worker: u64, leases: &Leases) -> bool {
        let mut granted = 0;
        for LeaseRequest { answer, name, call, .. } in &self.lease_requests {
            let Ok(id) = leases.try_acquire(worker, *call, name) else { break };
            if let ChannelAnswer::Parent { lease, .. } = &mut self.answers[*answer] {
                *lease = id;
            }
            granted += 1;
        }
        self.lease_requests.drain(..granted);
        self.lease_requests.is_empty()
    }

    pub fn refuse_all(count: usize) -> Self {
        Self { answers: vec![ChannelAnswer::Refused(Refusal::Busy); count], ..Self::default() }
    }

    /// Grants the remaining leases. The answer becomes `Busy` where the lease is not free before the deadline.
    pub async fn wait_for_leases(&mut self, worker: u64, leases: &Leases) {
        for LeaseRequest { answer, name, call, deadline } in std::mem::take(&mut self.lease_requests) {
            let granted = leases.acquire(worker, call, &name, deadline).await;
            match (granted, &mut self.answers[answer]) {
                (Some(id), ChannelAnswer::Parent { lease, .. }) => *lease = id,
                (_, answer) => *answer = ChannelAnswer::Refused(Refusal::Busy),
            }
        }
    }

    /// For the audit: the refusal of each question, if it was refused.
    pub fn refusals(&self) -> Vec<Option<Refusal>> {
        let refusal = |answer: &ChannelAnswer| match answer {
            ChannelAnswer::Parent { .. } => None,
            ChannelAnswer::Refused(refusal) => Some(*refusal),
        };
        self.answers.iter().map(refusal).collect()
    }

    /// The descriptors, if all of them are O_PATH directories. The worker checks this, too: any other descriptor would keep its
    /// rights inside the jail.
    pub fn checked_descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let fds: Vec<_> = self.fds.iter().map(|fd| fd.as_fd()).collect();
        fds.iter().all(|fd| process::is_path_directory(*fd)).then_some(fds)
    }
}

fn is_unsettled(unsettled: Option<&UnsettledNames>, root: &Root, question: &Question, path: &[u8]) -> bool {
    unsettled.is_some_and(|unsettled| unsettled.concerns(&absolute_path(root, path), question.intent))
}

/// `path` below the root `/srv/x` → `/srv/x/path`; the root `/` itself → ``.
fn absolute_path(root: &Root, path: &[u8]) -> Vec<u8> {
    let root = root.path.as_os_str().as_bytes();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    if path.is_empty() { root.to_vec() } else { [root, b"/", path].concat() }
}

/// `a/b/c` → `a/b`; `c` → ``.
fn parent_path(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(&[], |slash| &path[..slash])
}

/// The last `count` components.
fn last_components(path: &[u8], count: usize) -> &[u8] {
    let start = memchr::memrchr_iter(b'/', path).nth(count - 1).map_or(0, |slash| slash + 1);
    &path[start..]
}

impl std::fmt::Debug for ServedProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("roots", &self.roots).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
