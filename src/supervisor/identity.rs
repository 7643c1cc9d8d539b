//! Chooses and assumes the identity of the service. A daemon started as root becomes the owner of its primary root (or the
//! user of `run_as`) before it opens the roots, so that clients reach only what that identity may.

use crate::{
    policy::{Policy, PolicyError, PreparedRoots, ServiceIdentity, Starter},
    sys::process,
};

/// Chooses the identity and changes nothing yet. A process that is not root keeps its identity.
pub fn choose(policy: &Policy, prepared: &PreparedRoots, starter: &Starter) -> Result<ServiceIdentity, PolicyError> {
    if starter.uid != 0 {
        return Ok(ServiceIdentity { uid: starter.uid, gid: process::effective_gid() });
    }
    let identity = policy.identity(prepared, &starter.accounts)?;
    if starter.is_privileged {
        policy.check_choosers(prepared, identity, &starter.accounts)?;
    }
    Ok(identity)
}

/// Changes to this identity for good. Uid 0 stays uid 0 here and loses every capability with the rest of the confinement.
pub fn assume(identity: ServiceIdentity) -> Result<(), String> {
    if process::effective_uid() != 0 {
        return Ok(());
    }
    let ServiceIdentity { uid, gid } = identity;
    if uid == 0 {
        tracing::warn!(
            "the service stays uid 0, without any capability, because root owns the primary root or run_as names root; \
             give the root another owner, or set run_as to another user"
        );
    }
    process::drop_bounding_set();
    process::become_user(uid, gid).map_err(|errno| format!("cannot become uid {uid} gid {gid}: {errno}"))
}
