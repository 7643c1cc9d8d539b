//! Landlock: the second layer, checked by the kernel at the moment of every open.

use std::os::fd::AsFd;

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::rights;
use crate::confine::ConfineError;

/// Restricts this thread, and all it will ever start, to these rights below these descriptors.
pub fn restrict_thread(rules: &[(impl AsFd, BitFlags<AccessFs>)]) -> Result<(), ConfineError> {
    build_ruleset(rules).map_err(|error| ConfineError::Landlock(error.to_string())).and_then(|status| {
        match status {
            RulesetStatus::NotEnforced => Err(ConfineError::Landlock("the kernel did not enforce the ruleset".into())),
            // Partly: rights of ABIs above this kernel's. Which ones, and what closes them instead, is in the report.
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    })
}

fn build_ruleset(rules: &[(impl AsFd, BitFlags<AccessFs>)]) -> Result<RulesetStatus, ::landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights::required_rights())?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(rights::handled_rights())?
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
