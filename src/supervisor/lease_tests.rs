use std::time::Duration;

use super::*;
use crate::{broker::Intent, sys::host};

/// With workers 1 to 9, which all live: the null device never hangs up.
fn leases() -> Leases {
    let leases = Leases::default();
    for worker in 1..10 {
        leases.add_worker(worker, Arc::new(host::open_null().expect("opens")), false);
    }
    leases
}

fn key(name: &str) -> LeaseName {
    LeaseName { key: (1, 2, name.into()), path: format!("/r/{name}").into_bytes() }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// Acquires leases on different names until the limit.
fn hoard(leases: &Leases, worker: u64) -> Vec<u64> {
    let name = |n| LeaseName { key: (1, worker, format!("{n}").into_bytes()), path: b"/r".to_vec() };
    (0..).map_while(|n| leases.try_acquire(worker, n, &name(n)).ok()).collect()
}

#[test]
fn a_second_writer_waits_until_its_deadline_and_gets_nothing() {
    run(async {
        let leases = leases();
        assert!(leases.acquire(1, 1, &key("a"), soon()).await.is_some());
        assert_eq!(leases.acquire(2, 1, &key("a"), soon()).await, None);
        assert!(leases.acquire(2, 1, &key("b"), soon()).await.is_some());
    });
}

#[test]
fn one_of_many_waiting_writers_gets_a_freed_name() {
    run(async {
        let leases = Arc::new(leases());
        let first = leases.acquire(1, 1, &key("a"), soon()).await.expect("free");
        let waiting: Vec<_> = (2..10)
            .map(|worker| {
                let leases = leases.clone();
                tokio::task::spawn_local(async move { leases.acquire(worker, 1, &key("a"), soon()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        leases.release(1, &[first]);
        let mut winners = 0;
        for task in waiting {
            winners += usize::from(task.await.expect("no panic").is_some());
        }
        assert_eq!(winners, 1);
    });
}

#[test]
fn a_worker_cannot_release_what_another_holds() {
    run(async {
        let leases = leases();
        let id = leases.acquire(1, 1, &key("a"), soon()).await.expect("free");
        leases.release(2, &[id]);
        assert_eq!(leases.acquire(2, 1, &key("a"), soon()).await, None);
        leases.release_worker(1);
        assert!(leases.acquire(2, 1, &key("a"), soon()).await.is_some());
    });
}

#[test]
fn a_call_that_asks_twice_has_one_lease_and_another_call_of_the_same_worker_waits() {
    let leases = leases();
    let id = leases.try_acquire(1, 1, &key("a")).expect("free");
    assert_eq!(leases.try_acquire(1, 1, &key("a")).expect("its own"), id);
    assert!(matches!(leases.try_acquire(1, 2, &key("a")), Err(Some(_))));
}

#[test]
fn a_worker_that_hoards_is_bounded_and_hurts_nobody_else() {
    run(async {
        let leases = leases();
        let ids = hoard(&leases, 1);
        assert!((2000..50_000).contains(&ids.len()), "a batch of a thousand moves fits: {}", ids.len());
        let start = Instant::now();
        let far = start + Duration::from_secs(60);
        assert_eq!(leases.acquire(1, 1, &key("one more"), far).await, None);
        assert!(start.elapsed() < Duration::from_secs(30), "it is told at once");
        assert!(leases.try_acquire(2, 1, &key("one more")).is_ok());
        leases.release(1, &ids[..1]);
        assert!(leases.try_acquire(1, 1, &key("another")).is_ok(), "what was given back can be taken again");
        leases.release_worker(1);
        leases.release_worker(2);
        let table = leases.table();
        assert!(table.held.is_empty() && !table.workers.contains_key(&1), "nothing is left of them: {table:?}");
    });
}

#[test]
fn long_names_weigh_what_they_take() {
    let leases = leases();
    let long = |n: u64| LeaseName { key: (1, n, vec![b'x'; 4096]), path: vec![b'x'; 4096] };
    let held = (0..).take_while(|n| leases.try_acquire(1, *n, &long(*n)).is_ok()).count();
    assert!(held * 2 * 4096 <= MAX_WEIGHT_BYTES, "{held}");
}

fn is_unsettled(leases: &Leases, asker: u64, name: &str) -> bool {
    let path = format!("/r/{name}");
    leases.unsettled_names_for(asker).is_some_and(|unsettled| unsettled.concerns(path.as_bytes(), Intent::Look))
}

/// A worker that has joined; the far end of its channel.
fn join(leases: &Leases, worker: u64, recovers: bool) -> OwnedFd {
    let (ours, theirs) = crate::sys::socket::message_pair().expect("a pair");
    leases.add_worker(worker, Arc::new(ours), recovers);
    theirs
}

#[test]
fn the_names_of_a_lost_worker_stay_leased_and_unsettled_until_they_are_settled() {
    run(async {
        let leases = leases();
        let id = leases.try_acquire(1, 1, &key("a")).expect("free");
        leases.try_acquire(2, 1, &key("b")).expect("free");
        assert!(!is_unsettled(&leases, 3, "a"));
        leases.mark_lost(1);
        leases.release(1, &[id]);
        assert!(is_unsettled(&leases, 3, "a") && !is_unsettled(&leases, 3, "b"));
        assert_eq!(leases.acquire(2, 1, &key("a"), soon()).await, None);
        assert!(matches!(leases.try_acquire(1, 1, &key("c")), Err(None)), "a lost worker gets no more");
        leases.keep_unsettled(&[1]);
        assert!(is_unsettled(&leases, 3, "a"));
        leases.end_recovery(&[1], 9, vec![b"/r/c".to_vec()]);
        assert!(!is_unsettled(&leases, 3, "a") && is_unsettled(&leases, 3, "c"));
        assert!(leases.try_acquire(2, 1, &key("a")).is_ok());
        leases.end_recovery(&[], 9, Vec::new());
        assert!(leases.unsettled_names_for(3).is_none());
    });
}

#[test]
fn a_writer_that_is_dead_is_lost_before_its_session_knows() {
    let leases = leases();
    let theirs = join(&leases, 1, false);
    leases.try_acquire(1, 1, &key("a")).expect("free");
    assert!(!is_unsettled(&leases, 2, "a"), "it lives");
    drop(theirs);
    assert!(is_unsettled(&leases, 2, "a"));
}

#[test]
fn recovery_may_change_what_lost_workers_hold_and_waits_for_the_living() {
    let leases = leases();
    let _channel = join(&leases, 7, true);
    leases.try_acquire(1, 1, &key("a")).expect("free");
    leases.try_acquire(2, 1, &key("b")).expect("free");
    leases.mark_lost(1);
    assert_eq!(leases.try_acquire(7, 0, &key("a")).expect("nobody else's"), 0);
    assert!(matches!(leases.try_acquire(7, 0, &key("b")), Err(Some(_))));
    assert!(leases.unsettled_names_for(7).is_none() && leases.unsettled_names_for(3).is_some());
}

#[test]
fn who_waits_for_a_name_goes_on_when_it_is_settled_or_at_the_deadline() {
    run(async {
        let leases = Arc::new(leases());
        leases.try_acquire(1, 1, &key("a")).expect("free");
        leases.mark_lost(1);
        let concerns = |unsettled: &UnsettledNames| unsettled.concerns(b"/r/a", Intent::Write);
        let start = Instant::now();
        leases.wait_for_settled(2, soon(), concerns).await;
        assert!(start.elapsed() >= Duration::from_millis(50), "until the deadline");
        let waits = leases.clone();
        let far = Instant::now() + Duration::from_secs(60);
        let waiting = tokio::task::spawn_local(async move { waits.wait_for_settled(2, far, concerns).await });
        tokio::task::yield_now().await;
        leases.end_recovery(&[1], 9, Vec::new());
        waiting.await.expect("no panic");
        assert!(start.elapsed() < Duration::from_secs(30), "not until the deadline");
    });
}

#[test]
fn a_lost_worker_gets_no_name_even_if_it_held_none() {
    let leases = leases();
    let _channel = join(&leases, 1, false);
    leases.mark_lost(1);
    assert!(leases.try_acquire(1, 1, &key("a")).is_err(), "it would be killed while it changes the name");
    leases.end_recovery(&[1], leases.begin_recovery(), Vec::new());
    assert!(!leases.table().workers.contains_key(&1));
}

/// A dead mount can delay the resolve of a question until the session of its worker has ended.
#[test]
fn a_worker_whose_session_has_ended_gets_no_lease() {
    let leases = leases();
    leases.try_acquire(2, 1, &key("b")).expect("free");
    leases.release_worker(1);
    assert!(matches!(leases.try_acquire(1, 1, &key("a")), Err(None)), "no session would release it");
    assert!(matches!(leases.try_acquire(1, 1, &key("b")), Err(None)), "it does not wait either");
    assert!(leases.try_acquire(2, 1, &key("a")).is_ok());
}
