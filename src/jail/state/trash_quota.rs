//! Keeps the trash within the policy's size: drops the oldest entries. Runs in the worker, once after each call that has put
//! something there. Counts and drops only entries that are verifiably ours, and none that the same call has made.

use std::{collections::HashSet, ops::ControlFlow};

use super::{
    state_folder::RootTop,
    trash::{RootTrash, VerifiedIds},
};
use crate::{
    jail::{Call, Jail},
    path::JailPath,
};

/// Entries in the trash of one root. The oldest are dropped beyond this number, too.
const MAX_ITEMS: usize = 10_000;

/// An entry that is verifiably ours.
struct VerifiedEntry<'t> {
    id: Vec<u8>,
    size_bytes: u64,
    trash: &'t RootTrash,
}

impl Jail {
    /// Drops the oldest entries until the trash is within its limits. `made` are the IDs that this call replies with; they stay.
    pub fn trim_trash(&self, made: &[&str]) {
        if made.is_empty() {
            return;
        }
        let call = Call::for_cleanup();
        let made: HashSet<&[u8]> = made.iter().map(|id| id.as_bytes()).collect();
        for root in self.writable_roots() {
            self.trim_trash_of(&call, &root, &made);
        }
    }

    fn trim_trash_of(&self, call: &Call, root: &JailPath, made: &HashSet<&[u8]>) -> Option<()> {
        let known = self.workspaces.known_folders(root.root());
        if known.is_empty() {
            return None;
        }
        let states = RootTop::of(self, call, root.root()).ok()?.open_known(known);
        let trashes = self.trashes_in(states, root);
        // Sums up by the names of the entries alone, without opening any. This includes planted entries, so the sum is never too
        // small: if it is within the limits, there is nothing to drop.
        let (mut total, mut count) = (0u64, 0usize);
        for trash in &trashes {
            let listed = trash.for_each(self, call, |_, name| {
                (total, count) = (total.saturating_add(name.size_bytes), count + 1);
                ControlFlow::Continue(())
            });
            listed.ok()?;
        }
        let max_bytes = self.settings.trash.max_bytes;
        if total <= max_bytes && count <= MAX_ITEMS {
            return Some(());
        }
        let mut entries = self.verified_entries(call, root, &trashes)?;
        (total, count) = (entries.iter().map(|entry| entry.size_bytes).fold(0, u64::saturating_add), entries.len());
        // An ID begins with the time of the delete.
        entries.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        for entry in entries.iter().filter(|entry| !made.contains(&entry.id[..])) {
            if total <= max_bytes && count <= MAX_ITEMS {
                break;
            }
            (total, count) = (total.saturating_sub(entry.size_bytes), count - 1);
            // Verify again: the entry may have been replaced since it was verified.
            if entry.trash.look_up(self, &entry.id).is_some() {
                entry.trash.remove(self, call, &entry.id);
            }
        }
        Some(())
    }

    fn verified_entries<'t>(
        &self,
        call: &Call,
        root: &JailPath,
        trashes: &'t [RootTrash],
    ) -> Option<Vec<VerifiedEntry<'t>>> {
        let mut known = self.workspaces.verified_ids(root.root());
        let mut verified = VerifiedIds::new();
        let mut entries = Vec::new();
        for trash in trashes {
            let listed = trash.for_each(self, call, |id, name| {
                if known.contains(id) || trash.look_up(self, id).is_some() {
                    verified.insert(id.to_vec());
                    entries.push(VerifiedEntry { id: id.to_vec(), size_bytes: name.size_bytes, trash });
                }
                ControlFlow::Continue(())
            });
            listed.ok()?;
        }
        *known = verified;
        Some(entries)
    }
}
