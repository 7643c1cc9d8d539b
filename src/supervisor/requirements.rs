//! Checks that the kernel has everything that the policy requires, and fails closed. Runs in the supervisor at its start.
//! Trusts the policy. If a filter around this process blocks a call, the service does not start without that call: the error
//! names the call and how to allow it.

use crate::{policy::Policy, resolve, sys::raw, terms::Level};

/// The kernel's Landlock ABI (0 without), if the kernel has everything that the policy insists on. Otherwise the text for the operator.
pub fn check_requirements(policy: &Policy) -> Result<u32, String> {
    let abi = raw::landlock_abi();
    if policy.confinement == Level::Userspace {
        return Ok(abi.unwrap_or(0));
    }
    if !raw::HAS_JAIL {
        return Err(
            "the kernel's jail is missing: only Linux has it; here the service starts with confinement = \"userspace\" in its \
             policy (--policy), a conscious downgrade in which only its own checks hold"
                .into(),
        );
    }
    resolve::kernel_resolver().map_err(|answer| {
        format!(
            "openat2 is missing: the kernel is older than 5.6, or a seccomp filter around this process hides it (answering {answer}); \
             every path is resolved with it, unless the policy says confinement = \"userspace\", a conscious downgrade"
        )
    })?;
    let has = abi.map_err(|errno| {
        format!(
            "Landlock is missing: {errno}; use a kernel of 6.2 or later with `landlock` in its list of security modules \
             (boot parameter lsm=landlock,…), and let filters around this process allow the landlock_* calls"
        )
    })?;
    let wants = policy.min_landlock_abi;
    if has < wants {
        return Err(format!(
            "Landlock here is ABI {has}, the policy wants at least {wants}: below ABI 3 a hostile worker can empty files of a \
             read-only root; use a newer kernel, or accept it with min_landlock_abi = {has}"
        ));
    }
    raw::seccomp_available().map_err(|errno| {
        format!(
            "seccomp is missing: {errno}; use a kernel with CONFIG_SECCOMP_FILTER, and let filters around this process allow the \
             seccomp call"
        )
    })?;
    Ok(has)
}
