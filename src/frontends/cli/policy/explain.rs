//! `stockade policy explain`: which root, glob, rule or identity decides about a path, in the order in which the service
//! asks: who connects, the spelling, the deny rules, the mode, then what lies on disk.

use std::os::unix::ffi::OsStrExt;

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
    path::{Denied, DeniedBy, Hardlinks, JailPath, Mode, RawPath, Root, RootNames, RootTable, Symlinks},
    policy::{self, AuditPath, Profile, Starter},
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
                no(Code::C211, "peer", "no [[peer]] of the policy fits; the connection is turned away");
            return Ok(Access { who, read: refused.clone(), write: refused });
        };
        let roots: Vec<Root> = profile
            .roots
            .iter()
            .map(|(index, mode)| Root { mode: *mode, ..self.roots[usize::from(*index)].root.clone() })
            .collect();
        if roots.is_empty() {
            let refused = no(Code::C211, "peer", "none of its roots is there; the connection is turned away");
            return Ok(Access { who, read: refused.clone(), write: refused });
        }
        let view = View { denied: self.denied(&roots)?, table: RootTable::new(roots), here: self };
        let verdict = |want| view.judge(raw, want);
        Ok(Access { who, read: verdict(Want::Read), write: verdict(Want::Write) })
    }

    /// With the names of our own that can be known without a running service: all but the socket.
    fn denied(&self, roots: &[Root]) -> Result<Denied, Failure> {
        let mut own = vec![self.file.clone()];
        if let AuditPath::File(path) = &self.policy.audit.path {
            own.push(path.clone());
        }
        if let Ok(program) = find_supervisor() {
            own.push(program.with_file_name("stockade-worker"));
            own.push(program);
        }
        let own: Vec<_> = own.iter().filter_map(|path| path.canonicalize().ok()).collect();
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
    denied: Denied,
}

impl View<'_> {
    fn judge(&self, raw: &RawPath, want: Want) -> Verdict {
        let path = match self.table.locate(raw, None) {
            Ok(path) => path,
            Err(error) if error.code == Code::C210 => return no(error.code, "spelling", error.message),
            Err(error) => return no(error.code, "roots", error.message),
        };
        if let Some(verdict) = self.deny(&path) {
            return verdict;
        }
        let root = self.table.root(&path);
        if want == Want::Write && self.denied.is_root_name(path.root(), path.rel()) {
            let why = "this is the name of a root; the next start opens whatever lies there, so no client may change it";
            return no(Code::C211, "root name", why);
        }
        if want == Want::Write && root.mode == Mode::Ro {
            return self.read_only(root);
        }
        if let Some(verdict) = self.protect(&path, want) {
            return verdict;
        }
        match (disk::look(root, path.rel(), &self.here.identity), root.symlinks) {
            (Found::Link { is_last, .. }, Symlinks::Beneath) => self.follow(root, &path, want, is_last),
            (found, _) => settle(root, found, want),
        }
    }

    fn deny(&self, path: &JailPath) -> Option<Verdict> {
        Some(match self.denied.by(path)? {
            DeniedBy::Glob(glob) => no(Code::C211, "deny glob", format!("\"{glob}\"")),
            DeniedBy::Private => no(
                Code::C211,
                "own state",
                "the service's own folder at the top of a root; no function sees it",
            ),
            DeniedBy::Own => {
                no(Code::C211, "own file", "policy, audit and programs of the service are out of reach")
            }
        })
    }

    fn protect(&self, path: &JailPath, want: Want) -> Option<Verdict> {
        let rule = self.denied.protected_by(path.root(), path.rel()).filter(|_| want == Want::Write)?;
        let glob = self.denied.protect().patterns().get(rule as usize)?;
        Some(no(Code::C221, "protected", format!("by {glob} (readable, not writable)")))
    }

    fn read_only(&self, root: &Root) -> Verdict {
        let shown = root.path.display();
        let own = self.here.roots.iter().find(|prepared| prepared.root.path == root.path);
        match own.map(|prepared| prepared.root.mode) {
            Some(Mode::Rw) => no(Code::C221, "peer mode", format!("{shown} is read-only for this peer")),
            _ => no(Code::C221, "root mode", format!("{shown} is read-only")),
        }
    }

    /// The service follows links that stay beneath their root, and asks the deny and protect rules about where they lead.
    fn follow(&self, root: &Root, path: &JailPath, want: Want, is_last: bool) -> Verdict {
        let Some(real) = disk::follow(&root.path, path.rel()) else {
            return no(Code::C215, "symlinks", "leads out of the root, or in circles");
        };
        let Ok(real) = self.table.check(path.root(), &real) else {
            return no(Code::C215, "symlinks", "leads to a path that cannot be named");
        };
        self.deny(&real).or_else(|| self.protect(&real, want)).unwrap_or_else(|| {
            let found = disk::look(root, real.rel(), &self.here.identity);
            if is_last && want == Want::Write && matches!(found, Found::Missing { .. }) {
                return no(Code::C215, "symlinks", "a link to nothing; nothing is made where it points");
            }
            let mut verdict = settle(root, found, want);
            verdict.why = format!("leads to {}; {}", self.table.absolute(&real).display(), verdict.why);
            verdict
        })
    }
}

/// What the disk decides.
fn settle(root: &Root, found: Found, want: Want) -> Verdict {
    match (found, want) {
        (Found::Link { name, is_last: true }, _) => no(
            Code::C215,
            "symlinks",
            format!(
                "{} is a link and is not followed; only coder::stat and listings tell of it",
                name.display()
            ),
        ),
        (Found::Link { name, is_last: false }, _) => {
            no(Code::C215, "symlinks", format!("{} on the way is a link and is not followed", name.display()))
        }
        (Found::Mount(name), _) => {
            let why = format!("{} is a mount point, and the root does not say cross_mounts", name.display());
            no(Code::C215, "cross_mounts", why)
        }
        (Found::NotFolder(name), _) => no(Code::C216, "disk", format!("{} is not a folder", name.display())),
        (Found::Unsearchable(name), _) => {
            no(Code::C211, "identity", format!("the service may not search {}", name.display()))
        }
        (Found::Unknown(name), _) => {
            no(Code::C211, "unknown", format!("you may not look at {}; ask again as root", name.display()))
        }
        (Found::Missing { name, .. }, Want::Read) => {
            no(Code::C211, "disk", format!("{} is not there", name.display()))
        }
        (Found::There { kind: Kind::Other, .. }, _) => {
            no(Code::C210, "kind", "neither a file nor a folder; FIFOs, sockets and devices are never opened")
        }
        (Found::There { several_names: true, .. }, _) if root.hardlinks == Hardlinks::Refuse => {
            no(Code::C215, "hardlinks", "the file has several names, and the root refuses those")
        }
        (Found::There { readable: false, .. }, Want::Read) => {
            no(Code::C216, "identity", "the file's mode does not let the service read it")
        }
        (Found::There { kind: Kind::File, readable: false, .. }, Want::Write) => no(
            Code::C216,
            "identity",
            "the file's mode does not let the service read it, which replacing it needs",
        ),
        (Found::There { kind: Kind::Folder, .. }, Want::Read) => yes("root", "the folder can be listed"),
        (Found::There { .. }, Want::Read) => yes("root", "inside, and no rule is against it"),
        (Found::Missing { writable, .. } | Found::There { writable, .. }, Want::Write) => match writable {
            true => yes("root mode", "the root is writable, and no rule is against it"),
            false => {
                no(Code::C216, "identity", "the folder's mode does not let the service change what is in it")
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
