//! Runs in the worker: one pass over a folder that may have more names than fit into memory. Pure.
//!
//! A pass keeps the smallest names and drops the larger half whenever they take too much memory. The next pass begins after the
//! largest name of the one before. This takes more time but bounded memory, which a folder with very many names could otherwise
//! exhaust.

use crate::{jail::NameList, sys::fs::FileKind};

/// Names held beyond the needed ones before the largest are dropped: keeps dropping rare and its cost linear.
const SLACK: usize = 4096;

#[derive(Debug)]
pub struct Pass {
    names: NameList,
    /// Earlier passes have returned all names up to this one.
    after: Option<Vec<u8>>,
    /// Larger names cannot be among those that this pass keeps.
    ceiling: Option<Vec<u8>>,
    /// How many names the caller needs.
    needed: usize,
    max_bytes: usize,
    /// Names that the caller needs were dropped, because they did not fit into memory.
    is_short: bool,
}

impl Pass {
    /// A pass for the `needed` smallest names after `after`, or as many of them as fit into `max_bytes`.
    pub fn new(after: Option<Vec<u8>>, needed: usize, max_bytes: usize) -> Self {
        Self { names: NameList::default(), after, ceiling: None, needed, max_bytes, is_short: false }
    }

    /// Whether `push` should get this name.
    pub fn takes(&self, name: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| name > after)
            && self.ceiling.as_deref().is_none_or(|ceiling| name <= ceiling)
    }

    pub fn push(&mut self, name: &[u8], kind: FileKind) {
        self.names.push(name, kind);
        if self.names.len() >= self.needed.saturating_mul(2).saturating_add(SLACK) {
            self.keep_smallest(self.needed);
        } else if self.names.bytes() > self.max_bytes {
            let half = self.names.len().div_ceil(2);
            self.is_short |= half < self.needed;
            self.keep_smallest(half.min(self.needed));
            // The first name is always kept, so that every pass makes progress.
            self.max_bytes = self.max_bytes.max(self.names.bytes());
        }
    }

    fn keep_smallest(&mut self, count: usize) {
        if let Some(largest) = self.names.keep_smallest(count) {
            self.ceiling = Some(largest);
        }
    }

    /// Ends the pass after all names of the folder were pushed. Returns the names that were kept, in no order, and the largest of
    /// them if another pass is needed.
    pub fn end(mut self) -> (NameList, Option<Vec<u8>>) {
        self.names.keep_smallest(self.needed);
        let has_rest = self.is_short && self.names.len() < self.needed;
        (self.names, self.ceiling.filter(|_| has_rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_for_few_names_holds_no_more_than_a_few_thousand() {
        let mut pass = Pass::new(None, 100, usize::MAX);
        for number in 0..50_000 {
            // In an order that is neither sorted nor reversed.
            let name = format!("{:06}", number * 7919 % 50_000);
            if pass.takes(name.as_bytes()) {
                pass.push(name.as_bytes(), FileKind::File);
            }
            assert!(pass.names.len() < 200 + SLACK);
        }
        let (mut names, rest) = pass.end();
        names.sort();
        assert_eq!((names.len(), names.name(99), rest), (100, &b"000099"[..], None));
    }

    #[test]
    fn every_pass_gets_further_however_little_memory_it_has() {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let mut pass = Pass::new(after.take(), usize::MAX, 1);
            for name in b'a'..=b'j' {
                if pass.takes(&[name]) {
                    pass.push(&[name], FileKind::File);
                }
            }
            let (mut names, rest) = pass.end();
            names.sort();
            seen.extend(names.iter().map(|(name, _)| name[0]));
            match rest {
                Some(rest) => after = Some(rest),
                None => break,
            }
        }
        assert_eq!(seen, (b'a'..=b'j').collect::<Vec<_>>());
    }
}
