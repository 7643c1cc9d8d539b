//! Leases: at most one writer per name among all clients of a supervisor, so that `if_match` has exactly one winner.
//! Runs in the supervisor, on the attendants and on the event loop. A lease ends when its worker releases it or ends. The leases
//! of a lost worker are kept until recovery has put their names in order; until then the names are unsettled. No wait is longer
//! than its deadline. Does not trust workers, which may ask for more names than any call needs.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::Notify;

use super::unsettled::{RecoveryStage, UnsettledNames};
use crate::sys::poll;

/// A name that is being written: the device and inode of its folder, and the rest of the path below it.
pub type LeaseKey = (u64, u64, Vec<u8>);

/// A name that a worker wants to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    pub key: LeaseKey,
    /// The absolute path of the name. If folders above the name are missing, the path of the first missing folder.
    pub path: Vec<u8>,
}

/// Memory of all leases of one worker. A batch of a thousand moves with names of a hundred bytes needs a quarter of it.
const MAX_WEIGHT_BYTES: usize = 4 << 20;
/// Memory of a lease without its name and path.
const LEASE_WEIGHT_BYTES: usize = 160;

#[derive(Debug, Default)]
pub struct Leases {
    table: Mutex<LeaseTable>,
    /// Some name is leased or unsettled. Without one, a read does not even lock the table.
    is_used: AtomicBool,
    /// Notified when names have been settled.
    settled: Notify,
}

#[derive(Debug, Default)]
struct LeaseTable {
    held: HashMap<Arc<LeaseKey>, HeldLease>,
    /// Workers that may hold leases. An entry exists from the start of a session until its end; that of a lost worker until its
    /// names are settled. A worker without an entry gets no lease.
    workers: HashMap<u64, LeasingWorker>,
    /// Names that recovery could not put in order, by the recovery that reported them.
    left_by_recoveries: HashMap<u64, Vec<Vec<u8>>>,
    /// Names that wait for a recovery. A change, which is rare, puts a new set here; `None` if there are none.
    unsettled: Option<Arc<UnsettledNames>>,
    last_id: u64,
}

#[derive(Debug)]
struct LeasingWorker {
    /// A hang-up shows that the worker is dead. `None` once the worker is lost, so that its descriptor can be closed.
    channel: Option<Arc<OwnedFd>>,
    /// It puts unsettled names in order, so it may change them.
    recovers: bool,
    /// Its leases, so that the cost of a release does not depend on the leases of other workers.
    keys: HashMap<u64, Arc<LeaseKey>>,
    weight_bytes: usize,
    /// Set once the worker is lost: its names are unsettled.
    lost_stage: Option<RecoveryStage>,
}

impl LeasingWorker {
    fn is_lost(&self) -> bool {
        self.lost_stage.is_some()
    }
}

#[derive(Debug)]
struct HeldLease {
    id: u64,
    worker: u64,
    call: u64,
    path: Vec<u8>,
    freed: Arc<Notify>,
}

impl Leases {
    /// Call this before the worker's first question. A hang-up of `channel` shows that the worker is dead.
    pub fn add_worker(&self, worker: u64, channel: Arc<OwnedFd>, recovers: bool) {
        let (channel, keys) = (Some(channel), HashMap::new());
        let added = LeasingWorker { channel, recovers, keys, weight_bytes: 0, lost_stage: None };
        self.table().workers.insert(worker, added);
    }

    /// Waits for the lease of a name. `None` after `deadline`. A call that holds the name already gets the same lease again.
    pub async fn acquire(&self, worker: u64, call: u64, name: &LeaseName, deadline: Instant) -> Option<u64> {
        loop {
            let freed = match self.try_acquire(worker, call, name) {
                Ok(id) => return Some(id),
                Err(freed) => freed?,
            };
            let mut notified = std::pin::pin!(freed.notified());
            // Another thread may free the name between the first try and the wait, so register for the wake-up, then try again.
            notified.as_mut().enable();
            match self.try_acquire(worker, call, name) {
                Ok(id) => return Some(id),
                // Another call got the name: the notifier that this call registered with is not used again.
                Err(now) if now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, &freed)) => continue,
                Err(_) => {}
            }
            tokio::time::timeout_at(deadline.into(), notified).await.ok()?;
        }
    }

    /// Returns the lease, or the notifier to wait for before the next try. `Err(None)`, which means never, for a worker that
    /// holds more than any call needs, is lost, or whose session has ended. A worker that recovers gets 0, which is no lease,
    /// for a lost worker's name.
    pub fn try_acquire(&self, worker: u64, call: u64, name: &LeaseName) -> Result<u64, Option<Arc<Notify>>> {
        let mut guard = self.table();
        let table = &mut *guard;
        let Some(asker) = table.workers.get(&worker).filter(|asker| !asker.is_lost()) else { return Err(None) };
        if let Some(lease) = table.held.get(&name.key) {
            let own = lease.worker == worker && lease.call == call;
            let holder_is_lost = || table.workers.get(&lease.worker).is_some_and(LeasingWorker::is_lost);
            return match own {
                true => Ok(lease.id),
                false if asker.recovers && holder_is_lost() => Ok(0),
                false => Err(Some(lease.freed.clone())),
            };
        }
        let weight_bytes = weight_bytes(&name.key, &name.path);
        let fits = |asker: &&mut LeasingWorker| asker.weight_bytes + weight_bytes <= MAX_WEIGHT_BYTES;
        let Some(asker) = table.workers.get_mut(&worker).filter(fits) else { return Err(None) };
        table.last_id += 1;
        let (id, key) = (table.last_id, Arc::new(name.key.clone()));
        asker.weight_bytes += weight_bytes;
        asker.keys.insert(id, key.clone());
        table.held.insert(key, HeldLease { id, worker, call, path: name.path.clone(), freed: Arc::default() });
        self.is_used.store(true, Ordering::Release);
        Ok(id)
    }

    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases leases of this worker. Ignores numbers that it does not hold.
    pub fn release(&self, worker: u64, ids: &[u64]) {
        let mut guard = self.table();
        let table = &mut *guard;
        if let Some(holder) = table.workers.get_mut(&worker).filter(|holder| !holder.is_lost()) {
            for id in ids {
                let Some(key) = holder.keys.remove(id) else { continue };
                holder.weight_bytes -= end_lease(&mut table.held, &key);
            }
        }
        self.update_is_used(table);
    }

    /// After an orderly end of the worker, which gets no more leases. `mark_dead_workers_lost` may have marked it as lost before.
    pub fn release_worker(&self, worker: u64) {
        let mut table = self.table();
        table.release_worker(worker);
        self.update_is_used(&table);
        drop(table);
        self.settled.notify_waiters();
    }

    fn update_is_used(&self, table: &LeaseTable) {
        self.is_used.store(!table.held.is_empty() || table.unsettled.is_some(), Ordering::Release);
    }

    /// Marks the worker as lost: the names that it holds are unsettled from here on, and it gets no more leases.
    pub fn mark_lost(&self, worker: u64) {
        self.table().mark_lost(worker);
    }

    /// The unsettled names that answers to `asker` must not show. Costs one atomic load while no name is leased or unsettled.
    /// Otherwise it first polls the channels of all lease holders, because a worker can be dead before its session knows.
    pub fn unsettled_names_for(&self, asker: u64) -> Option<Arc<UnsettledNames>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let mut table = self.table();
        if table.workers.get(&asker).is_some_and(|asker| asker.recovers) {
            return None;
        }
        table.mark_dead_workers_lost(asker);
        table.unsettled.clone()
    }

    /// Waits until no unsettled name `concerns` the asker, or until `deadline`.
    pub async fn wait_for_settled(&self, asker: u64, deadline: Instant, concerns: impl Fn(&UnsettledNames) -> bool) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Register for the wake-up before the check: names may be settled between the two.
            settled.as_mut().enable();
            let waits = self.unsettled_names_for(asker).is_some_and(|unsettled| concerns(&unsettled));
            if !waits || tokio::time::timeout_at(deadline.into(), settled).await.is_err() {
                return;
            }
        }
    }

    /// A number for `end_recovery`. Not a connection number, because those appear in the audit.
    pub fn begin_recovery(&self) -> u64 {
        let mut table = self.table();
        table.last_id += 1;
        table.last_id
    }

    /// After a failed attempt: the names of these lost workers stay unsettled.
    pub fn keep_unsettled(&self, workers: &[u64]) {
        let mut table = self.table();
        for worker in workers {
            if let Some(lost) = table.workers.get_mut(worker) {
                lost.lost_stage = Some(RecoveryStage::RunFailed);
            }
        }
        table.rebuild_unsettled();
    }

    /// After an attempt that reported: all names of these lost workers are in order, except those in `left_by_recoveries`.
    pub fn end_recovery(&self, workers: &[u64], recovery: u64, left: Vec<Vec<u8>>) {
        let mut table = self.table();
        workers.iter().for_each(|worker| table.release_worker(*worker));
        if left.is_empty() {
            table.left_by_recoveries.remove(&recovery);
        } else {
            table.left_by_recoveries.insert(recovery, left);
        }
        table.rebuild_unsettled();
        self.update_is_used(&table);
        drop(table);
        self.settled.notify_waiters();
    }
}

impl LeaseTable {
    fn release_worker(&mut self, worker: u64) {
        let Some(gone) = self.workers.remove(&worker) else { return };
        for key in gone.keys.values() {
            end_lease(&mut self.held, key);
        }
        if gone.is_lost() {
            self.rebuild_unsettled();
        }
    }

    /// Also marks a worker that holds nothing, because another thread may be acquiring its first lease right now.
    fn mark_lost(&mut self, worker: u64) {
        let Some(lost) = self.workers.get_mut(&worker).filter(|known| !known.is_lost()) else { return };
        lost.lost_stage = Some(RecoveryStage::FirstRunPending);
        lost.channel = None;
        if !lost.keys.is_empty() {
            self.rebuild_unsettled();
        }
    }

    /// Marks all holders of leases whose channel has hung up as lost. Does not poll the asker, which is alive because it asked.
    fn mark_dead_workers_lost(&mut self, asker: u64) {
        let is_dead = |(worker, known): &(&u64, &LeasingWorker)| {
            **worker != asker
                && !known.recovers
                && !known.keys.is_empty()
                && known.channel.as_ref().is_some_and(|channel| poll::is_hung_up(channel.as_fd()))
        };
        let dead: Vec<u64> = self.workers.iter().filter(is_dead).map(|(worker, _)| *worker).collect();
        dead.into_iter().for_each(|worker| self.mark_lost(worker));
    }

    fn rebuild_unsettled(&mut self) {
        let lost = self.workers.values().filter_map(|worker| Some((worker, worker.lost_stage?)));
        let names = lost.flat_map(|(worker, stage)| {
            let paths = worker.keys.values().filter_map(|key| self.held.get(key));
            paths.map(move |held| (held.path.clone(), stage))
        });
        let left = self.left_by_recoveries.values().flatten().map(|path| (path.clone(), RecoveryStage::RunFailed));
        self.unsettled = UnsettledNames::new(names.chain(left));
    }
}

/// Ends a lease and returns its weight.
fn end_lease(held: &mut HashMap<Arc<LeaseKey>, HeldLease>, key: &LeaseKey) -> usize {
    let Some(lease) = held.remove(key) else { return 0 };
    // Wakes all waiters; one of them gets the name. A single wake-up could go to a waiter whose deadline passes at this moment,
    // and the others would sleep on.
    lease.freed.notify_waiters();
    weight_bytes(key, &lease.path)
}

fn weight_bytes(key: &LeaseKey, path: &[u8]) -> usize {
    LEASE_WEIGHT_BYTES + key.2.len() + path.len()
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
