//! Names whose change was interrupted and that recovery has not put in order yet: the names of a lost worker, and those
//! that recovery reported. Pure. Names are absolute paths without links, so that they mean the same in all profiles.

use std::{collections::BTreeMap, sync::Arc};

use crate::broker::Intent;

/// How far recovery of a name has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryStage {
    /// The first attempt has not ended; it usually takes milliseconds.
    FirstRunPending,
    /// An attempt has failed; the next ones may fail, too.
    RunFailed,
}

#[derive(Debug, PartialEq, Eq)]
pub struct UnsettledNames(BTreeMap<Vec<u8>, RecoveryStage>);

impl UnsettledNames {
    /// `None` if there are no names, which is the usual case.
    pub fn new(names: impl Iterator<Item = (Vec<u8>, RecoveryStage)>) -> Option<Arc<Self>> {
        let mut all = BTreeMap::new();
        for (name, stage) in names {
            let known = all.entry(name).or_insert(stage);
            *known = stage.min(*known);
        }
        (!all.is_empty()).then(|| Arc::new(Self(all)))
    }

    /// True if the answer for `path` could show or disturb an interrupted change: for an unsettled name and everything below
    /// it; for the folders above it if the intent is a change, and for listings and searches until the first attempt has
    /// ended. Otherwise one name that cannot be put in order would block its whole folder.
    pub fn concerns(&self, path: &[u8], intent: Intent) -> bool {
        let above = memchr::memchr_iter(b'/', path).map(|slash| &path[..slash]);
        if above.chain([path]).any(|name| self.0.contains_key(name)) {
            return true;
        }
        let folder = [path, b"/"].concat();
        let mut below = self.0.range(folder.clone()..).take_while(|(name, _)| name.starts_with(&folder));
        match intent {
            Intent::Look => false,
            Intent::Read => below.any(|(_, stage)| *stage == RecoveryStage::FirstRunPending),
            Intent::Write | Intent::Create | Intent::Edit => below.next().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsettled(names: &[(&str, RecoveryStage)]) -> Arc<UnsettledNames> {
        UnsettledNames::new(names.iter().map(|(name, stage)| (name.as_bytes().to_vec(), *stage))).expect("names")
    }

    #[test]
    fn a_name_concerns_itself_what_is_below_it_and_changes_and_listings_above_it() {
        let unsettled = unsettled(&[("/r/d/x", RecoveryStage::FirstRunPending)]);
        for (path, look, read, change) in [
            ("/r/d/x", true, true, true),
            ("/r/d/x/below", true, true, true),
            ("/r/d", false, true, true),
            ("/r", false, true, true),
            ("/r/d/x2", false, false, false),
            ("/r/d/x.y", false, false, false),
            ("/r/d2", false, false, false),
            ("/r/e", false, false, false),
        ] {
            assert_eq!(unsettled.concerns(path.as_bytes(), Intent::Look), look, "look {path}");
            assert_eq!(unsettled.concerns(path.as_bytes(), Intent::Read), read, "read {path}");
            for intent in [Intent::Write, Intent::Create, Intent::Edit] {
                assert_eq!(unsettled.concerns(path.as_bytes(), intent), change, "{intent:?} {path}");
            }
        }
    }

    #[test]
    fn listings_above_are_let_through_once_every_name_below_was_tried() {
        let tried = unsettled(&[("/r/x", RecoveryStage::RunFailed)]);
        assert!(!tried.concerns(b"/r", Intent::Read));
        assert!(tried.concerns(b"/r/x", Intent::Read) && tried.concerns(b"/r", Intent::Write));
        let both = unsettled(&[("/r/x", RecoveryStage::RunFailed), ("/r/y", RecoveryStage::FirstRunPending)]);
        assert!(both.concerns(b"/r", Intent::Read));
        let same = unsettled(&[("/r/x", RecoveryStage::FirstRunPending), ("/r/x", RecoveryStage::RunFailed)]);
        assert!(same.concerns(b"/r", Intent::Read), "one of two interrupted changes is untried");
    }

    #[test]
    fn a_whole_root_concerns_all_its_names() {
        assert!(unsettled(&[("/r", RecoveryStage::RunFailed)]).concerns(b"/r/a/b", Intent::Look));
        assert!(unsettled(&[("", RecoveryStage::RunFailed)]).concerns(b"/a", Intent::Look), "the root is /");
        assert_eq!(UnsettledNames::new(std::iter::empty()), None);
    }
}
