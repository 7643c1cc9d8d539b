//! Who starts the service, which user it becomes, and whether a third user could have chosen its roots or its policy.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use super::{Policy, PolicyError, PreparedRoot, PreparedRoots, RunAs};
use crate::sys::{
    host::{self, FileFacts, HostFileKind},
    lookup, process,
    user::Accounts,
};

/// Who starts the service. For root, paths that other users can change are refused; an ordinary user risks only their own
/// files.
#[derive(Debug, Clone)]
pub struct Starter {
    pub uid: u32,
    /// Root with power over other users, see `process::is_privileged`.
    pub is_privileged: bool,
    pub accounts: Accounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceIdentity {
    pub uid: u32,
    pub gid: u32,
}

impl Starter {
    /// This process.
    pub fn current() -> Self {
        Self { uid: process::effective_uid(), is_privileged: process::is_privileged(), accounts: Accounts::read() }
    }

    /// Opens a policy file by a name that nobody but root can change, if root starts the service. Also its real path.
    pub fn open_policy(&self, path: &Path) -> Result<(OwnedFd, PathBuf), PolicyError> {
        let fail = |what: String| PolicyError::new(path.display().to_string(), what);
        let found = lookup::look_up(path).map_err(|errno| fail(format!("cannot be opened: {errno}")))?;
        if let Some(chooser) = found.foreign_chooser(&[], &self.accounts).filter(|_| self.is_privileged) {
            return Err(fail(format!(
                "{chooser}, so another user could replace the policy that root obeys; keep it in a folder that only root can change"
            )));
        }
        let opened = found.file_name().and_then(|name| host::open_file(&found.folder, name));
        Ok((opened.map_err(|errno| fail(format!("cannot be opened: {errno}")))?, found.path))
    }

    /// Refuses a policy that others may write: it decides everything.
    pub fn check_policy(&self, file: impl AsFd) -> Result<(), String> {
        let FileFacts { kind, uid, gid, mode, .. } =
            host::facts(&file).map_err(|errno| format!("cannot be examined: {errno}"))?;
        if kind == HostFileKind::RegularFile && mode & 0o002 != 0 {
            return Err("everybody may write this file; `chmod o-w` it first".into());
        }
        let is_foreign = || {
            let is_own = gid == 0 || self.accounts.is_private_group(self.uid, gid);
            !is_own || host::has_acl(file.as_fd())
        };
        if kind == HostFileKind::RegularFile && mode & 0o020 != 0 && is_foreign() {
            return Err(format!("group {gid} may write this file; `chmod g-w` it first"));
        }
        if self.is_privileged && uid != 0 {
            return Err(format!(
                "belongs to uid {uid}, but root starts the service and would obey it; `chown root` it first"
            ));
        }
        Ok(())
    }
}

impl Policy {
    /// Whom a service that root starts becomes.
    pub fn identity(&self, prepared: &PreparedRoots, accounts: &Accounts) -> Result<ServiceIdentity, PolicyError> {
        let wrong = |what: String| PolicyError::new(&self.source, what);
        match &self.run_as {
            RunAs::User(name) => {
                let account = accounts.account_of(name);
                let account =
                    account.ok_or_else(|| wrong(format!("run_as = \"user:{name}\": there is no such user")))?;
                Ok(ServiceIdentity { uid: account.uid, gid: account.gid })
            }
            RunAs::RootOwner => {
                let primary = prepared.roots.first();
                let primary = primary.ok_or_else(|| wrong("no root is there to take the identity from".into()))?;
                Ok(ServiceIdentity { uid: primary.uid, gid: primary.gid })
            }
        }
    }

    /// The group that may connect, if the policy names one.
    pub fn socket_gid(&self, accounts: &Accounts) -> Result<Option<u32>, String> {
        let Some(name) = &self.socket.group else { return Ok(None) };
        let gid = accounts.gid_of(name);
        gid.map(Some).ok_or_else(|| format!("socket.group = \"{name}\": there is no such group"))
    }

    /// Refuses a root that a user other than root or the identity could have chosen: the service would use its identity's
    /// rights on that user's choice. For a service that root starts.
    pub fn check_choosers(
        &self,
        prepared: &PreparedRoots,
        identity: ServiceIdentity,
        accounts: &Accounts,
    ) -> Result<(), PolicyError> {
        let names_uid_0 = identity.uid == 0 && self.run_as != RunAs::RootOwner;
        for (index, (root, found)) in prepared.roots.iter().zip(&prepared.found).enumerate() {
            // The outer root is world-writable and was accepted with `allow_world_writable`, so any user may choose what is
            // in it.
            let is_open_outer = |outer: &&PreparedRoot, facts: &FileFacts| {
                let (inner, outer) = (&root.root, &outer.root);
                let is_outer = inner.path != outer.path && inner.path.starts_with(&outer.path);
                is_outer && inner.mode == outer.mode && facts.mode & 0o002 != 0
            };
            let mut others = prepared.roots.iter().zip(&prepared.found);
            let outer = others.find(|(outer, found)| is_open_outer(outer, &found.facts));
            let decides_identity = index == 0 && self.run_as == RunAs::RootOwner;
            let chooser = match outer {
                // An operator who names uid 0 accepts folders of others on the way, but no link of theirs.
                _ if names_uid_0 => found.foreign_link_chooser(&[], accounts),
                Some((outer, _)) if !decides_identity => {
                    found.foreign_chooser_outside(&outer.root.path, &[identity.uid], accounts)
                }
                _ => found.foreign_chooser(&[identity.uid], accounts),
            };
            let Some(chooser) = chooser else { continue };
            let given = root.written_path.display();
            let what = match &self.run_as {
                RunAs::RootOwner if identity.uid == 0 => format!(
                    "root {given}: {chooser}, so another user could have chosen this root, and the service would run as uid 0, the \
                     owner of the primary root; set run_as = \"user:NAME\" in a policy file, or \"user:root\" to accept it"
                ),
                _ => format!(
                    "root {given}: {chooser}, so another user could replace this root, and the service would run as uid {}; \
                     let only root or uid {0} own and write that folder",
                    identity.uid
                ),
            };
            return Err(PolicyError::new(&root.origin, what));
        }
        Ok(())
    }
}
