//! Runs in the supervisor and in `stockade policy`: decides which peers may connect, and which roots each gets. Trusts the policy
//! and the uid and gid that the kernel reports. Pure.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Policy, PolicyError, PreparedRoot};
use crate::{path::Mode, sys::user::Accounts};

/// One `[[peer]]`, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PeerEntry {
    #[serde(flatten)]
    pub name: PeerName,
    /// None = all.
    pub roots: Option<Vec<PathBuf>>,
    /// None = each root's own.
    pub mode: Option<Mode>,
    #[serde(skip)]
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerName {
    Uid(u32),
    User(String),
    Gid(u32),
    Group(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerId {
    Uid(u32),
    Gid(u32),
}

/// The roots and modes of one kind of peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProfile {
    pub peer: PeerId,
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
        accounts: &Accounts,
    ) -> Result<Vec<PolicyProfile>, PolicyError> {
        if self.peers.is_empty() {
            let roots = (0u16..).zip(prepared).map(|(index, root)| (index, root.root.mode)).collect();
            return Ok(vec![PolicyProfile { peer: PeerId::Uid(own_uid), roots }]);
        }
        let mut profiles: Vec<PolicyProfile> = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let who = resolve_peer(peer, accounts)?;
            if profiles.iter().any(|profile| profile.peer == who) {
                return Err(peer_error(peer, format!("{who} has an entry already; this one would never be used")));
            }
            profiles.push(PolicyProfile { peer: who, roots: self.roots_of(peer, prepared)? });
        }
        Ok(profiles)
    }

    fn roots_of(&self, peer: &PeerEntry, prepared: &[PreparedRoot]) -> Result<Vec<(u16, Mode)>, PolicyError> {
        for name in peer.roots.iter().flatten() {
            let absent_optional = self.roots.iter().any(|entry| entry.path == *name && entry.optional);
            if !absent_optional && !prepared.iter().any(|root| is_named(root, name)) {
                let known: Vec<_> = prepared.iter().map(|root| root.written_path.to_string_lossy()).collect();
                let what = format!("{} is no root of this policy; roots: {}", name.display(), known.join(", "));
                return Err(peer_error(peer, what));
            }
        }
        let mut roots = Vec::new();
        for (index, root) in (0u16..).zip(prepared) {
            if !peer.roots.as_ref().is_none_or(|names| names.iter().any(|name| is_named(root, name))) {
                continue;
            }
            let mode = peer.mode.unwrap_or(root.root.mode);
            if mode > root.root.mode {
                let root = root.written_path.display();
                return Err(peer_error(
                    peer,
                    format!("mode \"rw\" on the read-only root {root}; a peer may only narrow"),
                ));
            }
            roots.push((index, mode));
        }
        Ok(roots)
    }
}

/// `name` is either the path as written in `[[root]]`, or the real path that `coder::info` shows.
fn is_named(root: &PreparedRoot, name: &Path) -> bool {
    root.written_path == name || root.root.path == name
}

fn resolve_peer(peer: &PeerEntry, accounts: &Accounts) -> Result<PeerId, PolicyError> {
    match &peer.name {
        PeerName::Uid(uid) => Ok(PeerId::Uid(*uid)),
        PeerName::Gid(gid) => Ok(PeerId::Gid(*gid)),
        PeerName::User(name) => accounts.uid_of(name).map(PeerId::Uid).ok_or_else(|| {
            peer_error(peer, format!("no user \"{name}\" in /etc/passwd; name it by number, `uid = N`"))
        }),
        PeerName::Group(name) => accounts.gid_of(name).map(PeerId::Gid).ok_or_else(|| {
            peer_error(peer, format!("no group \"{name}\" in /etc/group; name it by number, `gid = N`"))
        }),
    }
}

fn peer_error(peer: &PeerEntry, what: String) -> PolicyError {
    PolicyError::new(&peer.origin, format!("peer: {what}"))
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "uid {uid}"),
            Self::Gid(gid) => write!(f, "gid {gid}"),
        }
    }
}

/// The first entry that fits decides, also when it has no root left: a later, wider entry must not take its place.
pub fn select_profile(profiles: &[PolicyProfile], uid: u32, gid: u32, groups: &[u32]) -> Option<usize> {
    let index = profiles.iter().position(|profile| match profile.peer {
        PeerId::Uid(wanted) => wanted == uid,
        PeerId::Gid(wanted) => wanted == gid || groups.contains(&wanted),
    })?;
    (!profiles[index].roots.is_empty()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{AccessTimes, Hardlinks, Root, Symlinks};

    const ROOTS: &str = r#"
        [[root]]
        path = "/srv/rw"
        [[root]]
        path = "/srv/ro"
        mode = "ro"
        [[root]]
        path = "/srv/gone"
        optional = true
        "#;

    fn prepared(given: &str, real: &str, mode: Mode) -> PreparedRoot {
        let root = Root {
            path: real.into(),
            mode,
            symlinks: Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: Hardlinks::Allow,
            access_times: AccessTimes::OwnerOnly,
        };
        PreparedRoot { root, uid: 0, gid: 0, written_path: given.into(), origin: String::new() }
    }

    /// /srv/gone is absent, as on disk.
    fn profiles(peers: &str) -> Result<Vec<PolicyProfile>, String> {
        let policy = Policy::parse(&format!("{ROOTS}{peers}"), "p.toml").expect("valid");
        let roots = [prepared("/srv/rw", "/real/rw", Mode::Rw), prepared("/srv/ro", "/srv/ro", Mode::Ro)];
        let accounts = Accounts::parse("ada:x:1000:1000:", "agents:x:50:");
        policy.profiles(&roots, 7, &accounts).map_err(|error| error.to_string())
    }

    fn refused(peers: &str, text: &str) {
        let error = profiles(peers).expect_err(text);
        assert!(error.starts_with("p.toml:10:9: peer: ") && error.contains(text), "{error}");
    }

    #[test]
    fn without_a_peer_only_our_own_uid_is_served() {
        let profiles = profiles("").expect("valid");
        assert_eq!(profiles, [PolicyProfile { peer: PeerId::Uid(7), roots: vec![(0, Mode::Rw), (1, Mode::Ro)] }]);
        assert_eq!(select_profile(&profiles, 7, 7, &[]), Some(0));
        assert_eq!(select_profile(&profiles, 0, 7, &[7]), None, "not even the superuser");
    }

    #[test]
    fn with_peers_our_own_uid_needs_an_entry_too() {
        let profiles = profiles("[[peer]]\nuid = 1").expect("valid");
        assert_eq!(select_profile(&profiles, 7, 7, &[7]), None);
        assert_eq!(select_profile(&profiles, 1, 7, &[]), Some(0));
    }

    #[test]
    fn names_are_looked_up() {
        let profiles = profiles("[[peer]]\nuser = \"ada\"\n[[peer]]\ngroup = \"agents\"").expect("valid");
        assert_eq!((profiles[0].peer, profiles[1].peer), (PeerId::Uid(1000), PeerId::Gid(50)));
        refused("[[peer]]\nuser = \"eve\"", "no user \"eve\" in /etc/passwd; name it by number, `uid = N`");
        refused("[[peer]]\ngroup = \"eves\"", "no group \"eves\" in /etc/group; name it by number, `gid = N`");
    }

    #[test]
    fn the_first_entry_that_fits_decides() {
        let profiles = profiles("[[peer]]\nuid = 1\nmode = \"ro\"\n[[peer]]\ngid = 2").expect("valid");
        assert_eq!(select_profile(&profiles, 1, 2, &[]), Some(0));
        assert_eq!(select_profile(&profiles, 3, 2, &[]), Some(1));
        assert_eq!(select_profile(&profiles, 3, 4, &[5, 2]), Some(1), "supplementary groups count");
        assert_eq!(select_profile(&profiles, 2, 1, &[1]), None, "a uid is no gid");
    }

    #[test]
    fn a_peer_may_only_narrow() {
        let narrowed = profiles("[[peer]]\nuid = 1\nmode = \"ro\"").expect("valid");
        assert_eq!(narrowed[0].roots, [(0, Mode::Ro), (1, Mode::Ro)]);
        refused("[[peer]]\nuid = 1\nmode = \"rw\"", "mode \"rw\" on the read-only root /srv/ro");
        let some = profiles("[[peer]]\nuid = 1\nmode = \"rw\"\nroots = [\"/srv/rw\"]").expect("valid");
        assert_eq!(some[0].roots, [(0, Mode::Rw)]);
    }

    #[test]
    fn roots_of_a_peer_are_roots_of_the_policy() {
        let real = profiles("[[peer]]\nuid = 1\nroots = [\"/real/rw\"]").expect("the real path is a name too");
        assert_eq!(real[0].roots, [(0, Mode::Rw)]);
        refused(
            "[[peer]]\nuid = 1\nroots = [\"/srv/rw/sub\"]",
            "/srv/rw/sub is no root of this policy; roots: /srv/rw, /srv/ro",
        );
    }

    #[test]
    fn a_peer_whose_only_root_is_absent_is_not_served_by_a_later_entry() {
        let profiles = profiles("[[peer]]\nuid = 1\nroots = [\"/srv/gone\"]\n[[peer]]\ngid = 2").expect("valid");
        assert!(profiles[0].roots.is_empty());
        assert_eq!(select_profile(&profiles, 1, 2, &[2]), None);
        assert_eq!(select_profile(&profiles, 3, 2, &[]), Some(1));
    }

    #[test]
    fn a_second_entry_for_the_same_peer_is_refused() {
        let error = profiles("[[peer]]\nuid = 1000\n[[peer]]\nuser = \"ada\"").expect_err("the same uid");
        assert_eq!(error, "p.toml:12:1: peer: uid 1000 has an entry already; this one would never be used");
    }
}
