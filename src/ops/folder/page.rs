//! Which names are on a page, without sorting or even holding the whole folder. Pure.
//!
//! Names go into one arena; whenever it is full, only the smallest are kept. A page far back in a folder whose names
//! exceed the arena takes several passes over the folder, each from where the one before ended: time instead of
//! memory, because memory is what a hostile folder would attack.

use crate::{jail::Names, sys::fs::Kind};

/// Bytes of names held at a time. A million ordinary names fit in one pass; the worst million takes a dozen.
const ARENA_BYTES: usize = 24 << 20;
/// Offsets into the arena are u32.
const MAX_ARENA_BYTES: usize = u32::MAX as usize / 2;
/// What the longest name takes in the arena and its index.
const MAX_ENTRY_BYTES: u64 = 255 + 2 + 4;
/// Names held beyond the page before the largest are dropped: keeps dropping rare and its cost linear.
const SLACK: usize = 4096;

/// One page of a folder in the making.
#[derive(Debug)]
pub(super) struct Page {
    len: u64,
    arena_bytes: usize,
    /// Names still to skip before the page, not counting those at or below `floor`.
    skip: u64,
    /// Everything up to this name was dealt with by earlier passes.
    floor: Option<Vec<u8>>,
    /// Names above this one cannot matter in this pass.
    ceiling: Option<Vec<u8>>,
    /// The ceiling was set for want of memory: there is more to know above it.
    is_short: bool,
    names: Names,
}

pub(super) enum Pass {
    /// The page lies further back: push every name again.
    Again,
    /// Sorted by bytes.
    Done(Names),
}

impl Page {
    /// The page of `len` names after the first `skip`.
    pub(super) fn new(skip: u64, len: u64) -> Self {
        // Half an arena always holds a whole page, also where the policy allows enormous ones.
        let page_bytes = len.saturating_mul(2 * MAX_ENTRY_BYTES);
        let page_bytes = usize::try_from(page_bytes).unwrap_or(usize::MAX).min(MAX_ARENA_BYTES);
        Self::with_arena(skip, len, ARENA_BYTES.max(page_bytes))
    }

    fn with_arena(skip: u64, len: u64, arena_bytes: usize) -> Self {
        Self { len, arena_bytes, skip, floor: None, ceiling: None, is_short: false, names: Names::default() }
    }

    pub(super) fn push(&mut self, name: &[u8], kind: Kind) {
        let is_done = self.floor.as_deref().is_some_and(|floor| name <= floor);
        let is_beyond = self.ceiling.as_deref().is_some_and(|ceiling| name > ceiling);
        if is_done || is_beyond {
            return;
        }
        self.names.push(name, kind);
        let needed = self.needed();
        if self.names.len() >= needed.saturating_mul(2).saturating_add(SLACK) {
            self.shrink_to(needed);
        } else if self.names.bytes() > self.arena_bytes {
            let half = self.names.len().div_ceil(2);
            self.is_short |= half < needed;
            self.shrink_to(half.min(needed));
        }
    }

    /// After every name of the folder was pushed.
    pub(super) fn end_pass(&mut self) -> Pass {
        let needed = self.needed();
        self.names.keep_smallest(needed);
        let mut names = std::mem::take(&mut self.names);
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        // A page that straddles two passes is read whole in the next one; half an arena holds it.
        let passed = skip.min(names.len());
        if self.is_short && names.len() < needed && passed > 0 {
            self.skip -= passed as u64;
            self.floor = Some(names.nth(passed - 1).to_vec());
            (self.ceiling, self.is_short) = (None, false);
            return Pass::Again;
        }
        names.sort_behind(skip);
        Pass::Done(names)
    }

    /// Names that this pass has to keep, if memory allows.
    fn needed(&self) -> usize {
        usize::try_from(self.skip.saturating_add(self.len)).unwrap_or(usize::MAX)
    }

    fn shrink_to(&mut self, count: usize) {
        if let Some(largest) = self.names.keep_smallest(count) {
            self.ceiling = Some(largest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(names: &[Vec<u8>], skip: u64, len: u64, arena_bytes: usize) -> (Vec<Vec<u8>>, u32) {
        let mut page = Page::with_arena(skip, len, arena_bytes);
        for passes in 1..10_000 {
            names.iter().for_each(|name| page.push(name, Kind::File));
            if let Pass::Done(found) = page.end_pass() {
                return (found.iter().map(|(name, _)| name.to_vec()).collect(), passes);
            }
        }
        panic!("a page is found after finitely many passes");
    }

    fn naive(names: &[Vec<u8>], skip: u64, len: u64) -> Vec<Vec<u8>> {
        let mut sorted = names.to_vec();
        sorted.sort();
        sorted.into_iter().skip(skip as usize).take(len as usize).collect()
    }

    proptest! {
        #[test]
        fn pages_are_those_of_the_sorted_folder(
            names in proptest::collection::hash_set(proptest::collection::vec(1u8..=255, 1..20), 0..200),
            skip in 0u64..250, len in 1u64..30, arena_bytes in 2000usize..4000,
        ) {
            let names: Vec<Vec<u8>> = names.into_iter().collect();
            prop_assert_eq!(page(&names, skip, len, arena_bytes).0, naive(&names, skip, len));
        }
    }

    /// A name per number, in an order that is neither sorted nor reversed.
    fn shuffled(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|i| format!("{:06}", i * 7919 % count).into_bytes()).collect()
    }

    #[test]
    fn a_first_page_holds_no_more_than_a_few_thousand_names() {
        let mut page = Page::new(0, 100);
        for name in shuffled(50_000) {
            page.push(&name, Kind::File);
            assert!(page.names.len() < 200 + SLACK);
        }
        let Pass::Done(found) = page.end_pass() else { panic!("one pass is enough") };
        assert_eq!((found.len(), found.name(99)), (100, &b"000099"[..]));
    }

    #[test]
    fn a_small_arena_costs_passes_and_not_memory() {
        let names = shuffled(20_000);
        let (found, passes) = page(&names, 19_990, 100, 64 << 10);
        assert_eq!(found, naive(&names, 19_990, 100));
        assert!((2..20).contains(&passes), "{passes} passes");
    }

    #[test]
    fn a_page_past_the_end_is_empty() {
        assert_eq!(page(&shuffled(10), u64::from(u32::MAX) * 1000, 1000, 4096).0, Vec::<Vec<u8>>::new());
    }
}
