//! The proof: a confined worker makes the forbidden calls for real and reports what happened.
//! The supervisor compares the report with a closed list and refuses anything else.
//!
//! Every call is chosen so that even its success would be harmless: it opens and closes, asks for nothing, or names
//! nothing. A jail that is only believed in is found out here, before the first client.

use std::os::fd::BorrowedFd;

pub use super::worker::{run, worker_descriptors};
use super::{plan, system::ATTEMPTS};
use crate::{
    broker::setup::Setup,
    path::Mode,
    sys::{Errno, process},
};

/// The result of an attempt: an errno, or one of the two below.
pub type Outcome = i32;
/// The attempt went through: the jail leaks.
pub const WENT_THROUGH: Outcome = 0;
/// For facts that are looked at instead of attempted.
pub const HOLDS: Outcome = -1;

/// Which part of the jail stops an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    Landlock,
    Seccomp,
    Process,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Process => "process",
        }
    }
}

#[derive(Debug)]
pub struct Probe {
    pub id: u8,
    pub name: &'static str,
    /// For a person: what was tried.
    pub attempt: &'static str,
    pub layer: Layer,
    /// Results that mean "held".
    pub expected: &'static [Outcome],
    pub(super) run: fn(&Surroundings<'_>) -> Outcome,
}

/// What the attempts need: a read-only root if the profile has one, and the supervisor as a target.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub read_only_root: Option<BorrowedFd<'a>>,
    pub supervisor: i32,
    /// Descriptors that may be open at this moment.
    pub descriptors: &'a [i32],
}

/// Descriptor numbers that are looked at. Every descriptor gets the lowest free number, and all that came with the
/// exec were closed: whatever is open lies far below.
const DESCRIPTOR_NUMBERS: i32 = 128;

/// What is true of a worker on every system.
static FACTS: &[Probe] = &[
    Probe::new(53, "empty_environment", "the environment is empty", Layer::Process, &[HOLDS], |_| {
        fact(std::env::vars_os().next().is_none())
    }),
    Probe::new(
        54,
        "descriptor_table",
        "only the channel and /dev/null are open",
        Layer::Process,
        &[HOLDS],
        |s| fact(process::open_descriptors(DESCRIPTOR_NUMBERS) == s.descriptors),
    ),
];

/// Order matters only for reading. Ids are for ever: a number is never given to another attempt.
pub fn probes() -> impl Iterator<Item = &'static Probe> {
    ATTEMPTS.iter().chain(FACTS)
}

impl Probe {
    pub(super) const fn new(
        id: u8,
        name: &'static str,
        attempt: &'static str,
        layer: Layer,
        expected: &'static [Outcome],
        run: fn(&Surroundings<'_>) -> Outcome,
    ) -> Self {
        Self { id, name, attempt, layer, expected, run }
    }

    pub fn held(&self, outcome: Outcome) -> bool {
        self.expected.contains(&outcome)
    }
}

/// The attempts that a worker with this set-up makes and the supervisor insists on.
pub fn expected(setup: &Setup) -> impl Iterator<Item = &'static Probe> {
    let landlock = plan::uses_landlock(setup);
    let seccomp = plan::uses_seccomp(setup);
    let read_only = setup.roots.iter().any(|root| root.mode == Mode::Ro);
    let writable = plan::is_writable(&setup.roots);
    probes().filter(move |probe| match probe.layer {
        Layer::Landlock => landlock && (read_only || probe.id != 2),
        Layer::Seccomp => seccomp && (!writable || probe.id != 40),
        Layer::Process => true,
    })
}

/// Exactly the expected attempts, each with an expected result; otherwise what is wrong, one line each.
pub fn check(setup: &Setup, report: &[(u8, Outcome)]) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    for probe in expected(setup) {
        match report.iter().find(|(id, _)| *id == probe.id) {
            None => wrong.push(format!("{}: not attempted", probe.name)),
            Some((_, outcome)) if !probe.held(*outcome) => {
                wrong.push(format!("{} ({}): {}", probe.name, probe.attempt, describe(*outcome)));
            }
            Some(_) => {}
        }
    }
    if report.len() != expected(setup).count() {
        wrong.push("the report has attempts that nobody asked for".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// `EACCES`, `went through`, `holds`.
pub fn describe(outcome: Outcome) -> String {
    match outcome {
        WENT_THROUGH => "went through".into(),
        HOLDS => "holds".into(),
        errno => match Errno::from_raw_os_error(errno) {
            Errno::PERM => "EPERM".into(),
            Errno::ACCESS => "EACCES".into(),
            Errno::ROFS => "EROFS".into(),
            other => other.to_string(),
        },
    }
}

pub(super) fn fact(holds: bool) -> Outcome {
    if holds { HOLDS } else { WENT_THROUGH }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<u8> = probes().map(|probe| probe.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), probes().count());
    }

    #[test]
    fn an_attempt_that_goes_through_never_counts_as_held() {
        assert!(probes().all(|probe| !probe.held(WENT_THROUGH)));
    }
}
