//! Answers a worker's questions: every check of the path rules again, then the resolver.
//! Trusts: the profile. Does not trust: the worker, whose checks may have been talked away.
//! Never opens a file for content; what leaves here is O_PATH directories and names.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    time::{Duration, Instant},
};

use super::lease::{Key, Leases};
use crate::{
    broker::{
        Intent, Question, Refusal,
        codec::{Answered, Asked},
    },
    path::{Denied, Mode, Root, check_relative},
    resolve::Resolver,
    sys::{host, process},
};

/// What the questions of one profile are answered from.
pub struct Profile {
    pub roots: Vec<(Root, Rc<OwnedFd>)>,
    pub denied: Denied,
    pub resolver: Box<dyn Resolver>,
}

/// An answer before it is put on the channel. Equal parents share one descriptor.
#[derive(Debug, Default)]
pub struct Reply {
    pub answers: Vec<Answered>,
    pub fds: Vec<Rc<OwnedFd>>,
    /// `(index into answers, key, call, deadline)`: granted only together with a lease.
    pub wanted: Vec<(usize, Key, u64, Instant)>,
}

/// A parent that was opened for an earlier question of the same message.
type Opened = (u16, Vec<u8>, Result<u8, Refusal>);

impl Profile {
    pub fn root_names(&self) -> Vec<String> {
        self.roots.iter().map(|(root, _)| root.path.to_string_lossy().into_owned()).collect()
    }

    pub fn answer(&self, asked: &[Asked]) -> Reply {
        let mut reply = Reply::default();
        let mut opened: Vec<Opened> = Vec::new();
        for one in asked {
            let answer = self.answer_one(one, &mut reply, &mut opened).unwrap_or_else(Answered::Refused);
            reply.answers.push(answer);
        }
        reply
    }

    fn answer_one(
        &self,
        asked: &Asked,
        reply: &mut Reply,
        opened: &mut Vec<Opened>,
    ) -> Result<Answered, Refusal> {
        let question = &asked.question;
        let (root, root_fd) = self.roots.get(usize::from(question.root)).ok_or(Refusal::Escape)?;
        self.check(question, root)?;
        let (parent, leaf) = split(&question.path);
        let (parent, missing) = match self.parent(question.root, root, root_fd, parent, reply, opened) {
            Ok(fd) => (fd, 0),
            Err(Refusal::NotFound) if question.intent == Intent::Create => {
                self.ancestor(question.root, root, root_fd, parent, reply, opened)?
            }
            Err(refusal) => return Err(refusal),
        };
        if question.intent != Intent::Read {
            let fd = &reply.fds[usize::from(parent)];
            let (device, inode) = host::identity(fd).map_err(|errno| Refusal::Io(errno.raw_os_error()))?;
            let key = (device, inode, tail(&question.path, missing + 1).to_vec());
            let deadline = Instant::now() + Duration::from_millis(asked.deadline_ms.into());
            reply.wanted.push((reply.answers.len(), key, asked.call.0, deadline));
        }
        Ok(Answered::Parent { fd: parent, missing: missing as u16, lease: 0, leaf: leaf.to_vec() })
    }

    /// The rules that need no disk: the same answer whether the name exists or not.
    fn check(&self, question: &Question, root: &Root) -> Result<(), Refusal> {
        #[cfg(feature = "weakened")]
        if crate::sys::weakened::is_off(crate::sys::weakened::CHECKS) {
            return Ok(());
        }
        check_relative(&question.path).map_err(|_| Refusal::Escape)?;
        if self.denied.is_denied_at(question.root, &question.path) {
            return Err(Refusal::Denied);
        }
        if question.intent != Intent::Read && root.mode == Mode::Ro {
            return Err(Refusal::ReadOnly);
        }
        Ok(())
    }

    fn parent(
        &self,
        index: u16,
        root: &Root,
        root_fd: &Rc<OwnedFd>,
        rel: &[u8],
        reply: &mut Reply,
        opened: &mut Vec<Opened>,
    ) -> Result<u8, Refusal> {
        if let Some((_, _, known)) = opened.iter().find(|(at, path, _)| *at == index && path == rel) {
            return *known;
        }
        let directory = if rel.is_empty() {
            Ok(root_fd.clone())
        } else {
            self.resolver.open_directory(root_fd.as_fd(), rel, root).map(Rc::new)
        };
        let result = directory.map(|directory| {
            reply.fds.push(directory);
            (reply.fds.len() - 1) as u8
        });
        opened.push((index, rel.to_vec(), result));
        result
    }

    /// For a create: the longest ancestor that exists, and how many folders are missing below it.
    fn ancestor(
        &self,
        index: u16,
        root: &Root,
        root_fd: &Rc<OwnedFd>,
        mut rel: &[u8],
        reply: &mut Reply,
        opened: &mut Vec<Opened>,
    ) -> Result<(u8, usize), Refusal> {
        let mut missing = 0;
        // Bounded by the components of a path of at most 4096 bytes.
        while !rel.is_empty() {
            rel = split(rel).0;
            missing += 1;
            match self.parent(index, root, root_fd, rel, reply, opened) {
                Err(Refusal::NotFound) => {}
                other => return other.map(|fd| (fd, missing)),
            }
        }
        Err(Refusal::NotFound)
    }
}

impl Reply {
    /// Grants what can be granted; what could not be leased in time becomes `Busy`.
    pub async fn lease(&mut self, worker: u64, leases: &Leases) {
        for (index, key, call, deadline) in std::mem::take(&mut self.wanted) {
            let granted = leases.acquire(worker, call, key, deadline).await;
            match (granted, &mut self.answers[index]) {
                (Some(id), Answered::Parent { lease, .. }) => *lease = id,
                (_, answer) => *answer = Answered::Refused(Refusal::Busy),
            }
        }
    }

    /// Only O_PATH directories may cross. Asserted on our side, too: anything else would keep its rights inside.
    pub fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let fds: Vec<_> = self.fds.iter().map(|fd| fd.as_fd()).collect();
        fds.iter().all(|fd| process::is_path_directory(*fd)).then_some(fds)
    }
}

/// `a/b/c` → `a/b`, `c`; `c` → ``, `c`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// The last `count` components.
fn tail(path: &[u8], count: usize) -> &[u8] {
    let start = memchr::memrchr_iter(b'/', path).nth(count - 1).map_or(0, |slash| slash + 1);
    &path[start..]
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("roots", &self.roots).finish_non_exhaustive()
    }
}
