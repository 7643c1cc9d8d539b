//! Landlock: the second layer, checked by the kernel at the moment of every open.

use std::os::fd::{AsFd, OwnedFd};

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{Failed, plan};

/// Rights that may never be missing silently; `min_landlock_abi` has been compared with the kernel before.
const FLOOR_ABI: u32 = 2;

/// Restricts this thread, and all it will ever start, to `rules[i]` below `directories[i]`.
pub fn restrict(rules: &[BitFlags<AccessFs>], directories: &[OwnedFd]) -> Result<(), Failed> {
    let rules: Vec<_> = directories.iter().zip(rules).map(|(fd, rights)| (fd, *rights)).collect();
    restrict_rules(&rules)
}

/// The same for any descriptors: the supervisor adds its worker binary and its socket's folder.
pub fn restrict_rules(rules: &[(impl AsFd, BitFlags<AccessFs>)]) -> Result<(), Failed> {
    build(rules).map_err(|error| Failed::Landlock(error.to_string())).and_then(|status| match status {
        RulesetStatus::NotEnforced => Err(Failed::Landlock("the kernel did not enforce the ruleset".into())),
        // Partly: rights of ABIs above this kernel's. Which ones, and what closes them instead, is in the report.
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    })
}

fn build(rules: &[(impl AsFd, BitFlags<AccessFs>)]) -> Result<RulesetStatus, ::landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(plan::required(FLOOR_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(plan::handled())?
        .handle_access(AccessNet::from_all(ABI::V9))?
        .scope(Scope::from_all(ABI::V9))?
        .create()?;
    for (fd, rights) in rules {
        ruleset = ruleset.add_rule(PathBeneath::new(fd, *rights))?;
    }
    #[cfg(feature = "weakened")]
    if crate::sys::weakened::is_off(crate::sys::weakened::ONE_RIGHT_TOO_MANY) {
        let slash = ::landlock::PathFd::new("/").expect("the file-system root opens");
        ruleset = ruleset.add_rule(PathBeneath::new(slash, AccessFs::ReadDir))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
