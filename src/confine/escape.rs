//! The proof: a confined worker makes the forbidden calls for real and reports what happened.
//! The supervisor compares the report with a closed list and refuses anything else.
//!
//! Every call is chosen so that even its success would be harmless: it opens and closes, asks for nothing, or names
//! nothing. A jail that is only believed in is found out here, before the first client.

use std::os::fd::BorrowedFd;

pub use super::worker::{run_attempts, worker_descriptors};
use super::{layers, system::SYSTEM_ATTEMPTS};
use crate::{
    broker::setup::Setup,
    path::Mode,
    sys::{Errno, process},
};

/// The result of an attempt: an errno, or one of the two constants below.
pub type AttemptResult = i32;
/// The attempt went through: the jail leaks.
pub const ATTEMPT_SUCCEEDED: AttemptResult = 0;
/// For a fact that is checked instead of attempted.
pub const FACT_HOLDS: AttemptResult = -1;

/// Which part of the jail stops an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementLayer {
    Landlock,
    Seccomp,
    Process,
}

impl ConfinementLayer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Process => "process",
        }
    }
}

#[derive(Debug)]
pub struct EscapeAttempt {
    pub id: u8,
    pub name: &'static str,
    /// For a person: what was tried.
    pub description: &'static str,
    pub layer: ConfinementLayer,
    /// Results that mean "held".
    pub expected: &'static [AttemptResult],
    pub(super) run: fn(&AttemptContext<'_>) -> AttemptResult,
}

/// Targets of the attempts: a read-only root if the profile has one, and the supervisor's pid.
#[derive(Debug)]
pub struct AttemptContext<'a> {
    pub read_only_root: Option<BorrowedFd<'a>>,
    pub supervisor: i32,
    /// Descriptors that may be open at this moment.
    pub descriptors: &'a [i32],
}

/// Descriptor numbers that are checked. Every new descriptor gets the lowest free number, and all inherited ones were closed,
/// so every open descriptor is far below this number.
const MAX_DESCRIPTOR_NUMBER: i32 = 128;

/// Facts that are checked like escape attempts, and must hold for a worker on every system.
static WORKER_FACTS: &[EscapeAttempt] = &[
    EscapeAttempt::new(
        53,
        "empty_environment",
        "the environment is empty",
        ConfinementLayer::Process,
        &[FACT_HOLDS],
        |_| fact_result(std::env::vars_os().next().is_none()),
    ),
    EscapeAttempt::new(
        54,
        "descriptor_table",
        "only the channel and /dev/null are open",
        ConfinementLayer::Process,
        &[FACT_HOLDS],
        |s| fact_result(process::open_descriptors(MAX_DESCRIPTOR_NUMBER) == s.descriptors),
    ),
];

/// Order matters only for reading. Ids are for ever: a number is never given to another attempt.
pub fn escape_attempts() -> impl Iterator<Item = &'static EscapeAttempt> {
    SYSTEM_ATTEMPTS.iter().chain(WORKER_FACTS)
}

impl EscapeAttempt {
    pub(super) const fn new(
        id: u8,
        name: &'static str,
        attempt: &'static str,
        layer: ConfinementLayer,
        expected: &'static [AttemptResult],
        run: fn(&AttemptContext<'_>) -> AttemptResult,
    ) -> Self {
        Self { id, name, description: attempt, layer, expected, run }
    }

    pub fn has_held(&self, outcome: AttemptResult) -> bool {
        self.expected.contains(&outcome)
    }
}

/// The attempts that a worker with this set-up makes and the supervisor insists on.
pub fn expected_attempts(setup: &Setup) -> impl Iterator<Item = &'static EscapeAttempt> {
    let landlock = layers::uses_landlock(setup);
    let seccomp = layers::uses_seccomp(setup);
    let read_only = setup.roots.iter().any(|root| root.mode == Mode::Ro);
    let writable = layers::is_writable(&setup.roots);
    escape_attempts().filter(move |probe| match probe.layer {
        ConfinementLayer::Landlock => landlock && (read_only || probe.id != 2),
        ConfinementLayer::Seccomp => seccomp && (!writable || probe.id != 40),
        ConfinementLayer::Process => true,
    })
}

/// Exactly the expected attempts, each with an expected result; otherwise what is wrong, one line each.
pub fn check_report(setup: &Setup, report: &[(u8, AttemptResult)]) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    for probe in expected_attempts(setup) {
        match report.iter().find(|(id, _)| *id == probe.id) {
            None => wrong.push(format!("{}: not attempted", probe.name)),
            Some((_, outcome)) if !probe.has_held(*outcome) => {
                wrong.push(format!("{} ({}): {}", probe.name, probe.description, describe_result(*outcome)));
            }
            Some(_) => {}
        }
    }
    if report.len() != expected_attempts(setup).count() {
        wrong.push("the report has attempts that nobody asked for".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// `EACCES`, `went through`, `holds`.
pub fn describe_result(outcome: AttemptResult) -> String {
    match outcome {
        ATTEMPT_SUCCEEDED => "went through".into(),
        FACT_HOLDS => "holds".into(),
        errno => match Errno::from_raw_os_error(errno) {
            Errno::PERM => "EPERM".into(),
            Errno::ACCESS => "EACCES".into(),
            Errno::ROFS => "EROFS".into(),
            other => other.to_string(),
        },
    }
}

pub(super) fn fact_result(holds: bool) -> AttemptResult {
    if holds { FACT_HOLDS } else { ATTEMPT_SUCCEEDED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<u8> = escape_attempts().map(|probe| probe.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), escape_attempts().count());
    }

    #[test]
    fn an_attempt_that_goes_through_never_counts_as_held() {
        assert!(escape_attempts().all(|probe| !probe.has_held(ATTEMPT_SUCCEEDED)));
    }
}
