//! Who the service is. A daemon started as root becomes the owner of its primary root before it opens anything:
//! what that identity may not reach, nobody reaches through it.

use crate::{
    policy::{Policy, PreparedRoot, RunAs},
    sys::{process, user::Accounts},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
}

/// Decides, without changing anything yet. Not started as root: whoever we are.
pub fn choose(policy: &Policy, roots: &[PreparedRoot], accounts: &Accounts) -> Result<Identity, String> {
    let own = Identity { uid: process::effective_uid(), gid: process::effective_gid() };
    if own.uid != 0 {
        return Ok(own);
    }
    match &policy.run_as {
        RunAs::User(name) => {
            let account = accounts
                .account_of(name)
                .ok_or_else(|| format!("run_as = \"user:{name}\": there is no such user"))?;
            Ok(Identity { uid: account.uid, gid: account.gid })
        }
        RunAs::RootOwner => {
            let primary = roots.first().ok_or("no root is there to take the identity from")?;
            Ok(Identity { uid: primary.uid, gid: primary.gid })
        }
    }
}

impl Identity {
    /// Becomes it, for good. Uid 0 stays uid 0 here and loses every capability with the rest of the confinement.
    pub fn assume(self) -> Result<(), String> {
        if process::effective_uid() != 0 {
            return Ok(());
        }
        if self.uid == 0 {
            tracing::warn!(
                "root owns the primary root: the service stays uid 0, without any capability; \
                 give the root another owner, or set run_as"
            );
        }
        process::drop_bounding_set();
        process::become_user(self.uid, self.gid)
            .map_err(|errno| format!("cannot become uid {} gid {}: {errno}", self.uid, self.gid))
    }
}
