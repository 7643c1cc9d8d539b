//! One pass over a body, from front to back: some ranges are exchanged, all else is copied. Linear, and bounded while
//! it builds. Positions of interest are carried along.

use std::ops::Range;

use super::EditError;

pub(super) struct Splice<'b> {
    old: &'b [u8],
    /// Everything before it has been dealt with.
    taken: usize,
    out: Vec<u8>,
    max: usize,
    /// Bytes of a result that is too large. From then on nothing is built any more; callers go on for what they count.
    too_large_bytes: Option<u64>,
    /// Sorted, each with its place among the results.
    marks: Vec<(SpliceMark, usize)>,
    next_mark: usize,
    moved_marks: Vec<usize>,
}

/// A position of the old body that keeps to what it marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpliceMark {
    pub(super) at: usize,
    /// The end of a range, or its beginning: what is inserted at either stays outside of the range.
    pub(super) is_end: bool,
}

impl<'b> Splice<'b> {
    pub(super) fn new(old: &'b [u8], max: usize, marks: impl Iterator<Item = SpliceMark>) -> Self {
        let mut marks: Vec<(SpliceMark, usize)> = marks.zip(0..).collect();
        let moved = vec![0; marks.len()];
        marks.sort_unstable();
        Self { old, taken: 0, out: Vec::new(), max, too_large_bytes: None, marks, next_mark: 0, moved_marks: moved }
    }

    /// The result so far, for operations that need the text before. Incomplete once the result is too large.
    pub(super) fn built(&self) -> &[u8] {
        &self.out
    }

    /// Nothing that is pushed can make it fit again.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large_bytes.is_some()
    }

    /// Copies everything before `at`.
    pub(super) fn copy_to(&mut self, at: usize) {
        let (taken, built) = (self.taken, self.out.len());
        self.move_marks(|mark| mark.at < at, |mark| built + (mark.at - taken));
        let old = self.old;
        self.push(&old[taken..at]);
        self.taken = at;
    }

    /// Replaces `range` by what `write` pushes, and returns its range in the result. Ranges come in order and do not overlap.
    pub(super) fn replace(&mut self, range: Range<usize>, write: impl FnOnce(&mut Self)) -> Range<usize> {
        self.copy_to(range.start);
        let start = self.out.len();
        write(self);
        let end = self.out.len();
        self.move_marks(
            |mark| mark.at == range.start || mark.at < range.end,
            |mark| match mark.at == range.start && !range.is_empty() {
                true => start,
                false if range.is_empty() => {
                    if mark.is_end {
                        start
                    } else {
                        end
                    }
                }
                false => {
                    if mark.is_end {
                        end
                    } else {
                        start
                    }
                }
            },
        );
        self.taken = range.end;
        start..end
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.too_large_bytes.is_some() {
            return;
        }
        let bytes_then = self.out.len().saturating_add(bytes.len());
        if bytes_then > self.max || self.out.try_reserve(bytes.len()).is_err() {
            self.too_large_bytes = Some(bytes_then as u64);
            self.out = Vec::new();
            return;
        }
        self.out.extend_from_slice(bytes);
    }

    /// The new body and where the marks are in it, in the order they were given.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, Vec<usize>), EditError> {
        self.copy_to(self.old.len());
        let end = self.out.len();
        self.move_marks(|_| true, |_| end);
        match self.too_large_bytes {
            Some(bytes) => Err(EditError::TooLarge { bytes }),
            None => Ok((self.out, self.moved_marks)),
        }
    }

    fn move_marks(&mut self, concerns: impl Fn(SpliceMark) -> bool, to: impl Fn(SpliceMark) -> usize) {
        while let Some(&(mark, slot)) = self.marks.get(self.next_mark).filter(|(mark, _)| concerns(*mark)) {
            self.moved_marks[slot] = to(mark);
            self.next_mark += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(
        old: &[u8],
        max: usize,
        marks: &[SpliceMark],
        parts: &[(Range<usize>, &[u8])],
    ) -> Result<(Vec<u8>, Vec<usize>), EditError> {
        let mut splice = Splice::new(old, max, marks.iter().copied());
        for (range, new) in parts {
            splice.replace(range.clone(), |out| out.push(new));
        }
        splice.finish()
    }

    #[test]
    fn ranges_are_exchanged_and_all_else_is_copied() {
        let (out, _) = spliced(b"abcdef", 99, &[], &[(0..0, b"<"), (1..3, b""), (3..4, b"DD"), (6..6, b">")]).unwrap();
        assert_eq!(out, b"<aDDef>");
    }

    #[test]
    fn too_much_is_noticed_before_it_is_built() {
        assert_eq!(spliced(b"abc", 4, &[], &[(3..3, b"d")]).unwrap().0, b"abcd");
        assert_eq!(spliced(b"abc", 4, &[], &[(3..3, b"de")]), Err(EditError::TooLarge { bytes: 5 }));
        let mut splice = Splice::new(b"abc", 4, std::iter::empty());
        splice.replace(0..0, |out| (0..1_000_000).for_each(|_| out.push(&[b'x'; 1000])));
        assert!(splice.built().is_empty());
    }

    #[test]
    fn marks_keep_to_what_they_mark() {
        let start = |at| SpliceMark { at, is_end: false };
        let end = |at| SpliceMark { at, is_end: true };
        // In front of, inside and behind a range that is exchanged.
        let marks = [start(1), start(2), start(3), end(3), start(4), end(4), end(6), end(2)];
        let (_, moved) = spliced(b"abcdef", 99, &marks, &[(2..4, b"XYZ")]).unwrap();
        assert_eq!(moved, [1, 2, 2, 5, 5, 5, 7, 2]);
        // An insertion belongs neither to what ends there nor to what begins there.
        let (_, moved) = spliced(b"abcdef", 99, &[start(2), end(2), start(3)], &[(2..2, b"XYZ")]).unwrap();
        assert_eq!(moved, [5, 2, 6]);
    }
}
