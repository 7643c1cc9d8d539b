//! Leases: at most one writer per name among all clients of a supervisor, so that `if_match` has exactly one winner.
//! A lease ends when its worker says so or is gone; nobody else can end it, and nothing waits for ever.
//! Does not trust: workers, who may ask for more names than any call needs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// A name that is being written: the device and inode of its folder, and the rest of the path below it.
pub type Key = (u64, u64, Vec<u8>);

/// What all leases of one worker may weigh. A batch of a thousand moves with names of a hundred bytes weighs an eighth.
const MAX_WEIGHT_BYTES: usize = 4 << 20;
/// What a lease weighs besides its name.
const LEASE_BYTES: usize = 160;

#[derive(Debug, Default)]
pub struct Leases {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Arc<Key>, Held>,
    /// The same leases by their holders: what one worker gives back costs nothing for each lease of another.
    holders: HashMap<u64, Holder>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    id: u64,
    worker: u64,
    call: u64,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Holder {
    keys: HashMap<u64, Arc<Key>>,
    weight_bytes: usize,
}

impl Leases {
    /// Waits for the name until `deadline`; `None` then. A call that holds it already gets the same lease again.
    pub async fn acquire(&self, worker: u64, call: u64, key: &Key, deadline: Instant) -> Option<u64> {
        loop {
            let freed = match self.try_acquire(worker, call, key) {
                Ok(id) => return Some(id),
                Err(freed) => freed?,
            };
            let mut notified = std::pin::pin!(freed.notified());
            // Another thread may free the name between the look and the wait: first in the queue, then look again.
            notified.as_mut().enable();
            match self.try_acquire(worker, call, key) {
                Ok(id) => return Some(id),
                // Somebody else was faster: what we queued for will not ring again.
                Err(now) if now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, &freed)) => continue,
                Err(_) => {}
            }
            tokio::time::timeout_at(deadline.into(), notified).await.ok()?;
        }
    }

    /// The lease, or what tells when it may be tried again; nothing does for a worker that holds more than any call needs.
    pub fn try_acquire(&self, worker: u64, call: u64, key: &Key) -> Result<u64, Option<Arc<Notify>>> {
        let mut table = self.table();
        if let Some(lease) = table.held.get(key) {
            let own = lease.worker == worker && lease.call == call;
            return if own { Ok(lease.id) } else { Err(Some(lease.freed.clone())) };
        }
        let id = table.last + 1;
        let holder = table.holders.entry(worker).or_default();
        if holder.weight_bytes + weight_bytes(key) > MAX_WEIGHT_BYTES {
            return Err(None);
        }
        let key = Arc::new(key.clone());
        holder.weight_bytes += weight_bytes(&key);
        holder.keys.insert(id, key.clone());
        table.held.insert(key, Held { id, worker, call, freed: Arc::default() });
        table.last = id;
        Ok(id)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the worker that holds a lease can give it back; a number it does not hold is ignored.
    pub fn release(&self, worker: u64, ids: &[u64]) {
        let mut table = self.table();
        for id in ids {
            let Some(holder) = table.holders.get_mut(&worker) else { return };
            let Some(key) = holder.keys.remove(id) else { continue };
            holder.weight_bytes -= weight_bytes(&key);
            if holder.keys.is_empty() {
                table.holders.remove(&worker);
            }
            table.free(&key);
        }
    }

    pub fn release_worker(&self, worker: u64) {
        let mut table = self.table();
        let Some(holder) = table.holders.remove(&worker) else { return };
        holder.keys.values().for_each(|key| table.free(key));
    }
}

impl Table {
    fn free(&mut self, key: &Key) {
        if let Some(lease) = self.held.remove(key) {
            // Everybody who waits looks again; one of them finds the name free. One wake-up alone could meet
            // a waiter whose deadline passes at this very moment, and the rest would sleep on.
            lease.freed.notify_waiters();
        }
    }
}

fn weight_bytes(key: &Key) -> usize {
    LEASE_BYTES + key.2.len()
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

    /// As many leases as it gets, on names of its own.
    fn hoard(leases: &Leases, worker: u64) -> Vec<u64> {
        let name = |n| (1, worker, format!("{n}").into_bytes());
        (0..).map_while(|n| leases.try_acquire(worker, n, &name(n)).ok()).collect()
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

    #[test]
    fn a_call_that_asks_twice_has_one_lease_and_another_call_of_the_same_worker_waits() {
        let leases = Leases::default();
        let id = leases.try_acquire(1, 1, &key("a")).expect("free");
        assert_eq!(leases.try_acquire(1, 1, &key("a")).expect("its own"), id);
        assert!(matches!(leases.try_acquire(1, 2, &key("a")), Err(Some(_))));
    }

    #[test]
    fn a_worker_that_hoards_is_bounded_and_hurts_nobody_else() {
        run(async {
            let leases = Leases::default();
            let ids = hoard(&leases, 1);
            assert!((2000..50_000).contains(&ids.len()), "a batch of a thousand moves fits: {}", ids.len());
            let start = Instant::now();
            let far = start + Duration::from_secs(60);
            assert_eq!(leases.acquire(1, 1, &key("one more"), far).await, None);
            assert!(start.elapsed() < Duration::from_secs(30), "it is told at once");
            assert!(leases.try_acquire(2, 1, &key("one more")).is_ok());
            leases.release(1, &ids[..1]);
            assert!(
                leases.try_acquire(1, 1, &key("another")).is_ok(),
                "what was given back can be taken again"
            );
            leases.release_worker(1);
            leases.release_worker(2);
            let table = leases.table();
            assert!(table.held.is_empty() && table.holders.is_empty(), "nothing is left of them: {table:?}");
        });
    }

    #[test]
    fn long_names_weigh_what_they_take() {
        let leases = Leases::default();
        let long = |n: u64| (1, n, vec![b'x'; 4096]);
        let held = (0..).take_while(|n| leases.try_acquire(1, *n, &long(*n)).is_ok()).count();
        assert!(held * 4096 <= MAX_WEIGHT_BYTES, "{held}");
    }
}
