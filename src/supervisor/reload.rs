//! Reads the policy again. Runs in the confined supervisor; trusts what passes the policy's own checks. All or nothing:
//! nothing changes until a new policy has been read and parsed and a worker has proved it.

use std::{
    ffi::OsString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    blocking::run_blocking,
    policy_in_force::{PolicyInForce, StartState},
};
use crate::{
    policy::{Policy, RootEntry, Starter},
    sys::{host, lookup},
};

/// The signals that end the service (TERM, INT) and make it read its policy again (HUP).
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) terminate: Signal,
    pub(super) interrupt: Signal,
    pub(super) hang_up: Signal,
}

impl Signals {
    pub(super) fn register() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

/// The path of the policy file. The folder was opened before the supervisor confined itself. A reload opens the name in that
/// folder, because an editor or a package may have replaced the file.
#[derive(Debug)]
pub struct PolicyFile {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    /// The user who started the service. A reload applies the same checks as the start.
    starter: Starter,
}

impl PolicyFile {
    pub fn open(path: &Path, starter: &Starter) -> Result<Self, String> {
        let shown = path.display();
        let name = path.file_name().ok_or_else(|| format!("{shown}: is not the name of a file"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Checked apart from the file: the file's name may be a link, and this folder is the one that a reload opens.
        let found = lookup::look_up(folder.unwrap_or(Path::new(".")))
            .map_err(|errno| format!("{shown}: its folder: {errno}"))?;
        if let Some(chooser) = found.foreign_chooser(&[], &starter.accounts).filter(|_| starter.is_privileged) {
            return Err(format!(
                "{shown}: {chooser}, so another user could replace the policy; keep it in a folder that only root can change"
            ));
        }
        Ok(Self { folder: found.folder, name: name.into(), path: path.into(), starter: starter.clone() })
    }

    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    fn read(&self) -> Result<Policy, String> {
        let shown = self.path.display();
        let file = host::open_beside(&self.folder, &self.name).map_err(|errno| {
            format!("{shown}: {errno} (as the service's user, and not through a link out of its folder)")
        })?;
        Policy::read(file, &shown.to_string(), &self.starter).map_err(|error| error.to_string())
    }
}

#[derive(Debug)]
pub struct Reloader {
    pub start_state: StartState,
    /// The policy in force.
    pub policy: Policy,
    /// `None` for roots from the command line.
    pub file: Option<Arc<PolicyFile>>,
}

impl Reloader {
    /// Reads the policy file, and proves the profiles made from it. `None` if there is no policy file.
    pub async fn read_and_prove(&self) -> Result<Option<(Policy, PolicyInForce)>, String> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let policy = run_blocking(move || file.read()).await.flatten()?;
        let fixed = changed_fixed_keys(&self.policy, &policy);
        if !fixed.is_empty() {
            return Err(format!("{} cannot change while the service runs; restart it", fixed.join(", ")));
        }
        let StartState { roots, uid, accounts, .. } = &self.start_state;
        let peers = policy
            .profiles(roots, *uid, accounts)
            .map_err(|error| format!("{error} (accounts are those of the service's start)"))?;
        let offer = self.start_state.build_policy_in_force(&policy, peers, policy.workers.pool as usize)?;
        offer.prove().await?;
        Ok(Some((policy, offer)))
    }
}

/// The keys that differ but cannot change, because they took effect before the supervisor confined itself: a Landlock domain
/// can never be widened. The pattern names every key, so that a new key does not compile until it is listed here.
fn changed_fixed_keys(old: &Policy, new: &Policy) -> Vec<&'static str> {
    let Policy {
        source: _,
        confinement,
        min_landlock_abi,
        run_as,
        roots,
        audit,
        socket,
        // These apply to new connections; the limits apply to all connections.
        durability: _,
        wire: _,
        deny: _,
        protect: _,
        exclude: _,
        limits: _,
        workers: _,
        trash: _,
        peers: _,
    } = old;
    // The position of a root in the file does not matter.
    let placed = |root: &RootEntry| RootEntry { origin: String::new(), ..root.clone() };
    let differs = [
        ("confinement", *confinement != new.confinement),
        ("min_landlock_abi", *min_landlock_abi != new.min_landlock_abi),
        ("run_as", *run_as != new.run_as),
        ("[[root]]", !roots.iter().map(placed).eq(new.roots.iter().map(placed))),
        ("[audit]", *audit != new.audit),
        ("[socket]", *socket != new.socket),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[[root]]\npath = \"/srv\"\n";

    fn changed(old: &str, new: &str) -> Vec<&'static str> {
        let parse = |text: &str| Policy::parse(text, "policy.toml").expect("a good policy");
        changed_fixed_keys(&parse(old), &parse(new))
    }

    #[test]
    fn what_was_decided_before_the_confinement_needs_a_restart() {
        for (text, key) in [
            ("confinement = \"userspace\"\n", "confinement"),
            ("min_landlock_abi = 4\n", "min_landlock_abi"),
            ("run_as = \"user:ada\"\n", "run_as"),
        ] {
            assert_eq!(changed(BASE, &format!("{text}{BASE}")), [key]);
        }
        for (text, key) in [
            ("mode = \"ro\"\n", "[[root]]"),
            ("[[root]]\npath = \"/opt\"\n", "[[root]]"),
            ("[audit]\nlevel = \"all\"\n", "[audit]"),
            ("[socket]\ngroup = \"agents\"\n", "[socket]"),
        ] {
            assert_eq!(changed(BASE, &format!("{BASE}{text}")), [key]);
        }
        let both = format!("confinement = \"userspace\"\n{BASE}mode = \"ro\"\n");
        assert_eq!(changed(BASE, &both), ["confinement", "[[root]]"], "all of them are named");
    }

    #[test]
    fn everything_else_does_not() {
        let other = format!(
            "# moved down\n\ndurability = \"none\"\n{BASE}\
             [limits]\nmax_read_bytes = 1\n[deny]\nnon_accessible_globs = []\n[protect]\nread_only_globs = []\n[exclude]\ndefault_exclude_globs = []\n\
             [workers]\npool = 0\n[trash]\ndefault = true\n[[peer]]\nuid = 1\n"
        );
        assert!(changed(BASE, &other).is_empty());
        assert!(changed(BASE, BASE).is_empty());
    }
}
