//! Leases: at most one writer per name among all clients of a supervisor, so that `if_match` has exactly one winner.
//! A lease ends when its worker says so or is gone; nobody else can end it, and nothing waits for ever.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// A name that is being written: the device and inode of its folder, and the rest of the path below it.
pub type Key = (u64, u64, Vec<u8>);

#[derive(Debug, Default)]
pub struct Leases {
    table: Mutex<Table>,
}

/// What the names of one worker may take in our memory. A thousand moves of the longest names there are take half; beyond
/// it is a worker that only collects.
const MOST_BYTES: usize = 16 << 20;
/// Of a lease besides its name.
const LEASE_BYTES: usize = 128;

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Key, Held>,
    /// Of each worker that holds any.
    bytes: HashMap<u64, usize>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    id: u64,
    worker: u64,
    call: u64,
    freed: Arc<Notify>,
}

impl Leases {
    /// Waits for the name until `deadline`; `None` then. A call that holds it already gets the same lease again.
    pub async fn acquire(&self, worker: u64, call: u64, key: &Key, deadline: Instant) -> Option<u64> {
        loop {
            let freed = match self.try_acquire(worker, call, key) {
                Ok(id) => return Some(id),
                Err(freed) => freed,
            };
            let mut notified = std::pin::pin!(freed.notified());
            // Another thread may free the name between the look and the wait: first in the queue, then look again.
            notified.as_mut().enable();
            match self.try_acquire(worker, call, key) {
                Ok(id) => return Some(id),
                // Somebody else was faster: what we queued for will not ring again.
                Err(now) if !Arc::ptr_eq(&now, &freed) => continue,
                Err(_) => {}
            }
            tokio::time::timeout_at(deadline.into(), notified).await.ok()?;
        }
    }

    /// The lease, or what tells when it may be tried again.
    pub fn try_acquire(&self, worker: u64, call: u64, key: &Key) -> Result<u64, Arc<Notify>> {
        let mut table = self.table();
        if let Some(lease) = table.held.get(key) {
            let own = lease.worker == worker && lease.call == call;
            return if own { Ok(lease.id) } else { Err(lease.freed.clone()) };
        }
        table.last += 1;
        let id = table.last;
        *table.bytes.entry(worker).or_default() += size(key);
        table.held.insert(key.clone(), Held { id, worker, call, freed: Arc::default() });
        Ok(id)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker whose calls could not all need what it holds.
    pub fn is_overdrawn(&self, worker: u64) -> bool {
        self.table().bytes.get(&worker).is_some_and(|bytes| *bytes > MOST_BYTES)
    }

    /// Only the worker that holds a lease can give it back; a number it does not hold is ignored.
    pub fn release(&self, worker: u64, ids: &[u64]) {
        self.drop_where(|lease| lease.worker == worker && ids.contains(&lease.id));
    }

    pub fn release_worker(&self, worker: u64) {
        self.drop_where(|lease| lease.worker == worker);
    }

    fn drop_where(&self, ends: impl Fn(&Held) -> bool) {
        let Table { held, bytes, .. } = &mut *self.table();
        held.retain(|key, lease| {
            let ended = ends(lease);
            if ended {
                let left = bytes.get(&lease.worker).map_or(0, |bytes| bytes.saturating_sub(size(key)));
                if left == 0 {
                    bytes.remove(&lease.worker);
                } else {
                    bytes.insert(lease.worker, left);
                }
                // Everybody who waits looks again; one of them finds the name free. One wake-up alone could meet
                // a waiter whose deadline passes at this very moment, and the rest would sleep on.
                lease.freed.notify_waiters();
            }
            !ended
        });
    }
}

fn size((_, _, name): &Key) -> usize {
    LEASE_BYTES + name.len()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        (1, 2, name.into())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_second_writer_waits_until_its_deadline_and_gets_nothing() {
        run(async {
            let leases = Leases::default();
            assert!(leases.acquire(1, 1, &key("a"), soon()).await.is_some());
            assert_eq!(leases.acquire(2, 1, &key("a"), soon()).await, None);
            assert!(leases.acquire(2, 1, &key("b"), soon()).await.is_some());
        });
    }

    #[test]
    fn one_of_many_waiting_writers_gets_a_freed_name() {
        run(async {
            let leases = Arc::new(Leases::default());
            let first = leases.acquire(1, 1, &key("a"), soon()).await.expect("free");
            let waiting: Vec<_> = (2..10)
                .map(|worker| {
                    let leases = leases.clone();
                    tokio::task::spawn_local(
                        async move { leases.acquire(worker, 1, &key("a"), soon()).await },
                    )
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
    fn a_worker_that_collects_names_is_noticed_and_one_that_gives_them_back_is_not() {
        let leases = Leases::default();
        let long = "n".repeat(4000);
        let mut taken = 0u64;
        while !leases.is_overdrawn(1) {
            taken += 1;
            leases.try_acquire(1, 1, &key(&format!("{long}{taken}"))).expect("free");
        }
        assert!((4000..5000).contains(&taken), "{taken}");
        assert!(!leases.is_overdrawn(2));
        leases.release_worker(1);
        for _ in 0..2 * taken {
            let id = leases.try_acquire(1, 1, &key(&long)).expect("free");
            leases.release(1, &[id]);
        }
        assert!(!leases.is_overdrawn(1));
        assert!(leases.table().bytes.is_empty(), "nothing is kept of who holds nothing");
    }

    #[test]
    fn a_worker_cannot_release_what_another_holds() {
        run(async {
            let leases = Leases::default();
            let id = leases.acquire(1, 1, &key("a"), soon()).await.expect("free");
            leases.release(2, &[id]);
            assert_eq!(leases.acquire(2, 1, &key("a"), soon()).await, None);
            leases.release_worker(1);
            assert!(leases.acquire(2, 1, &key("a"), soon()).await.is_some());
        });
    }
}
