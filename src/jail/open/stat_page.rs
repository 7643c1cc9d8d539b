//! Runs in the worker: stats all entries of a page. A large page is shared with idle threads.
//! Does not trust the file system: a stat may never return. The call waits for no helper, so a helper that blocks in the kernel
//! costs the connection one thread and delays no reply. It closes its own descriptor of the folder when its stat returns.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    super::{Call, Crew, SharedWork, crew::Invitation},
    Dir, EntryStat, NameList,
};
use crate::{sys::fs::FileKind, wire::Result};

/// Entries of one share.
const SHARE_ENTRIES: usize = 32;
/// A smaller page is done before a helper is awake.
const MIN_SHARED_ENTRIES: usize = 512;

/// The call's thread works from the first share to the last, helpers from the last towards the first. The call's thread waits for
/// no helper: it does itself what no helper has finished when it gets there.
#[derive(Debug)]
struct SharedStats {
    dir: Arc<Dir>,
    names: Arc<NameList>,
    /// What helpers have found.
    shares: Vec<OnceLock<Vec<Option<EntryStat>>>>,
    /// The share that the call's thread has come to.
    reached: AtomicUsize,
    /// Shares at the end that helpers have taken.
    taken: AtomicUsize,
}

/// Calls `each` with the names in their order, each with its stat: None if it is gone or may not be examined.
pub fn stat_all(
    call: &Call,
    dir: &Arc<Dir>,
    names: &Arc<NameList>,
    mut each: impl FnMut(&[u8], FileKind, Option<EntryStat>),
) -> Result<()> {
    let is_shared = names.len() >= MIN_SHARED_ENTRIES && call.crew().size() > 0;
    let shares = if is_shared { names.len().div_ceil(SHARE_ENTRIES) } else { 0 };
    let looks = Arc::new(SharedStats {
        dir: Arc::clone(dir),
        names: Arc::clone(names),
        shares: std::iter::repeat_with(OnceLock::new).take(shares).collect(),
        reached: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
    });
    let _invitation = is_shared.then(|| Invitation::send(call.crew(), looks.clone()));
    for (at, (name, kind)) in names.iter().enumerate() {
        let (share, place) = (at / SHARE_ENTRIES, at % SHARE_ENTRIES);
        if place == 0 {
            // Helpers stop: nothing is left for them.
            call.checkpoint().inspect_err(|_| looks.reached.store(shares, Ordering::Relaxed))?;
            looks.reached.store(share, Ordering::Relaxed);
        }
        let found = looks.shares.get(share).and_then(|share| share.get());
        each(name, kind, found.map_or_else(|| dir.stat_entry(name), |found| found[place]));
    }
    Ok(())
}

impl SharedStats {
    fn next_for_helper(&self) -> Option<usize> {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let share = self.shares.len().checked_sub(taken + 1)?;
        (share > self.reached.load(Ordering::Relaxed)).then_some(share)
    }
}

impl SharedWork for SharedStats {
    fn help(&self, crew: &dyn Crew) -> bool {
        let mut own = None;
        while let Some(share) = self.next_for_helper() {
            // Each helper opens the folder itself: threads that share a descriptor slow each other down, because the kernel counts
            // its users with every call.
            let Some(dir) = own.take().or_else(|| self.dir.open_again().ok()) else { return false };
            let entries = share * SHARE_ENTRIES..self.names.len().min((share + 1) * SHARE_ENTRIES);
            let found = entries.map(|at| dir.stat_entry(self.names.name(at))).collect();
            // No other thread sets it, because each share is taken once.
            let _ = self.shares[share].set(found);
            if crew.is_needed_elsewhere() {
                return true;
            }
            own = Some(dir);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{jail::testing::TestJail, wire::Code};

    const ENTRIES: usize = MIN_SHARED_ENTRIES + 7;

    fn folder() -> (TestJail, Arc<Dir>, Arc<NameList>) {
        let test = TestJail::new();
        let mut names = NameList::default();
        for at in 0..ENTRIES {
            let name = format!("{at:04}");
            test.write(&name, "x".repeat(at));
            names.push(name.as_bytes(), FileKind::File);
        }
        let dir = Arc::new(test.open_dir("."));
        (test, dir, Arc::new(names))
    }

    fn sizes(call: &Call, dir: &Arc<Dir>, names: &Arc<NameList>) -> Result<Vec<(String, Option<u64>)>> {
        let mut sizes = Vec::new();
        stat_all(call, dir, names, |name, _, seen| {
            let size = seen.map(|seen| match seen {
                EntryStat::Entry(stat) => stat.size_bytes,
                EntryStat::MountPoint => panic!("nothing is mounted here"),
            });
            sizes.push((String::from_utf8(name.to_vec()).unwrap(), size));
        })?;
        Ok(sizes)
    }

    fn expected() -> Vec<(String, Option<u64>)> {
        (0..ENTRIES).map(|at| (format!("{at:04}"), Some(at as u64))).collect()
    }

    /// A helper that finishes its shares before the call's own thread begins. Then the folder is emptied, which shows whose results
    /// are used.
    #[derive(Debug)]
    struct Before(std::path::PathBuf);

    impl Crew for Before {
        fn size(&self) -> usize {
            1
        }

        fn invite(&self, work: Arc<dyn SharedWork>) {
            assert!(!work.help(self));
            (0..ENTRIES).for_each(|at| std::fs::remove_file(self.0.join(format!("{at:04}"))).unwrap());
        }

        fn dismiss(&self, _: &Arc<dyn SharedWork>) {}

        fn is_needed_elsewhere(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_a_helper_has_found_is_not_looked_at_again() {
        let (test, dir, names) = folder();
        let call = test.call().with_crew(Arc::new(Before(test.root().to_owned())));
        let mut all = expected();
        // The first share is always the call's own.
        all[..SHARE_ENTRIES].iter_mut().for_each(|(_, size)| *size = None);
        assert_eq!(sizes(&call, &dir, &names).unwrap(), all);
    }

    #[test]
    fn any_number_of_threads_finds_the_same() {
        let (test, dir, names) = folder();
        for helpers in [0, 1, 3, 20] {
            assert_eq!(sizes(&test.call_with_helpers(helpers), &dir, &names).unwrap(), expected());
        }
    }

    /// A helper that starts only when the call is done. It counts open invitations.
    #[derive(Debug, Default)]
    struct Late(AtomicUsize);

    impl Crew for Late {
        fn size(&self) -> usize {
            1
        }

        fn invite(&self, _: Arc<dyn SharedWork>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn dismiss(&self, work: &Arc<dyn SharedWork>) {
            assert!(!work.help(self));
            self.0.fetch_sub(1, Ordering::Relaxed);
        }

        fn is_needed_elsewhere(&self) -> bool {
            false
        }
    }

    #[test]
    fn nobody_is_waited_for_and_invitations_end_with_the_call() {
        let (test, dir, names) = folder();
        let crew = Arc::new(Late::default());
        let call = test.call().with_crew(crew.clone());
        assert_eq!(sizes(&call, &dir, &names).unwrap(), expected());
        let expired = test.expired_call().with_crew(crew.clone());
        assert_eq!(sizes(&expired, &dir, &names).unwrap_err().code, Code::Deadline);
        assert_eq!(crew.0.load(Ordering::Relaxed), 0);
    }
}
