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
    book: Weak<LeaseBook>,
}

type GiveBack = Box<dyn Fn(&[u64]) + Send + Sync>;

/// The leases of one worker, and how to release them.
pub struct LeaseBook {
    held: Mutex<BTreeMap<u64, Weak<Lease>>>,
    give_back: GiveBack,
}

impl LeaseBook {
    pub fn new(give_back: impl Fn(&[u64]) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { held: Mutex::default(), give_back: Box::new(give_back) })
    }

    pub fn lease(self: &Arc<Self>, id: u64) -> Arc<Lease> {
        let mut held = self.held();
        if let Some(lease) = held.get(&id).and_then(Weak::upgrade) {
            return lease;
        }
        let lease = Arc::new(Lease { id, book: Arc::downgrade(self) });
        held.insert(id, Arc::downgrade(&lease));
        lease
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Lease>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, ids: &[u64]) {
        let mut held = self.held();
        ids.iter().for_each(|id| drop(held.remove(id)));
        drop(held);
        (self.give_back)(ids);
    }
}

impl Lease {
    /// Like dropping them, but releases all with one message.
    pub fn give_back_together(leases: Vec<Arc<Lease>>) {
        let last: Vec<Lease> = leases.into_iter().filter_map(Arc::into_inner).collect();
        let Some(book) = last.first().and_then(|lease| lease.book.upgrade()) else { return };
        let ids: Vec<u64> = last.into_iter().map(Lease::forget).collect();
        book.end(&ids);
    }

    fn forget(mut self) -> u64 {
        self.book = Weak::new();
        self.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(book) = self.book.upgrade() {
            book.end(&[self.id]);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.id).finish()
    }
}

impl fmt::Debug for LeaseBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseBook").field("held", &self.held).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Given = Arc<Mutex<Vec<Vec<u64>>>>;

    fn book() -> (Arc<LeaseBook>, Given) {
        let given = Given::default();
        let kept = given.clone();
        (LeaseBook::new(move |ids| kept.lock().unwrap().push(ids.to_vec())), given)
    }

    #[test]
    fn a_name_asked_for_twice_is_given_back_once_and_last() {
        let (book, given) = book();
        let (first, second) = (book.lease(7), book.lease(7));
        drop(first);
        assert!(given.lock().unwrap().is_empty());
        drop(second);
        assert_eq!(*given.lock().unwrap(), [[7]]);
    }

    #[test]
    fn leases_given_back_together_are_one_message_and_one_that_is_still_held_stays() {
        let (book, given) = book();
        let kept = book.lease(3);
        Lease::give_back_together(vec![book.lease(1), book.lease(2), book.lease(3)]);
        assert_eq!(*given.lock().unwrap(), [[1, 2]]);
        drop(kept);
        assert_eq!(given.lock().unwrap().last(), Some(&vec![3]));
    }
}
