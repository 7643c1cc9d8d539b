//! For tests: the primitives of `std::sync` as `shuttle` has them, and a way to run code under many schedules of its
//! threads. A file that takes its primitives from `super::sync` can be compiled a second time with these.

use std::{cell::Cell, sync::LockResult, time::Duration};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::WaitTimeoutResult;
pub use shuttle::{
    sync::{Mutex, MutexGuard, atomic},
    thread,
};

thread_local! {
    /// The notification that is lost, counted from 1 in every run; 0 for none. All threads of a run share one thread of the system.
    static LOST: Cell<usize> = const { Cell::new(0) };
    static NOTIFICATIONS: Cell<usize> = const { Cell::new(0) };
}

/// A condition variable that may lose one notification, to show that a check can fail.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Never times out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        within: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.0.wait_timeout(guard, within)
    }

    pub fn notify_one(&self) {
        if !is_lost() {
            self.0.notify_one();
        }
    }

    pub fn notify_all(&self) {
        if !is_lost() {
            self.0.notify_all();
        }
    }
}

fn is_lost() -> bool {
    NOTIFICATIONS.set(NOTIFICATIONS.get() + 1);
    NOTIFICATIONS.get() == LOST.get()
}

/// How many schedules to try; `STOCKADE_SOAK_SCHEDULES` or this many.
pub fn schedules(otherwise: usize) -> usize {
    let given = std::env::var("STOCKADE_SOAK_SCHEDULES").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(otherwise)
}

/// Runs `scenario` under so many random schedules. Panics if the scenario panics or if all of its threads wait for ever.
pub fn explore(schedules: usize, scenario: fn()) {
    run(RandomScheduler::new(schedules), scenario, shuttle::FailurePersistence::Print);
}

/// Like `explore`, with schedules that change threads rarely, at unlikely places (PCT). They are unfair: a thread that waits in
/// a loop never ends.
pub fn explore_unfairly(schedules: usize, scenario: fn()) {
    run(PctScheduler::new(3, schedules), scenario, shuttle::FailurePersistence::Print);
}

/// Whether `explore` notices that this notification of each run is lost.
pub fn finds_lost_notification(which: usize, scenario: fn()) -> bool {
    let scenario = move || {
        LOST.set(which);
        scenario();
    };
    let explore = || run(RandomScheduler::new(100), scenario, shuttle::FailurePersistence::None);
    std::panic::catch_unwind(explore).is_err()
}

fn run(
    scheduler: impl Scheduler + 'static,
    scenario: impl Fn() + Send + Sync + 'static,
    persistence: shuttle::FailurePersistence,
) {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    config.failure_persistence = persistence;
    shuttle::Runner::new(scheduler, config).run(move || {
        LOST.set(0);
        NOTIFICATIONS.set(0);
        scenario();
    });
}
