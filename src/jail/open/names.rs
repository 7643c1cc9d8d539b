//! Runs in the worker: a list of names without an allocation per name. One arena holds kind byte, length byte and name of each,
//! beside a list of where each begins. Pure. Trusts its caller to bound the number of names.

use std::cmp::Ordering;

use crate::sys::fs::FileKind;

/// Kind and length in front of a name.
const HEADER_BYTES: usize = 2;

#[derive(Debug, Default)]
pub struct NameList {
    arena: Vec<u8>,
    starts: Vec<u32>,
}

impl NameList {
    pub fn push(&mut self, name: &[u8], kind: FileKind) {
        // Names have at most 255 bytes in the kernel, and callers bound an arena long before it reaches the size of a u32.
        let (Ok(len), Ok(start)) = (u8::try_from(name.len()), u32::try_from(self.arena.len())) else {
            return;
        };
        self.starts.push(start);
        self.arena.extend_from_slice(&[kind as u8, len]);
        self.arena.extend_from_slice(name);
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.arena.len() + self.starts.len() * size_of::<u32>()
    }

    pub fn name(&self, at: usize) -> &[u8] {
        name_at(&self.arena, self.starts[at])
    }

    pub fn kind(&self, at: usize) -> FileKind {
        kind_at(&self.arena, self.starts[at])
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], FileKind)> {
        self.starts.iter().map(|&start| (name_at(&self.arena, start), kind_at(&self.arena, start)))
    }

    /// Drops the names for which `keep` is false. Their memory stays in use until the next `compact`.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], FileKind) -> bool) {
        let arena = &self.arena;
        self.starts.retain(|&start| keep(name_at(arena, start), kind_at(arena, start)));
    }

    /// Sorts by bytes.
    pub fn sort(&mut self) {
        self.sort_after(0);
    }

    /// The name of this rank. Afterwards smaller names come before it and larger ones after it, neither in order.
    pub fn nth(&mut self, rank: usize) -> &[u8] {
        let arena = &self.arena;
        let by_name = |a: &u32, b: &u32| name_at(arena, *a).cmp(name_at(arena, *b));
        let (_, start, _) = self.starts.select_nth_unstable_by(rank, by_name);
        name_at(arena, *start)
    }

    /// Drops the `rank` smallest and sorts the rest: a page, not the folder.
    pub fn sort_after(&mut self, rank: usize) {
        if rank > 0 && rank < self.len() {
            self.nth(rank);
        }
        self.starts.drain(..rank.min(self.starts.len()));
        // The first bytes after the common prefix nearly always decide, and comparing them needs no access to the arena.
        let (arena, common) = (&self.arena, self.common_start());
        let first = |start: &u32| (first_bytes(&name_at(arena, *start)[common..]), *start);
        let mut keyed: Vec<(u64, u32)> = self.starts.iter().map(first).collect();
        keyed.sort_unstable_by(|a, b| match a.0.cmp(&b.0) {
            Ordering::Equal => name_at(arena, a.1).cmp(name_at(arena, b.1)),
            decided => decided,
        });
        self.starts.iter_mut().zip(keyed).for_each(|(start, (_, sorted))| *start = sorted);
    }

    /// Length of the longest common prefix of all names.
    fn common_start(&self) -> usize {
        let Some((first, _)) = self.iter().next() else { return 0 };
        let common = |common: usize, (name, _): (&[u8], FileKind)| {
            first[..common].iter().zip(name).take_while(|(a, b)| a == b).count()
        };
        self.iter().fold(first.len(), common)
    }

    /// Drops all but the `count` smallest; returns the largest of those, or None when nothing was dropped.
    pub fn keep_smallest(&mut self, count: usize) -> Option<Vec<u8>> {
        if count >= self.len() || count == 0 {
            return None;
        }
        let largest = self.nth(count - 1).to_vec();
        self.starts.truncate(count);
        self.compact();
        Some(largest)
    }

    /// Closes the gaps of dropped names, in place: a second arena would double the memory. Loses the order.
    fn compact(&mut self) {
        self.starts.sort_unstable();
        let mut end = 0;
        for start in &mut self.starts {
            let from = *start as usize;
            let len = HEADER_BYTES + usize::from(self.arena[from + 1]);
            self.arena.copy_within(from..from + len, end);
            // This cannot overflow: it is at most the old start, which was a u32.
            *start = end as u32;
            end += len;
        }
        self.arena.truncate(end);
    }

    /// Frees the memory of dropped names, and spare capacity.
    pub fn shrink(&mut self) {
        self.compact();
        self.arena.shrink_to_fit();
        self.starts.shrink_to_fit();
    }
}

fn name_at(arena: &[u8], start: u32) -> &[u8] {
    let start = start as usize;
    let from = start + HEADER_BYTES;
    &arena[from..from + usize::from(arena[start + 1])]
}

fn kind_at(arena: &[u8], start: u32) -> FileKind {
    let kind = arena[start as usize];
    let known = [FileKind::File, FileKind::Dir, FileKind::Symlink, FileKind::Fifo, FileKind::Socket, FileKind::Device];
    known.into_iter().find(|known| *known as u8 == kind).unwrap_or(FileKind::Unknown)
}

/// The first eight bytes as a number that compares like the names. No name has a NUL, so a shorter one comes first.
fn first_bytes(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(bytes.len());
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_survive_the_arena() {
        let kinds = [
            FileKind::File,
            FileKind::Dir,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::Device,
            FileKind::Unknown,
        ];
        let mut names = NameList::default();
        for (name, kind) in (b'a'..).zip(kinds) {
            names.push(&[name], kind);
        }
        assert_eq!((0..names.len()).map(|at| names.kind(at)).collect::<Vec<_>>(), kinds);
    }

    proptest! {
        #[test]
        fn sorting_is_by_bytes_and_loses_nothing(
            mut expected in proptest::collection::vec(proptest::collection::vec(1u8..=255, 1..12), 0..50),
            kept in 1u8..=255,
        ) {
            let mut names = NameList::default();
            expected.iter().for_each(|name| names.push(name, FileKind::File));
            names.retain(|name, _| name[0] <= kept);
            expected.retain(|name| name[0] <= kept);
            expected.sort();
            names.shrink();
            names.sort();
            let sorted: Vec<_> = (0..names.len()).map(|at| names.name(at).to_vec()).collect();
            prop_assert_eq!(sorted, expected);
        }
    }
}
