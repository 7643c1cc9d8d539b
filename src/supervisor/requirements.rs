//! Fail closed: what the kernel must have before anything is served. A filter around us that hides a call is no reason
//! to do without it; the message says what is missing and how to get it.

use crate::{policy::Policy, resolve, sys::raw, terms::Level};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingRequirement {
    #[error(
        "the kernel's jail is missing: only Linux has it; here the service starts with confinement = \"userspace\" in its \
         policy (--policy), a conscious downgrade in which only its own checks hold"
    )]
    Linux,
    #[error(
        "openat2 is missing: the kernel is older than 5.6, or a seccomp filter around this process hides it (answering {0}); \
         every path is resolved with it, unless the policy says confinement = \"userspace\", a conscious downgrade"
    )]
    Openat2(String),
    #[error(
        "Landlock is missing: {0}; use a kernel of 6.2 or later with `landlock` in its list of security modules \
         (boot parameter lsm=landlock,…), and let filters around this process allow the landlock_* calls"
    )]
    Landlock(String),
    #[error(
        "Landlock here is ABI {has}, the policy wants at least {wants}: below ABI 3 a hostile worker can empty files of a \
         read-only root; use a newer kernel, or accept it with min_landlock_abi = {has}"
    )]
    LandlockAbi { has: u32, wants: u32 },
    #[error(
        "seccomp is missing: {0}; use a kernel with CONFIG_SECCOMP_FILTER, and let filters around this process allow the \
         seccomp call"
    )]
    Seccomp(String),
}

/// The kernel's Landlock ABI (0 without), once everything the policy insists on is there.
pub fn check_requirements(policy: &Policy) -> Result<u32, MissingRequirement> {
    let abi = raw::landlock_abi();
    if policy.confinement == Level::Userspace {
        return Ok(abi.unwrap_or(0));
    }
    if !raw::HAS_JAIL {
        return Err(MissingRequirement::Linux);
    }
    resolve::kernel_resolver().map_err(MissingRequirement::Openat2)?;
    let has = abi.map_err(|errno| MissingRequirement::Landlock(errno.to_string()))?;
    if has < policy.min_landlock_abi {
        return Err(MissingRequirement::LandlockAbi { has, wants: policy.min_landlock_abi });
    }
    raw::seccomp_available().map_err(|errno| MissingRequirement::Seccomp(errno.to_string()))?;
    Ok(has)
}
