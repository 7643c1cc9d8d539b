//! `stockade policy explain`: which root, glob, rule or identity decides about a path. The supervisor's own functions decide:
//! which peer fits, the rules of names and modes (`resolve::check`), where links lead (`resolve::follow`) and whether the folder can
//! be opened beneath its root. What lies under the last name is the worker's to judge, and the mode bits the kernel's: both are
//! predicted here.

use std::{
    cell::RefCell,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use serde::Serialize;

use super::{
    super::{
        super::endpoint::find_supervisor, Outcome, args::PolicyExplainArgs, failure::Failure, output::Output,
    },
    Here, Identity,
    disk::{self, Found, Kind},
    effective::RootView,
    load, not_here, render, show,
};
use crate::{
    broker::{Intent, Question, Refusal},
    path::{Denied, DeniedBy, Hardlinks, JailPath, Mode, RawPath, Root, RootNames, RootTable, Symlinks},
    policy::{self, AuditPath, Profile, Starter},
    resolve::{self, Leaf, Resolver, Stepwise},
    wire::Code,
};

pub(super) fn run(args: &PolicyExplainArgs, out: &mut Output<'_>) -> Outcome {
    let here = Here::find(load(&args.file, &Starter::current())?, &args.file).map_err(not_here)?;
    let raw = RawPath::bytes(args.path.as_bytes().to_vec());
    let explanation = match &args.who {
        None => {
            here.explain(&raw, here.profiles.iter().map(|profile| (profile.who.to_string(), Some(profile))))?
        }
        Some(who) => {
            let (name, profile) = here.profile_of(who)?;
            here.explain(&raw, std::iter::once((name, profile)))?
        }
    };
    let style = out.style;
    show(&explanation, out, |explanation| render::explanation(explanation, style)).map(|()| 0)
}

#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    /// As given.
    pub(super) path: String,
    /// The root it lies in, whoever may see it.
    pub(super) root: Option<RootView>,
    #[serde(skip)]
    pub(super) is_primary: bool,
    /// What is on disk, in words.
    pub(super) there: String,
    pub(super) identity: Identity,
    pub(super) access: Vec<Access>,
}

/// What one kind of peer may do.
#[derive(Debug, Serialize)]
pub(super) struct Access {
    pub(super) who: String,
    pub(super) read: Verdict,
    pub(super) write: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// What a client hears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    /// What decides, in a word or two.
    pub(super) rule: &'static str,
    pub(super) why: String,
}

fn no(code: Code, rule: &'static str, why: impl Into<String>) -> Verdict {
    Verdict { allowed: false, code: Some(code), rule, why: why.into() }
}

fn yes(rule: &'static str, why: impl Into<String>) -> Verdict {
    Verdict { allowed: true, code: None, rule, why: why.into() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Read,
    Write,
}

impl Here {
    /// `--as NAME`, or a number. Its groups are those of the account files.
    fn profile_of(&self, who: &str) -> Result<(String, Option<&Profile>), Failure> {
        let account = match who.parse::<u32>() {
            Ok(uid) => self.accounts.account_with(uid).ok_or(uid),
            Err(_) => {
                let unknown =
                    || Failure::Usage(format!("--as {who}: no such user in /etc/passwd; give a uid"));
                Ok(self.accounts.account_of(who).ok_or_else(unknown)?)
            }
        };
        let (name, picked) = match account {
            Ok(account) => {
                let groups = self.accounts.groups_of(&account.name);
                let name = format!("{} (uid {})", account.name, account.uid);
                (name, policy::pick(&self.profiles, account.uid, account.gid, &groups))
            }
            // Nobody's primary group: (gid_t)-1 names none.
            Err(uid) => (format!("uid {uid}"), policy::pick(&self.profiles, uid, u32::MAX, &[])),
        };
        Ok((name, picked.map(|index| &self.profiles[index])))
    }

    fn explain<'h>(
        &'h self,
        raw: &RawPath,
        profiles: impl Iterator<Item = (String, Option<&'h Profile>)>,
    ) -> Result<Explanation, Failure> {
        let all = RootTable::new(self.roots.iter().map(|prepared| prepared.root.clone()).collect());
        let located = all.locate(raw, None).ok();
        let root = located.as_ref().map(|path| &self.roots[usize::from(path.root())]);
        let found = located.as_ref().map(|path| disk::look(all.root(path), path.rel(), &self.identity));
        Ok(Explanation {
            path: raw.display().into(),
            is_primary: located.as_ref().is_some_and(|path| path.root() == 0),
            root: root.map(RootView::of),
            there: found.as_ref().map_or_else(|| "not looked at".into(), describe),
            identity: self.identity.clone(),
            access: profiles
                .map(|(who, profile)| self.access(raw, who, profile))
                .collect::<Result<_, Failure>>()?,
        })
    }

    fn access(&self, raw: &RawPath, who: String, profile: Option<&Profile>) -> Result<Access, Failure> {
        let Some(profile) = profile else {
            let refused =
                no(Code::NotFound, "peer", "no [[peer]] of the policy fits; the connection is turned away");
            return Ok(Access { who, read: refused.clone(), write: refused });
        };
        let roots: Vec<Root> = profile
            .roots
            .iter()
            .map(|(index, mode)| Root { mode: *mode, ..self.roots[usize::from(*index)].root.clone() })
            .collect();
        if roots.is_empty() {
            let refused =
                no(Code::NotFound, "peer", "none of its roots is there; the connection is turned away");
            return Ok(Access { who, read: refused.clone(), write: refused });
        }
        let folders = profile.roots.iter().map(|(index, _)| self.folders[usize::from(*index)].as_fd());
        let view = View {
            denied: self.denied(&roots)?,
            table: RootTable::new(roots),
            folders: folders.collect(),
            here: self,
        };
        let verdict = |want| view.judge(raw, want);
        Ok(Access { who, read: verdict(Want::Read), write: verdict(Want::Write) })
    }

    /// With the names of our own that can be known without a running service: all but the socket.
    fn denied(&self, roots: &[Root]) -> Result<Denied, Failure> {
        let mut own = vec![self.file.clone()];
        if let AuditPath::File(path) = &self.policy.audit.path {
            own.extend(AuditPath::names(path));
        }
        if let Ok(program) = find_supervisor() {
            own.push(program.with_file_name("stockade-worker"));
            own.push(program);
        }
        // A name that does not exist yet lies in a folder that does.
        let real = |path: &PathBuf| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let own: Vec<_> =
            own.iter().filter_map(|path| path.canonicalize().ok().or_else(|| real(path))).collect();
        let present: Vec<_> = self.roots.iter().map(|prepared| prepared.root.path.clone()).collect();
        let names = RootNames { present: &present, absent: &self.absent };
        let wrong =
            |message: String| not_here(policy::PolicyError { place: self.policy.source.clone(), message });
        let globs = self.policy.globs().map_err(wrong)?;
        Denied::new(globs, roots, &own, names)
            .map_err(|path| wrong(format!("{}: is our own and cannot be a root", path.display())))
    }
}

/// The policy as one kind of peer meets it.
struct View<'h> {
    here: &'h Here,
    table: RootTable,
    /// One for each root of the table.
    folders: Vec<BorrowedFd<'h>>,
    denied: Denied,
}

impl View<'_> {
    fn judge(&self, raw: &RawPath, want: Want) -> Verdict {
        let path = match self.table.locate(raw, None) {
            Ok(path) => path,
            Err(error) if error.code == Code::BadInput => return no(error.code, "spelling", error.message),
            Err(error) => return no(error.code, "roots", error.message),
        };
        let root = self.table.root(&path);
        let (real, answer) = self.decide(root, &path, want);
        let found = self.look(root, &real);
        let is_link = || matches!(self.look(root, &path), Found::Link { is_last: true, .. });
        let mut verdict = match answer {
            Err(refusal) => self.refused(refusal, root, &real, found, want),
            Ok(())
                if want == Want::Write
                    && matches!(found, Found::Missing { .. })
                    && real != path
                    && is_link() =>
            {
                return no(
                    Code::OutsideRoots,
                    "symlinks",
                    "a link to nothing; nothing is made where it points",
                );
            }
            Ok(()) => settle(root, found, want),
        };
        if real != path {
            verdict.why = format!("leads to {}; {}", self.table.absolute(&real).display(), verdict.why);
        }
        verdict
    }

    /// What the supervisor would answer, and where the path leads as far as links can be followed.
    fn decide(&self, root: &Root, path: &JailPath, want: Want) -> (JailPath, Result<(), Refusal>) {
        let intent = if want == Want::Read { Intent::Read } else { Intent::Edit };
        let question = Question { root: path.root(), path: path.rel().to_vec(), intent };
        let checked = resolve::check(&self.denied, root, &question);
        if checked.is_err() || root.symlinks == Symlinks::Refuse {
            return (path.clone(), checked.and_then(|()| self.open_parent(root, path, want)));
        }
        let denied = RefCell::new(None);
        let is_denied = |name: &[u8]| {
            let is_denied = self.denied.is_denied_at(path.root(), name);
            if is_denied {
                denied.replace(self.table.check(path.root(), name).ok());
            }
            is_denied
        };
        let folder = self.folders[usize::from(path.root())];
        let followed = resolve::follow(folder, path.rel(), root, Leaf::of(intent), is_denied);
        let real =
            followed.and_then(|real| self.table.check(path.root(), &real).map_err(|_| Refusal::Escape));
        match real {
            Err(refusal) => (denied.take().unwrap_or_else(|| path.clone()), Err(refusal)),
            Ok(real) => {
                let checked = resolve::check_real(&self.denied, &question, real.rel());
                let answer = checked.and_then(|()| self.open_parent(root, &real, want));
                (real, answer)
            }
        }
    }

    /// Both resolvers answer alike, so the one that every system has will do. Missing folders are made by a write.
    fn open_parent(&self, root: &Root, path: &JailPath, want: Want) -> Result<(), Refusal> {
        let parent = path.parent_and_leaf().map(|(parent, _)| parent).filter(|parent| !parent.is_empty());
        let Some(parent) = parent else { return Ok(()) };
        match Stepwise.open_directory(self.folders[usize::from(path.root())], parent, root) {
            Err(Refusal::NotFound) if want == Want::Write => Ok(()),
            opened => opened.map(drop),
        }
    }

    fn look(&self, root: &Root, path: &JailPath) -> Found {
        disk::look(root, path.rel(), &self.here.identity)
    }

    /// Words for a refusal of the supervisor. `found` tells what a refusal of the disk is about.
    fn refused(&self, refusal: Refusal, root: &Root, path: &JailPath, found: Found, want: Want) -> Verdict {
        let refused = |rule, why: &str| no(refusal.code(), rule, why);
        match (refusal, found) {
            (Refusal::Denied, _) => self.denied_by(path),
            (Refusal::ReadOnly, _) => self.read_only(root),
            (Refusal::Protected(rule), _) => {
                let globs = self.denied.protect().patterns();
                let glob = globs.get(rule as usize).map_or("", String::as_str);
                refused("protected", &format!("by {glob} (readable, not writable)"))
            }
            (Refusal::Busy | Refusal::Unsettled, _) => refused("disk", "it is being changed; ask again"),
            // The service does not get there, or nobody can say.
            (_, found @ (Found::Unsearchable(_) | Found::Unknown(_))) => settle(root, found, want),
            (Refusal::Escape, _) if root.symlinks == Symlinks::Beneath => {
                refused("symlinks", "leads out of the root, or in circles")
            }
            (_, Found::Link { .. }) if root.symlinks == Symlinks::Beneath => refused(
                "symlinks",
                "leads to a name that is missing, below a file, or on another file system",
            ),
            (_, found) => match settle(root, found, want) {
                Verdict { allowed: true, .. } => refused("disk", "it has just been changed; ask again"),
                verdict => Verdict { code: Some(refusal.code()), ..verdict },
            },
        }
    }

    fn denied_by(&self, path: &JailPath) -> Verdict {
        match self.denied.by(path) {
            Some(DeniedBy::Glob(glob)) => no(Code::NotFound, "deny glob", format!("\"{glob}\"")),
            Some(DeniedBy::Private) => {
                let why = "the service's own folder at the top of a root; no function sees it";
                no(Code::NotFound, "own state", why)
            }
            Some(DeniedBy::Own) => {
                no(Code::NotFound, "own file", "policy, audit and programs of the service are out of reach")
            }
            None => {
                let why = "this is the name of a root; the next start opens whatever lies there, so no client may change it";
                no(Code::NotFound, "root name", why)
            }
        }
    }

    fn read_only(&self, root: &Root) -> Verdict {
        let shown = root.path.display();
        let own = self.here.roots.iter().find(|prepared| prepared.root.path == root.path);
        match own.map(|prepared| prepared.root.mode) {
            Some(Mode::Rw) => no(Code::ReadOnly, "peer mode", format!("{shown} is read-only for this peer")),
            _ => no(Code::ReadOnly, "root mode", format!("{shown} is read-only")),
        }
    }
}

/// What the disk decides.
fn settle(root: &Root, found: Found, want: Want) -> Verdict {
    match (found, want) {
        (Found::Link { name, is_last: true }, _) => no(
            Code::OutsideRoots,
            "symlinks",
            format!(
                "{} is a link and is not followed; only coder::stat and listings tell of it",
                name.display()
            ),
        ),
        (Found::Link { name, is_last: false }, _) => no(
            Code::OutsideRoots,
            "symlinks",
            format!("{} on the way is a link and is not followed", name.display()),
        ),
        (Found::Mount(name), _) => {
            let why = format!("{} is a mount point, and the root does not say cross_mounts", name.display());
            no(Code::OutsideRoots, "cross_mounts", why)
        }
        (Found::NotFolder(name), _) => no(Code::Io, "disk", format!("{} is not a folder", name.display())),
        (Found::Unsearchable(name), _) => {
            no(Code::NotFound, "identity", format!("the service may not search {}", name.display()))
        }
        (Found::Unknown(name), _) => no(
            Code::NotFound,
            "unknown",
            format!("you may not look at {}; ask again as root", name.display()),
        ),
        (Found::Missing { name, .. }, Want::Read) => {
            no(Code::NotFound, "disk", format!("{} is not there", name.display()))
        }
        (Found::There { kind: Kind::Other, .. }, _) => no(
            Code::BadInput,
            "kind",
            "neither a file nor a folder; FIFOs, sockets and devices are never opened",
        ),
        (Found::There { several_names: true, .. }, _) if root.hardlinks == Hardlinks::Refuse => {
            no(Code::OutsideRoots, "hardlinks", "the file has several names, and the root refuses those")
        }
        (Found::There { readable: false, .. }, Want::Read) => {
            no(Code::Io, "identity", "the file's mode does not let the service read it")
        }
        (Found::There { kind: Kind::File, readable: false, .. }, Want::Write) => no(
            Code::Io,
            "identity",
            "the file's mode does not let the service read it, which replacing it needs",
        ),
        (Found::There { kind: Kind::Folder, .. }, Want::Read) => yes("root", "the folder can be listed"),
        (Found::There { .. }, Want::Read) => yes("root", "inside, and no rule is against it"),
        (Found::Missing { writable, .. } | Found::There { writable, .. }, Want::Write) => match writable {
            true => yes("root mode", "the root is writable, and no rule is against it"),
            false => {
                no(Code::Io, "identity", "the folder's mode does not let the service change what is in it")
            }
        },
    }
}

fn describe(found: &Found) -> String {
    match found {
        Found::There { kind: Kind::File, several_names: true, .. } => "a file with several names".into(),
        Found::There { kind: Kind::File, .. } => "a file".into(),
        Found::There { kind: Kind::Folder, .. } => "a folder".into(),
        Found::There { kind: Kind::Other, .. } => "a FIFO, socket or device".into(),
        Found::Missing { name, .. } => format!("nothing; {} is missing", name.display()),
        Found::Link { name, .. } => format!("a link: {}", name.display()),
        Found::Mount(name) => format!("a mount point: {}", name.display()),
        Found::NotFolder(name) => format!("no way on: {} is not a folder", name.display()),
        Found::Unsearchable(name) => format!("no way on for the service: {}", name.display()),
        Found::Unknown(name) => format!("not known: you may not look at {}", name.display()),
    }
}
