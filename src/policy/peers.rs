//! Who may connect, and which roots they then see.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{Policy, PolicyError, PreparedRoot};
use crate::path::Mode;

/// One `[[peer]]`, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub name: PeerName,
    /// None = all.
    pub roots: Option<Vec<PathBuf>>,
    /// None = each root's own.
    pub mode: Option<Mode>,
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerName {
    Uid(u32),
    User(String),
    Gid(u32),
    Group(String),
}

/// The account database: `sys::user` in production.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)]
pub struct Accounts<'a> {
    pub uid_of: &'a dyn Fn(&str) -> Option<u32>,
    pub gid_of: &'a dyn Fn(&str) -> Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Uid(u32),
    Gid(u32),
}

/// What one kind of peer gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub who: Who,
    /// Indices into the prepared roots, in their order, with the mode this peer has there. Empty when all its
    /// roots are optional and absent: such a peer is not served.
    pub roots: Vec<(u16, Mode)>,
}

impl Policy {
    /// In the policy's order. Without a `[[peer]]` only the daemon's own uid is served.
    pub fn profiles(
        &self,
        prepared: &[PreparedRoot],
        own_uid: u32,
        accounts: Accounts<'_>,
    ) -> Result<Vec<Profile>, PolicyError> {
        if self.peers.is_empty() {
            let roots = (0u16..).zip(prepared).map(|(index, root)| (index, root.root.mode)).collect();
            return Ok(vec![Profile { who: Who::Uid(own_uid), roots }]);
        }
        let mut profiles: Vec<Profile> = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let who = who(peer, accounts)?;
            if profiles.iter().any(|profile| profile.who == who) {
                return Err(error(peer, format!("{who} has an entry already; this one would never be used")));
            }
            profiles.push(Profile { who, roots: self.roots_of(peer, prepared)? });
        }
        Ok(profiles)
    }

    fn roots_of(&self, peer: &Peer, prepared: &[PreparedRoot]) -> Result<Vec<(u16, Mode)>, PolicyError> {
        for name in peer.roots.iter().flatten() {
            let absent_optional = self.roots.iter().any(|entry| entry.path == *name && entry.optional);
            if !absent_optional && !prepared.iter().any(|root| is_named(root, name)) {
                let known: Vec<_> = prepared.iter().map(|root| root.given.to_string_lossy()).collect();
                let what = format!(
                    "roots: {} is no root of this policy; roots: {}",
                    name.display(),
                    known.join(", ")
                );
                return Err(error(peer, what));
            }
        }
        let mut roots = Vec::new();
        for (index, root) in (0u16..).zip(prepared) {
            if !peer.roots.as_ref().is_none_or(|names| names.iter().any(|name| is_named(root, name))) {
                continue;
            }
            let mode = peer.mode.unwrap_or(root.root.mode);
            if mode > root.root.mode {
                let root = root.given.display();
                return Err(error(
                    peer,
                    format!("mode \"rw\" on the read-only root {root}; a peer may only narrow"),
                ));
            }
            roots.push((index, mode));
        }
        Ok(roots)
    }
}

/// As written in `[[root]]`, or the real path that `coder::info` shows.
fn is_named(root: &PreparedRoot, name: &Path) -> bool {
    root.given == name || root.root.path == name
}

fn who(peer: &Peer, accounts: Accounts<'_>) -> Result<Who, PolicyError> {
    match &peer.name {
        PeerName::Uid(uid) => Ok(Who::Uid(*uid)),
        PeerName::Gid(gid) => Ok(Who::Gid(*gid)),
        PeerName::User(name) => (accounts.uid_of)(name)
            .map(Who::Uid)
            .ok_or_else(|| error(peer, format!("no user \"{name}\" on this host"))),
        PeerName::Group(name) => (accounts.gid_of)(name)
            .map(Who::Gid)
            .ok_or_else(|| error(peer, format!("no group \"{name}\" on this host"))),
    }
}

fn error(peer: &Peer, what: String) -> PolicyError {
    PolicyError::new(&peer.origin, format!("peer: {what}"))
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "uid {uid}"),
            Self::Gid(gid) => write!(f, "gid {gid}"),
        }
    }
}

/// The first entry that fits decides, also when it has no root left: a later, wider entry must not take its place.
pub fn pick(profiles: &[Profile], uid: u32, gid: u32, groups: &[u32]) -> Option<usize> {
    let index = profiles.iter().position(|profile| match profile.who {
        Who::Uid(wanted) => wanted == uid,
        Who::Gid(wanted) => wanted == gid || groups.contains(&wanted),
    })?;
    (!profiles[index].roots.is_empty()).then_some(index)
}
