//! Bytes of JSON that a reply may still take. Exact: it counts the bytes that will be written.

use std::io::{self, Write};

use serde::Serialize;

/// Bytes of the shortest possible node, with its comma: `{"name":"","kind":"dir","size":0,"mtime":0}` and a name. Limits how
/// many children can fit.
pub(super) const SHORTEST_NODE_BYTES: u64 = 45;
/// `,"children":[]`
pub(super) const CHILDREN_BYTES: u64 = 14;
/// `,"truncated":`
pub(super) const TRUNCATED_BYTES: u64 = 13;

#[derive(Debug)]
pub(super) struct TreeBudget {
    remaining: u64,
}

impl TreeBudget {
    /// `taken`: bytes that the reply has in any case.
    pub(super) fn new(total: u64, taken: u64) -> Self {
        Self { remaining: total.saturating_sub(taken) }
    }

    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Takes `bytes` if they fit and leave `spare` bytes. Otherwise returns false and takes nothing.
    pub(super) fn take(&mut self, bytes: u64, spare: u64) -> bool {
        let fits = bytes.checked_add(spare).is_some_and(|needed| needed <= self.remaining);
        if fits {
            self.remaining -= bytes;
        }
        fits
    }

    /// Takes bytes of a part that the reply must have, even if they do not fit.
    pub(super) fn take_anyway(&mut self, bytes: u64) {
        self.remaining = self.remaining.saturating_sub(bytes);
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        self.remaining = self.remaining.saturating_add(bytes);
    }
}

/// Bytes that `value` takes in a reply.
pub(super) fn json_len(value: &impl Serialize) -> u64 {
    struct ByteCounter(u64);
    impl Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Structs of texts and numbers always serialise; if one did not, it would never fit.
    serde_json::to_writer(&mut count, value).map_or(u64::MAX, |()| count.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::types::{list_folder::EntryKind, tree::TreeNode};

    #[test]
    fn no_node_is_shorter_than_the_shortest() {
        let mut node = TreeNode {
            name: "a".into(),
            name_bytes: None,
            kind: EntryKind::Dir,
            size: 0,
            mtime: 0,
            non_accessible: false,
            mount_point: false,
            children: None,
            truncated: None,
        };
        assert_eq!(json_len(&node) + 1, SHORTEST_NODE_BYTES);
        let bare = json_len(&node);
        node.children = Some(vec![]);
        assert_eq!(json_len(&node) - bare, CHILDREN_BYTES);
    }

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let mut budget = TreeBudget::new(100, 40);
        assert!(!budget.take(50, 11) && budget.take(50, 10));
        assert_eq!(budget.remaining(), 10);
        assert!(!budget.take(u64::MAX, 1));
        budget.take_anyway(20);
        assert_eq!(budget.remaining(), 0);
        budget.give_back(5);
        assert!(budget.take(5, 0));
    }
}
