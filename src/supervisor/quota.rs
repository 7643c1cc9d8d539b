//! Runs in the supervisor, on the event loop and on the attendants: counts how much each uid holds of a shared resource, such as
//! connections or memory for long lines. Trusts the uid, which the kernel reports. Never waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Units that are held, by uid.
#[derive(Debug, Default)]
pub struct UidQuota(Mutex<HashMap<u32, u64>>);

/// One unit. Dropping this value gives it back.
#[derive(Debug)]
pub struct QuotaShare {
    quota: Arc<UidQuota>,
    uid: u32,
}

impl UidQuota {
    pub fn is_full(&self, uid: u32, most: u64) -> bool {
        self.held().get(&uid).is_some_and(|count| *count >= most)
    }

    /// `None` if the uid holds all that it may.
    pub fn take(self: &Arc<Self>, uid: u32, most: u64) -> Option<QuotaShare> {
        let mut held = self.held();
        let count = held.get(&uid).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        held.insert(uid, count + 1);
        Some(QuotaShare { quota: self.clone(), uid })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut held = self.quota.held();
        match held.get_mut(&self.uid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(&self.uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_uid_has_its_own_share_and_gets_it_back() {
        let quota = Arc::<UidQuota>::default();
        let both = [quota.take(7, 2), quota.take(7, 2)];
        assert!(both.iter().all(Option::is_some) && quota.is_full(7, 2) && quota.take(7, 2).is_none());
        assert!(!quota.is_full(8, 2) && quota.take(8, 1).is_some());
        drop(both);
        assert!(quota.take(7, 1).is_some());
        assert!(quota.held().is_empty(), "nothing is left behind");
    }
}
