//! `stockade policy explain`: which root, glob, rule or identity decides about a path. Uses the functions of the supervisor:
//! for the peer, for the rules of names and modes (`resolve::check`), for links (`resolve::follow`), and to open the folder
//! beneath its root. The worker checks what has the last name, and the kernel checks the mode bits: both results are
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
        super::endpoint::find_supervisor, CommandResult, args::PolicyExplainArgs, failure::CliFailure, output::Output,
    },
    IdentityView, MachinePolicy,
    disk::{self, DiskKind, PathOnDisk},
    effective::RootView,
    load_policy, print_result, render, start_refused,
};
use crate::{
    broker::{Intent, Question, Refusal},
    path::{Denied, DeniedBy, Hardlinks, JailPath, Mode, RawPath, Root, RootNames, RootTable, Symlinks},
    policy::{self, AuditPath, PolicyProfile, Starter},
    resolve::{self, LeafLinkRule, PathResolver, StepwiseResolver},
    wire::Code,
};

pub(super) fn run(args: &PolicyExplainArgs, out: &mut Output<'_>) -> CommandResult {
    let here =
        MachinePolicy::resolve(load_policy(&args.file, &Starter::current())?, &args.file).map_err(start_refused)?;
    let raw = RawPath::bytes(args.path.as_bytes().to_vec());
    let explanation = match &args.who {
        None => here.explain(&raw, here.profiles.iter().map(|profile| (profile.peer.to_string(), Some(profile))))?,
        Some(who) => {
            let (name, profile) = here.profile_of(who)?;
            here.explain(&raw, std::iter::once((name, profile)))?
        }
    };
    let style = out.style;
    print_result(&explanation, out, |explanation| render::render_explanation(explanation, style)).map(|()| 0)
}

#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    /// The path as given.
    pub(super) path: String,
    /// The root that contains it, whichever peers may use that root.
    pub(super) root: Option<RootView>,
    #[serde(skip)]
    pub(super) is_primary: bool,
    /// Describes what exists on disk.
    pub(super) there: String,
    pub(super) identity: IdentityView,
    pub(super) access: Vec<PeerAccessView>,
}

/// The access of one kind of peer.
#[derive(Debug, Serialize)]
pub(super) struct PeerAccessView {
    pub(super) who: String,
    pub(super) read: AccessVerdict,
    pub(super) write: AccessVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AccessVerdict {
    pub(super) allowed: bool,
    /// The code that a client gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    /// A short name of what decides.
    pub(super) rule: &'static str,
    pub(super) why: String,
}

fn refuse(code: Code, rule: &'static str, why: impl Into<String>) -> AccessVerdict {
    AccessVerdict { allowed: false, code: Some(code), rule, why: why.into() }
}

fn allow(rule: &'static str, why: impl Into<String>) -> AccessVerdict {
    AccessVerdict { allowed: true, code: None, rule, why: why.into() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DesiredAccess {
    Read,
    Write,
}

impl MachinePolicy {
    /// The profile for `--as NAME`, or for a number. Its groups are those in the account files.
    fn profile_of(&self, who: &str) -> Result<(String, Option<&PolicyProfile>), CliFailure> {
        let account = match who.parse::<u32>() {
            Ok(uid) => self.accounts.account_with(uid).ok_or(uid),
            Err(_) => {
                let unknown = || CliFailure::Usage(format!("--as {who}: no such user in /etc/passwd; give a uid"));
                Ok(self.accounts.account_of(who).ok_or_else(unknown)?)
            }
        };
        let (name, picked) = match account {
            Ok(account) => {
                let groups = self.accounts.groups_of(&account.name);
                let name = format!("{} (uid {})", account.name, account.uid);
                (name, policy::select_profile(&self.profiles, account.uid, account.gid, &groups))
            }
            // Nobody's primary group: (gid_t)-1 names none.
            Err(uid) => (format!("uid {uid}"), policy::select_profile(&self.profiles, uid, u32::MAX, &[])),
        };
        Ok((name, picked.map(|index| &self.profiles[index])))
    }

    fn explain<'h>(
        &'h self,
        raw: &RawPath,
        profiles: impl Iterator<Item = (String, Option<&'h PolicyProfile>)>,
    ) -> Result<Explanation, CliFailure> {
        let all = RootTable::new(self.roots.iter().map(|prepared| prepared.root.clone()).collect());
        let located = all.locate(raw, None).ok();
        let root = located.as_ref().map(|path| &self.roots[usize::from(path.root())]);
        let found = located.as_ref().map(|path| disk::examine(all.root(path), path.rel(), &self.identity));
        Ok(Explanation {
            path: raw.display().into(),
            is_primary: located.as_ref().is_some_and(|path| path.root() == 0),
            root: root.map(RootView::from_prepared),
            there: found.as_ref().map_or_else(|| "not looked at".into(), describe_disk),
            identity: self.identity.clone(),
            access: profiles
                .map(|(who, profile)| self.judge_peer(raw, who, profile))
                .collect::<Result<_, CliFailure>>()?,
        })
    }

    fn judge_peer(
        &self,
        raw: &RawPath,
        who: String,
        profile: Option<&PolicyProfile>,
    ) -> Result<PeerAccessView, CliFailure> {
        let Some(profile) = profile else {
            let refused =
                refuse(Code::NotFound, "peer", "no [[peer]] of the policy fits; the connection is turned away");
            return Ok(PeerAccessView { who, read: refused.clone(), write: refused });
        };
        let roots: Vec<Root> = profile
            .roots
            .iter()
            .map(|(index, mode)| Root { mode: *mode, ..self.roots[usize::from(*index)].root.clone() })
            .collect();
        if roots.is_empty() {
            let refused = refuse(Code::NotFound, "peer", "none of its roots is there; the connection is turned away");
            return Ok(PeerAccessView { who, read: refused.clone(), write: refused });
        }
        let folders = profile.roots.iter().map(|(index, _)| self.root_folders[usize::from(*index)].as_fd());
        let view = CliPeerPolicy {
            denied: self.denied_names(&roots)?,
            table: RootTable::new(roots),
            root_folders: folders.collect(),
            policy: self,
        };
        let verdict = |want| view.judge(raw, want);
        Ok(PeerAccessView { who, read: verdict(DesiredAccess::Read), write: verdict(DesiredAccess::Write) })
    }

    /// The denied names, including the paths of the service that are known without a running service: all but its socket.
    fn denied_names(&self, roots: &[Root]) -> Result<Denied, CliFailure> {
        let mut own = vec![self.file.clone()];
        if let AuditPath::File(path) = &self.policy.audit.path {
            own.extend(AuditPath::names(path));
        }
        if let Ok(program) = find_supervisor() {
            own.push(program.with_file_name("stockade-worker"));
            own.push(program);
        }
        // A name that does not exist yet is in a folder that exists.
        let real = |path: &PathBuf| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let own: Vec<_> = own.iter().filter_map(|path| path.canonicalize().ok().or_else(|| real(path))).collect();
        let present: Vec<_> = self.roots.iter().map(|prepared| prepared.root.path.clone()).collect();
        let names = RootNames { present: &present, absent: &self.absent_roots };
        let wrong = |message: String| start_refused(policy::PolicyError::new(&self.policy.source, message));
        let globs = self.policy.globs().map_err(wrong)?;
        Denied::new(globs, roots, &own, names)
            .map_err(|path| wrong(format!("{}: is our own and cannot be a root", path.display())))
    }
}

/// The policy for one kind of peer.
struct CliPeerPolicy<'h> {
    policy: &'h MachinePolicy,
    table: RootTable,
    /// One folder for each root of the table.
    root_folders: Vec<BorrowedFd<'h>>,
    denied: Denied,
}

impl CliPeerPolicy<'_> {
    fn judge(&self, raw: &RawPath, want: DesiredAccess) -> AccessVerdict {
        let path = match self.table.locate(raw, None) {
            Ok(path) => path,
            Err(error) if error.code == Code::BadInput => {
                return refuse(error.code, "spelling", error.message);
            }
            Err(error) => return refuse(error.code, "roots", error.message),
        };
        let root = self.table.root(&path);
        let (real, answer) = self.predict_answer(root, &path, want);
        let found = self.examine(root, &real);
        let is_link = || matches!(self.examine(root, &path), PathOnDisk::Link { is_last: true, .. });
        let mut verdict = match answer {
            Err(refusal) => self.explain_refusal(refusal, root, &real, found, want),
            Ok(())
                if want == DesiredAccess::Write
                    && matches!(found, PathOnDisk::Missing { .. })
                    && real != path
                    && is_link() =>
            {
                return refuse(Code::OutsideRoots, "symlinks", "a link to nothing; nothing is made where it points");
            }
            Ok(()) => judge_disk(root, found, want),
        };
        if real != path {
            verdict.why = format!("leads to {}; {}", self.table.absolute(&real).display(), verdict.why);
        }
        verdict
    }

    /// The predicted answer of the supervisor, and the path after links were followed as far as possible.
    fn predict_answer(&self, root: &Root, path: &JailPath, want: DesiredAccess) -> (JailPath, Result<(), Refusal>) {
        let intent = if want == DesiredAccess::Read { Intent::Read } else { Intent::Edit };
        let question = Question { root: path.root(), path: path.rel().to_vec(), intent };
        let checked = resolve::check_question(&self.denied, root, &question);
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
        let folder = self.root_folders[usize::from(path.root())];
        let followed = resolve::follow_links(folder, path.rel(), root, LeafLinkRule::of(intent), is_denied);
        let real = followed.and_then(|real| self.table.check(path.root(), &real).map_err(|_| Refusal::Escape));
        match real {
            Err(refusal) => (denied.take().unwrap_or_else(|| path.clone()), Err(refusal)),
            Ok(real) => {
                let checked = resolve::check_real_path(&self.denied, &question, real.rel());
                let answer = checked.and_then(|()| self.open_parent(root, &real, want));
                (real, answer)
            }
        }
    }

    /// Both resolvers give the same answer, so this uses the one that works on every system. A write makes missing folders.
    fn open_parent(&self, root: &Root, path: &JailPath, want: DesiredAccess) -> Result<(), Refusal> {
        let parent = path.parent_and_leaf().map(|(parent, _)| parent).filter(|parent| !parent.is_empty());
        let Some(parent) = parent else { return Ok(()) };
        match StepwiseResolver.open_directory(self.root_folders[usize::from(path.root())], parent, root) {
            Err(Refusal::NotFound) if want == DesiredAccess::Write => Ok(()),
            opened => opened.map(drop),
        }
    }

    fn examine(&self, root: &Root, path: &JailPath) -> PathOnDisk {
        disk::examine(root, path.rel(), &self.policy.identity)
    }

    /// Explains a refusal of the supervisor. `found` is what a refusal of the disk is about.
    fn explain_refusal(
        &self,
        refusal: Refusal,
        root: &Root,
        path: &JailPath,
        found: PathOnDisk,
        want: DesiredAccess,
    ) -> AccessVerdict {
        let refused = |rule, why: &str| refuse(refusal.code(), rule, why);
        match (refusal, found) {
            (Refusal::Denied, _) => self.explain_denial(path),
            (Refusal::ReadOnly, _) => self.explain_read_only(root),
            (Refusal::Protected(rule), _) => {
                let globs = self.denied.protect().patterns();
                let glob = globs.get(rule as usize).map_or("", String::as_str);
                refused("protected", &format!("by {glob} (readable, not writable)"))
            }
            (Refusal::Busy | Refusal::Unsettled, _) => refused("disk", "it is being changed; ask again"),
            // The service cannot reach it, or this user cannot find out.
            (_, found @ (PathOnDisk::Unsearchable(_) | PathOnDisk::Unknown(_))) => judge_disk(root, found, want),
            (Refusal::Escape, _) if root.symlinks == Symlinks::Beneath => {
                refused("symlinks", "leads out of the root, or in circles")
            }
            (_, PathOnDisk::Link { .. }) if root.symlinks == Symlinks::Beneath => {
                refused("symlinks", "leads to a name that is missing, below a file, or on another file system")
            }
            (_, found) => match judge_disk(root, found, want) {
                AccessVerdict { allowed: true, .. } => refused("disk", "it has just been changed; ask again"),
                verdict => AccessVerdict { code: Some(refusal.code()), ..verdict },
            },
        }
    }

    fn explain_denial(&self, path: &JailPath) -> AccessVerdict {
        match self.denied.denied_by(path) {
            Some(DeniedBy::Glob(glob)) => refuse(Code::NotFound, "deny glob", format!("\"{glob}\"")),
            Some(DeniedBy::Private) => {
                let why = "the service's own folder at the top of a root; no function sees it";
                refuse(Code::NotFound, "own state", why)
            }
            Some(DeniedBy::ServiceFile) => {
                refuse(Code::NotFound, "own file", "policy, audit and programs of the service are out of reach")
            }
            None => {
                let why =
                    "this is the name of a root; the next start opens whatever lies there, so no client may change it";
                refuse(Code::NotFound, "root name", why)
            }
        }
    }

    fn explain_read_only(&self, root: &Root) -> AccessVerdict {
        let shown = root.path.display();
        let own = self.policy.roots.iter().find(|prepared| prepared.root.path == root.path);
        match own.map(|prepared| prepared.root.mode) {
            Some(Mode::Rw) => refuse(Code::ReadOnly, "peer mode", format!("{shown} is read-only for this peer")),
            _ => refuse(Code::ReadOnly, "root mode", format!("{shown} is read-only")),
        }
    }
}

/// The verdict of the disk.
fn judge_disk(root: &Root, found: PathOnDisk, want: DesiredAccess) -> AccessVerdict {
    match (found, want) {
        (PathOnDisk::Link { name, is_last: true }, _) => refuse(
            Code::OutsideRoots,
            "symlinks",
            format!("{} is a link and is not followed; only coder::stat and listings tell of it", name.display()),
        ),
        (PathOnDisk::Link { name, is_last: false }, _) => refuse(
            Code::OutsideRoots,
            "symlinks",
            format!("{} on the way is a link and is not followed", name.display()),
        ),
        (PathOnDisk::Mount(name), _) => {
            let why = format!("{} is a mount point, and the root does not say cross_mounts", name.display());
            refuse(Code::OutsideRoots, "cross_mounts", why)
        }
        (PathOnDisk::NotFolder(name), _) => refuse(Code::Io, "disk", format!("{} is not a folder", name.display())),
        (PathOnDisk::Unsearchable(name), _) => {
            refuse(Code::NotFound, "identity", format!("the service may not search {}", name.display()))
        }
        (PathOnDisk::Unknown(name), _) => {
            refuse(Code::NotFound, "unknown", format!("you may not look at {}; ask again as root", name.display()))
        }
        (PathOnDisk::Missing { name, .. }, DesiredAccess::Read) => {
            refuse(Code::NotFound, "disk", format!("{} is not there", name.display()))
        }
        (PathOnDisk::Present { kind: DiskKind::Other, .. }, _) => {
            refuse(Code::BadInput, "kind", "neither a file nor a folder; FIFOs, sockets and devices are never opened")
        }
        (PathOnDisk::Present { has_several_names: true, .. }, _) if root.hardlinks == Hardlinks::Refuse => {
            refuse(Code::OutsideRoots, "hardlinks", "the file has several names, and the root refuses those")
        }
        (PathOnDisk::Present { readable: false, .. }, DesiredAccess::Read) => {
            refuse(Code::Io, "identity", "the file's mode does not let the service read it")
        }
        (PathOnDisk::Present { kind: DiskKind::File, readable: false, .. }, DesiredAccess::Write) => {
            refuse(Code::Io, "identity", "the file's mode does not let the service read it, which replacing it needs")
        }
        (PathOnDisk::Present { kind: DiskKind::Folder, .. }, DesiredAccess::Read) => {
            allow("root", "the folder can be listed")
        }
        (PathOnDisk::Present { .. }, DesiredAccess::Read) => allow("root", "inside, and no rule is against it"),
        (PathOnDisk::Missing { writable, .. } | PathOnDisk::Present { writable, .. }, DesiredAccess::Write) => {
            match writable {
                true => allow("root mode", "the root is writable, and no rule is against it"),
                false => {
                    refuse(Code::Io, "identity", "the folder's mode does not let the service change what is in it")
                }
            }
        }
    }
}

fn describe_disk(found: &PathOnDisk) -> String {
    match found {
        PathOnDisk::Present { kind: DiskKind::File, has_several_names: true, .. } => "a file with several names".into(),
        PathOnDisk::Present { kind: DiskKind::File, .. } => "a file".into(),
        PathOnDisk::Present { kind: DiskKind::Folder, .. } => "a folder".into(),
        PathOnDisk::Present { kind: DiskKind::Other, .. } => "a FIFO, socket or device".into(),
        PathOnDisk::Missing { name, .. } => format!("nothing; {} is missing", name.display()),
        PathOnDisk::Link { name, .. } => format!("a link: {}", name.display()),
        PathOnDisk::Mount(name) => format!("a mount point: {}", name.display()),
        PathOnDisk::NotFolder(name) => format!("no way on: {} is not a folder", name.display()),
        PathOnDisk::Unsearchable(name) => format!("no way on for the service: {}", name.display()),
        PathOnDisk::Unknown(name) => format!("not known: you may not look at {}", name.display()),
    }
}
