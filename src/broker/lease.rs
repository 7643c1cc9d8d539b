//! Runs in the worker: the right to change a name. A lease is released when its last value is dropped, on every path out of a call;
//! a lease that is not released would make all other clients wait.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// Shared by all values of one call that hold the same name: the supervisor grants a call that asks twice one lease.
pub struct Lease {
    id: u64,
    leases: Weak<WorkerLeases>,
}

type ReleaseHandler = Box<dyn Fn(&[u64]) + Send + Sync>;

/// The leases of one worker, and how to release them.
pub struct WorkerLeases {
    held: Mutex<BTreeMap<u64, Weak<Lease>>>,
    release_handler: ReleaseHandler,
}

impl WorkerLeases {
    pub fn new(give_back: impl Fn(&[u64]) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { held: Mutex::default(), release_handler: Box::new(give_back) })
    }

    pub fn register_lease(self: &Arc<Self>, id: u64) -> Arc<Lease> {
        let mut held = self.held();
        if let Some(lease) = held.get(&id).and_then(Weak::upgrade) {
            return lease;
        }
        let lease = Arc::new(Lease { id, leases: Arc::downgrade(self) });
        held.insert(id, Arc::downgrade(&lease));
        lease
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Lease>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_ids(&self, ids: &[u64]) {
        let mut held = self.held();
        ids.iter().for_each(|id| drop(held.remove(id)));
        drop(held);
        (self.release_handler)(ids);
    }
}

impl Lease {
    /// Like dropping them, but releases all with one message.
    pub fn release_together(leases: Vec<Arc<Lease>>) {
        let last: Vec<Lease> = leases.into_iter().filter_map(Arc::into_inner).collect();
        let Some(book) = last.first().and_then(|lease| lease.leases.upgrade()) else { return };
        let ids: Vec<u64> = last.into_iter().map(Lease::into_id).collect();
        book.release_ids(&ids);
    }

    fn into_id(mut self) -> u64 {
        self.leases = Weak::new();
        self.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(book) = self.leases.upgrade() {
            book.release_ids(&[self.id]);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.id).finish()
    }
}

impl fmt::Debug for WorkerLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseBook").field("held", &self.held).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type ReleasedIds = Arc<Mutex<Vec<Vec<u64>>>>;

    fn book() -> (Arc<WorkerLeases>, ReleasedIds) {
        let given = ReleasedIds::default();
        let kept = given.clone();
        (WorkerLeases::new(move |ids| kept.lock().unwrap().push(ids.to_vec())), given)
    }

    #[test]
    fn a_name_asked_for_twice_is_given_back_once_and_last() {
        let (book, given) = book();
        let (first, second) = (book.register_lease(7), book.register_lease(7));
        drop(first);
        assert!(given.lock().unwrap().is_empty());
        drop(second);
        assert_eq!(*given.lock().unwrap(), [[7]]);
    }

    #[test]
    fn leases_given_back_together_are_one_message_and_one_that_is_still_held_stays() {
        let (book, given) = book();
        let kept = book.register_lease(3);
        Lease::release_together(vec![book.register_lease(1), book.register_lease(2), book.register_lease(3)]);
        assert_eq!(*given.lock().unwrap(), [[1, 2]]);
        drop(kept);
        assert_eq!(given.lock().unwrap().last(), Some(&vec![3]));
    }
}
