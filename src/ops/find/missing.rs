//! Runs in the worker, on the call's thread and its helpers: names that do not exist as they were sent and are looked for at any
//! depth, and names near them for the error if that finds nothing. Sees only entries that the walk shows.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use crate::{ops::near::MAX_NEAR, wire::nearest::NearNames};

/// Entries that are compared with the missing names: a fraction of a second.
const MAX_COMPARED: u32 = 50_000;

#[derive(Debug)]
pub(super) struct MissingNames {
    names: Vec<MissingName>,
    compared: AtomicU32,
}

#[derive(Debug)]
struct MissingName {
    sent: String,
    is_found: AtomicBool,
    near: Mutex<Option<NearNames>>,
}

impl MissingNames {
    /// None if there are none.
    pub(super) fn new(sent: &[String]) -> Option<Self> {
        let missing = |sent: &String| MissingName {
            sent: sent.clone(),
            is_found: AtomicBool::new(false),
            near: Mutex::new(NearNames::new(sent, MAX_NEAR)),
        };
        (!sent.is_empty()).then(|| Self { names: sent.iter().map(missing).collect(), compared: AtomicU32::new(0) })
    }

    /// Takes note of an entry, by its name and its path below the folder of the walk.
    pub(super) fn compare(&self, name: &[u8], below: &[u8]) {
        for missing in self.names.iter().filter(|missing| !missing.is_found.load(Relaxed)) {
            if missing.sent.as_bytes() == name {
                missing.is_found.store(true, Relaxed);
            } else if self.compared.fetch_add(1, Relaxed) < MAX_COMPARED
                && let (Ok(name), Ok(below)) = (std::str::from_utf8(name), std::str::from_utf8(below))
                && let Some(near) = &mut *missing.near.lock().unwrap_or_else(PoisonError::into_inner)
            {
                near.offer(name, || below.to_owned());
            }
        }
    }

    /// The names that were not found, each with those near it.
    pub(super) fn not_found(&self) -> Vec<(String, Vec<String>)> {
        let missing = self.names.iter().filter(|missing| !missing.is_found.load(Relaxed));
        let near = |missing: &MissingName| {
            let near = missing.near.lock().unwrap_or_else(PoisonError::into_inner).take();
            near.map_or_else(Vec::new, NearNames::into_names)
        };
        missing.map(|missing| (missing.sent.clone(), near(missing))).collect()
    }
}
