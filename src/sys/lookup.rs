//! Looks up a path of the host one name at a time, and records who could have changed where it leads.
//! Runs in the supervisor before it confines itself, and in `stockade policy`. Trusts no name on the way: each folder is
//! opened from the descriptor of the one before, each link is read and never followed by the kernel. What was examined is
//! what the descriptor in the result stands for. Never sees a client's path, never creates or changes anything.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
};

use super::{
    Errno,
    fs::{FOLDER_FLAGS, Mounts, OFlags, OpenRules, ResolveMethod, open_beneath, read_link},
    host::{self, FileFacts, HostFileKind},
    system::fs::has_acl,
    user::Accounts,
};

/// The kernel's own limit.
const MAX_LINKS: usize = 40;
const STICKY: u32 = 0o1000;
/// The operator names the roots; a mount point on the way to one is the operator's, too.
const STEP_RULES: OpenRules = OpenRules { method: ResolveMethod::Stepwise, mounts: Mounts::Cross };

/// The end of a path: what was found there, and who could have changed the way to it.
#[derive(Debug)]
pub struct LookupResult {
    /// Absolute and without links. Names that do not exist are as they were written.
    pub path: PathBuf,
    /// The last folder on the way that exists.
    pub folder: OwnedFd,
    pub facts: FileFacts,
    /// The part of `path` below `folder`: empty for a folder, else the name of a file or names that do not exist.
    pub rest: PathBuf,
    pub is_missing: bool,
    /// The last name of the path is a link.
    pub ends_in_link: bool,
    /// Every folder from the top to `folder`, by device and inode.
    folders: Vec<(u64, u64)>,
    links: Vec<FollowedLink>,
    choosers: Vec<Chooser>,
}

/// A link that the lookup went through.
#[derive(Debug)]
struct FollowedLink {
    path: PathBuf,
    /// The folders above it, by device and inode.
    folders: Vec<(u64, u64)>,
    /// How many entries of `choosers` could have put it there.
    choosers: usize,
}

/// A user or group, other than root, that could make the path lead somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chooser {
    kind: ChooserKind,
    /// The folder or link that they own or may write to.
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChooserKind {
    Owner(u32),
    /// With an access list, the group bits of a mode apply to all users and groups in that list.
    Group {
        gid: u32,
        has_acl: bool,
    },
    Everybody,
}

impl fmt::Display for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.path.display();
        match self.kind {
            ChooserKind::Owner(uid) => write!(f, "{at} belongs to uid {uid}"),
            ChooserKind::Group { gid, has_acl: false } => write!(f, "group {gid} may write to {at}"),
            ChooserKind::Group { has_acl: true, .. } => {
                write!(f, "the access list of {at} lets others write to it")
            }
            ChooserKind::Everybody => write!(f, "everybody may write to {at}"),
        }
    }
}

impl ChooserKind {
    fn is_one_of(self, uids: &[u32], accounts: &Accounts) -> bool {
        match self {
            Self::Owner(uid) => uid == 0 || uids.contains(&uid),
            Self::Group { has_acl: true, .. } | Self::Everybody => false,
            Self::Group { gid, .. } => gid == 0 || uids.iter().any(|uid| accounts.is_private_group(*uid, gid)),
        }
    }
}

impl LookupResult {
    /// The first who could have changed where the path leads and is neither root nor one of `uids`.
    pub fn foreign_chooser(&self, uids: &[u32], accounts: &Accounts) -> Option<&Chooser> {
        self.choosers.iter().find(|chooser| !chooser.kind.is_one_of(uids, accounts))
    }

    /// Like `foreign_chooser`, but without those who could only have chosen among the folders inside `outer`.
    pub fn foreign_chooser_outside(&self, outer: &Path, uids: &[u32], accounts: &Accounts) -> Option<&Chooser> {
        let mut outside = self.choosers.iter().filter(|chooser| !chooser.path.starts_with(outer));
        outside.find(|chooser| !chooser.kind.is_one_of(uids, accounts))
    }

    /// Like `foreign_chooser`, but only for links on the way: the path still leads to the place that the operator wrote.
    pub fn foreign_link_chooser(&self, uids: &[u32], accounts: &Accounts) -> Option<&Chooser> {
        let able = self.links.last().map_or(0, |link| link.choosers);
        self.choosers[..able].iter().find(|chooser| !chooser.kind.is_one_of(uids, accounts))
    }

    /// Those who could change where this path leads but not where `other` leads.
    pub fn choosers_beyond<'f>(&'f self, other: &'f LookupResult) -> impl Iterator<Item = &'f Chooser> {
        self.choosers.iter().filter(|chooser| !other.choosers.contains(chooser))
    }

    /// The first, other than root, who could change where the path leads or any name in its folder.
    pub fn writer_beside_root(&self, accounts: &Accounts) -> Option<Chooser> {
        let below = self.rest.components().count();
        let at = self.path.ancestors().nth(below).unwrap_or(&self.path).to_path_buf();
        let writers = writers(&self.facts, &self.folder).into_iter().map(|who| Chooser { kind: who, path: at.clone() });
        let mut able = self.choosers.iter().cloned().chain(writers);
        able.find(|chooser| !chooser.kind.is_one_of(&[], accounts))
    }

    /// Whether the path lies in the folder with this device and inode, or is that folder.
    pub fn passes_through(&self, folder: (u64, u64)) -> bool {
        self.folders.contains(&folder)
    }

    /// A link on the way that is in the folder with this device and inode.
    pub fn link_inside(&self, folder: (u64, u64)) -> Option<&Path> {
        self.links.iter().find(|link| link.folders.contains(&folder)).map(|link| link.path.as_path())
    }

    /// The name of a file that exists, or of one that is missing in a folder that exists.
    pub fn file_name(&self) -> Result<&OsStr, Errno> {
        let mut names = self.rest.components();
        match (names.next(), names.next()) {
            (Some(Component::Normal(name)), None) => Ok(name),
            (None, _) => Err(Errno::ISDIR),
            _ => Err(Errno::NOENT),
        }
    }
}

/// Looks up `path`. A name that does not exist is no error; a file in the middle of the path is one.
pub fn look_up(path: &Path) -> Result<LookupResult, Errno> {
    let whole = std::path::absolute(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    let mut way = LookupState::new()?;
    let mut ahead = Vec::new();
    push_components(&mut ahead, &whole);
    let (mut rest, mut is_missing, mut ends_in_link) = (PathBuf::new(), false, false);
    while let Some(name) = ahead.pop() {
        match way.enter(&name)? {
            LookupStep::Folder => {}
            LookupStep::Link(target) => {
                if way.links.len() > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                ends_in_link |= ahead.is_empty();
                push_components(&mut ahead, &target);
            }
            LookupStep::File if ahead.is_empty() => rest.push(name),
            LookupStep::File => return Err(Errno::NOTDIR),
            LookupStep::Missing => {
                is_missing = true;
                rest.push(name);
                rest.extend(ahead.drain(..).rev());
            }
        }
    }
    let folders = way.ids();
    let (folder, facts) = way.open_folders.pop().ok_or(Errno::NOENT)?;
    let mut path = way.path;
    path.extend(&rest);
    let (links, choosers) = (way.links, way.choosers);
    Ok(LookupResult { path, folder, facts, rest, is_missing, ends_in_link, folders, links, choosers })
}

/// The next name last. A path that is absolute begins with `/`.
fn push_components(ahead: &mut Vec<OsString>, path: &Path) {
    ahead.extend(path.components().rev().map(|name| name.as_os_str().to_owned()));
}

enum LookupStep {
    Folder,
    Link(PathBuf),
    /// Anything that is neither a folder nor a link.
    File,
    Missing,
}

/// The folders from the top to where the lookup has come.
struct LookupState {
    /// Held: `..` is the folder that the lookup came from.
    open_folders: Vec<(OwnedFd, FileFacts)>,
    path: PathBuf,
    links: Vec<FollowedLink>,
    choosers: Vec<Chooser>,
}

impl LookupState {
    fn new() -> Result<Self, Errno> {
        let top = host::open_directory(Path::new("/"))?;
        let facts = host::facts(&top)?;
        Ok(Self { open_folders: vec![(top, facts)], path: "/".into(), links: Vec::new(), choosers: Vec::new() })
    }

    fn ids(&self) -> Vec<(u64, u64)> {
        self.open_folders.iter().map(|(_, facts)| facts.id).collect()
    }

    fn enter(&mut self, name: &OsStr) -> Result<LookupStep, Errno> {
        match name.as_bytes() {
            b"/" => {
                self.open_folders.truncate(1);
                self.path = "/".into();
                return Ok(LookupStep::Folder);
            }
            b"." => return Ok(LookupStep::Folder),
            b".." => {
                self.open_folders.truncate((self.open_folders.len() - 1).max(1));
                self.path.pop();
                return Ok(LookupStep::Folder);
            }
            _ => {}
        }
        let (folder, _) = self.open_folders.last().ok_or(Errno::NOENT)?;
        match open_beneath(folder.as_fd(), name.as_bytes(), FOLDER_FLAGS | OFlags::NOFOLLOW, STEP_RULES) {
            Ok(next) => {
                let facts = host::facts(&next)?;
                self.note_choosers(name, Some(&facts));
                self.open_folders.push((next, facts));
                self.path.push(name);
                Ok(LookupStep::Folder)
            }
            Err(Errno::NOENT) => {
                self.note_choosers(name, None);
                Ok(LookupStep::Missing)
            }
            // Which of the two a link gives depends on the system.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let facts = host::facts_at(folder, name)?;
                if facts.kind != HostFileKind::Symlink {
                    self.note_choosers(name, Some(&facts));
                    return Ok(LookupStep::File);
                }
                let target = read_link(folder.as_fd(), name.as_bytes())?;
                self.note_choosers(name, Some(&facts));
                let (at, folders) = (self.path.join(name), self.ids());
                self.links.push(FollowedLink { path: at, folders, choosers: self.choosers.len() });
                Ok(LookupStep::Link(OsString::from_vec(target).into()))
            }
            Err(errno) => Err(errno),
        }
    }

    /// Records who could replace `entry`, which has the name `name` now.
    fn note_choosers(&mut self, name: &OsStr, entry: Option<&FileFacts>) {
        let Some((folder, facts)) = self.open_folders.last() else { return };
        let is_sticky = facts.mode & STICKY != 0 && entry.is_some();
        let owner = |facts: &FileFacts| (facts.uid != 0).then_some(ChooserKind::Owner(facts.uid));
        // In a folder with the sticky bit only the owner of an entry, and of the folder, may replace it.
        let able = if is_sticky { Vec::from_iter(owner(facts)) } else { writers(facts, folder) };
        let theirs = |entry: &&FileFacts| entry.kind == HostFileKind::Symlink || (is_sticky && facts.mode & 0o022 != 0);
        if let Some(who) = entry.filter(theirs).and_then(owner) {
            self.choosers.push(Chooser { kind: who, path: self.path.join(name) });
        }
        let at = &self.path;
        self.choosers.extend(able.into_iter().map(|who| Chooser { kind: who, path: at.clone() }));
    }
}

/// The users and groups besides root that may create and replace names in a folder.
fn writers(facts: &FileFacts, folder: &OwnedFd) -> Vec<ChooserKind> {
    let mut able = Vec::new();
    if facts.uid != 0 {
        able.push(ChooserKind::Owner(facts.uid));
    }
    if facts.mode & 0o020 != 0 {
        able.push(ChooserKind::Group { gid: facts.gid, has_acl: has_acl(folder.as_fd()) });
    }
    if facts.mode & 0o002 != 0 {
        able.push(ChooserKind::Everybody);
    }
    able
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;
