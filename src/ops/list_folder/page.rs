//! Which names are on a page, without sorting or even holding the whole folder. Pure.
//!
//! A page far back in a folder whose names exceed the memory of one pass takes several passes over the folder.

use crate::{
    jail::{NameList, walk::Pass},
    ops::folder::pass_capacity,
};

/// One page of a folder in the making.
#[derive(Debug)]
pub(super) struct ListPage {
    len: u64,
    pass_bytes: usize,
    /// Names still to skip before the page, not counting those up to `after`.
    skip: u64,
    /// Earlier passes have dealt with all names up to this one.
    after: Option<Vec<u8>>,
}

impl ListPage {
    /// The page of `len` names after the first `skip`.
    pub(super) fn new(skip: u64, len: u64) -> Self {
        Self { len, pass_bytes: pass_capacity(len).1, skip, after: None }
    }

    /// The next pass over the folder. The caller offers it every name.
    pub(super) fn pass(&self) -> Pass {
        let needed = usize::try_from(self.skip.saturating_add(self.len)).unwrap_or(usize::MAX);
        Pass::new(self.after.clone(), needed, self.pass_bytes)
    }

    /// The names of the page, sorted by bytes. `None` if the page begins after the names of this pass, so that another pass
    /// is needed.
    pub(super) fn end_pass(&mut self, pass: Pass) -> Option<NameList> {
        let (mut names, rest) = pass.end();
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        // A page that is split between two passes is read completely in the next one; half a pass can hold it.
        let passed = skip.min(names.len());
        if rest.is_some() && passed > 0 {
            self.skip -= passed as u64;
            self.after = Some(names.nth(passed - 1).to_vec());
            return None;
        }
        names.sort_after(skip);
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sys::fs::FileKind;

    fn page(names: &[Vec<u8>], skip: u64, len: u64, pass_bytes: usize) -> (Vec<Vec<u8>>, u32) {
        let mut page = ListPage { pass_bytes, ..ListPage::new(skip, len) };
        for passes in 1..10_000 {
            let mut pass = page.pass();
            for name in names {
                if pass.takes(name) {
                    pass.push(name, FileKind::File);
                }
            }
            if let Some(found) = page.end_pass(pass) {
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
            skip in 0u64..250, len in 1u64..30, pass_bytes in 2000usize..4000,
        ) {
            let names: Vec<Vec<u8>> = names.into_iter().collect();
            prop_assert_eq!(page(&names, skip, len, pass_bytes).0, naive(&names, skip, len));
        }
    }

    /// A name per number, in an order that is neither sorted nor reversed.
    fn shuffled(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|i| format!("{:06}", i * 7919 % count).into_bytes()).collect()
    }

    #[test]
    fn little_memory_costs_passes() {
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
