//! Runs in the worker (client bytes) and in frontends (reply bytes).
//! Trusts nothing: the other side decides how bytes are cut, how long a line is and whether it ever ends.
//! Never holds more than the frame limit and one read, never looks at a byte twice, never copies a frame out.

use std::ops::Range;

/// What an idle connection costs, and what one read may bring beyond the frame limit.
pub const CHUNK_BYTES: usize = 16 << 10;

/// What is kept for the next long line; more is given back. Whoever sends one often sends another.
const KEPT_BYTES: usize = 256 << 10;

/// Below this a read is not worth its system call, so the buffer makes room first.
const MIN_SPARE_BYTES: usize = 4 << 10;

/// Only a buffer that was made with `in_steps` needs reservations for longer lines.
pub use crate::terms::LINE_STEP_BYTES as STEP_BYTES;

/// Buffer size without a reservation: a line of one step, and one read.
const FREE_BYTES: usize = STEP_BYTES + CHUNK_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Nothing after such a line can be trusted to be a line's beginning: answer, then close.
    #[error("a line is longer than {max_frame_bytes} bytes")]
    TooLarge { max_frame_bytes: usize },
}

/// Cuts a byte stream into lines. Read into `spare_mut`, say how much with `filled`, take lines with `next` until
/// `None`, repeat.
#[derive(Debug)]
pub struct FrameBuffer {
    /// Zeroed storage, so that a read can go straight into it without unsafe code.
    storage: Vec<u8>,
    /// First byte of the oldest line that has not been handed out.
    start: usize,
    /// No line feed lies in `start..scanned`; a byte-at-a-time sender costs no rescans.
    scanned: usize,
    end: usize,
    max_frame_bytes: usize,
    /// How large the buffer may become; grows with `allow_step`. `None` if only `max_frame_bytes` limits it.
    allowed_bytes: Option<usize>,
    /// After a line that was too long all further bytes are dropped.
    broken: bool,
}

impl FrameBuffer {
    pub fn new(max_frame_bytes: usize) -> Self {
        let storage = vec![0; CHUNK_BYTES];
        Self { storage, start: 0, scanned: 0, end: 0, max_frame_bytes, allowed_bytes: None, broken: false }
    }

    /// Like `new`, but lines longer than `STEP_BYTES` need a reservation: see `wants_step`.
    pub fn in_steps(max_frame_bytes: usize) -> Self {
        Self { allowed_bytes: Some(FREE_BYTES), ..Self::new(max_frame_bytes) }
    }

    /// For lines that have not been handed out yet.
    pub fn set_max_frame(&mut self, max_frame_bytes: usize) {
        self.max_frame_bytes = max_frame_bytes;
    }

    /// Whether the unfinished line fills the allowed buffer. Before the next read, reserve a step and call `allow_step`, or
    /// `abandon` the line: there is no room left to read into.
    pub fn wants_step(&self) -> bool {
        let allowed = self.allowed_bytes.filter(|allowed| *allowed < self.most_bytes());
        allowed.is_some_and(|allowed| !self.broken && self.buffered() + MIN_SPARE_BYTES > allowed)
    }

    pub fn allow_step(&mut self) {
        self.allowed_bytes = self.allowed_bytes.map(|allowed| allowed.saturating_add(STEP_BYTES));
    }

    /// Drops what is buffered, and all further bytes.
    pub fn abandon(&mut self) {
        self.broken = true;
        (self.start, self.scanned, self.end) = (0, 0, 0);
    }

    /// Frees the memory of lines that were returned. True if the reservation of all allowed steps can be released.
    pub fn shrink(&mut self) -> bool {
        if self.storage.len() <= KEPT_BYTES {
            return false;
        }
        let needed = self.buffered() + MIN_SPARE_BYTES;
        if needed > FREE_BYTES {
            return false;
        }
        let least = needed.max(CHUNK_BYTES).next_power_of_two();
        let wanted = if least <= KEPT_BYTES { least } else { FREE_BYTES };
        if wanted < self.storage.len() {
            self.move_to_front();
            self.storage.truncate(wanted);
            self.storage.shrink_to_fit();
        }
        let had_steps = self.allowed_bytes.is_some_and(|allowed| allowed > FREE_BYTES);
        self.allowed_bytes = self.allowed_bytes.map(|_| FREE_BYTES);
        had_steps
    }

    /// What the longest line needs.
    fn most_bytes(&self) -> usize {
        self.max_frame_bytes.saturating_add(CHUNK_BYTES)
    }

    /// Room for the next read. Empty only when lines that nobody has taken fill the buffer: a read of nothing
    /// would look like the end of the stream, so take them first.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        if self.broken {
            // Here and not where the error arises, so that `has_frame` can take its look back.
            (self.start, self.scanned, self.end) = (0, 0, 0);
        }
        if self.start == self.end || self.storage.len() - self.end < MIN_SPARE_BYTES {
            self.move_to_front();
            self.fit();
        }
        &mut self.storage[self.end..]
    }

    /// The first `n` bytes of `spare_mut` now hold data.
    pub fn filled(&mut self, n: usize) {
        debug_assert!(n <= self.storage.len() - self.end);
        if !self.broken {
            self.end = (self.end + n).min(self.storage.len());
        }
    }

    /// The next whole line, without its end. Empty lines are skipped.
    #[allow(clippy::should_implement_trait)] // a lending iterator: the line borrows the buffer
    pub fn next(&mut self) -> Option<Result<&[u8], FrameError>> {
        match self.take()? {
            Ok(line) => Some(Ok(&self.storage[line])),
            Err(e) => Some(Err(e)),
        }
    }

    /// Whether `next` has something. Decides if a second thread should be woken before a call is run inline.
    pub fn has_frame(&mut self) -> bool {
        let (start, scanned) = (self.start, self.scanned);
        match self.take() {
            // An error is given once, by `next`; looking ahead must not use it up.
            Some(Err(_)) => {
                self.broken = false;
                (self.start, self.scanned) = (start, scanned);
                true
            }
            Some(Ok(line)) => {
                (self.start, self.scanned) = (line.start, line.end);
                true
            }
            None => false,
        }
    }

    /// Bytes that belong to no line that was handed out. Not zero at the end of the stream: a line was cut off.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    fn take(&mut self) -> Option<Result<Range<usize>, FrameError>> {
        if self.broken {
            return None;
        }
        while let Some(at) = memchr::memchr(b'\n', &self.storage[self.scanned..self.end]) {
            let feed = self.scanned + at;
            let line = self.start..self.without_return(self.start..feed);
            if line.len() > self.max_frame_bytes {
                return Some(Err(self.too_large()));
            }
            (self.start, self.scanned) = (feed + 1, feed + 1);
            if !line.is_empty() {
                return Some(Ok(line));
            }
        }
        self.scanned = self.end;
        // A trailing carriage return may still turn out to belong to the line's end.
        if self.without_return(self.start..self.end) - self.start > self.max_frame_bytes {
            return Some(Err(self.too_large()));
        }
        None
    }

    fn without_return(&self, line: Range<usize>) -> usize {
        let ends_in_return = !line.is_empty() && self.storage[line.end - 1] == b'\r';
        line.end - usize::from(ends_in_return)
    }

    fn too_large(&mut self) -> FrameError {
        self.broken = true;
        FrameError::TooLarge { max_frame_bytes: self.max_frame_bytes }
    }

    /// A line moves at most once: afterwards it begins at 0 and stays there until it is taken. So all moves
    /// together copy no more bytes than were received.
    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.scanned -= self.start;
            self.start = 0;
        }
    }

    /// Doubles for a long line, falls back to one chunk when a very long one is gone. The two conditions exclude each
    /// other, so no sequence of frames makes the storage flutter.
    fn fit(&mut self) {
        if self.end + MIN_SPARE_BYTES <= CHUNK_BYTES {
            if self.storage.len() > KEPT_BYTES {
                self.storage.truncate(CHUNK_BYTES);
                self.storage.shrink_to_fit();
            }
        } else if self.storage.len() - self.end < MIN_SPARE_BYTES {
            let most = self.allowed_bytes.unwrap_or(usize::MAX).min(self.most_bytes());
            let wanted = self.storage.len().saturating_mul(2).min(most);
            if wanted > self.storage.len() {
                self.storage.reserve_exact(wanted - self.storage.len());
                self.storage.resize(wanted, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Frames = Vec<Result<Vec<u8>, FrameError>>;

    fn feed(buffer: &mut FrameBuffer, mut bytes: &[u8], got: &mut Frames) {
        while !bytes.is_empty() {
            let spare = buffer.spare_mut();
            assert!(!spare.is_empty(), "a drained buffer always has room");
            let n = spare.len().min(bytes.len());
            spare[..n].copy_from_slice(&bytes[..n]);
            buffer.filled(n);
            bytes = &bytes[n..];
            loop {
                let expected = buffer.has_frame();
                let next = buffer.next().map(|f| f.map(<[u8]>::to_vec));
                assert_eq!(expected, next.is_some());
                let Some(frame) = next else { break };
                got.push(frame);
            }
        }
    }

    /// The contract, written without any buffering.
    fn split(bytes: &[u8], max_frame_bytes: usize) -> Frames {
        let mut frames = Vec::new();
        let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        let unfinished = lines.pop().unwrap_or_default();
        let bare = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        for line in lines.iter().map(|l| bare(l)).filter(|l| !l.is_empty()) {
            if line.len() > max_frame_bytes {
                frames.push(Err(FrameError::TooLarge { max_frame_bytes }));
                return frames;
            }
            frames.push(Ok(line));
        }
        if bare(unfinished).len() > max_frame_bytes {
            frames.push(Err(FrameError::TooLarge { max_frame_bytes }));
        }
        frames
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..400),
            cuts in prop::collection::vec(1usize..40, 1..40),
            max_frame_bytes in 1usize..60,
        ) {
            let mut buffer = FrameBuffer::new(max_frame_bytes);
            let mut got = Frames::new();
            let (mut at, mut cut) = (0, cuts.iter().cycle());
            while at < text.len() {
                let next = (at + cut.next().unwrap()).min(text.len());
                feed(&mut buffer, &text[at..next], &mut got);
                at = next;
            }
            prop_assert_eq!(got, split(&text, max_frame_bytes));
        }

        #[test]
        fn long_lines_survive_growth_moves_and_shrinking(
            lengths in prop::collection::vec(prop_oneof![1usize..200, 1usize..60_000, 1usize..500_000], 1..12),
            chunk in 1000usize..40_000,
        ) {
            let text: Vec<u8> = lengths.iter().enumerate()
                .flat_map(|(i, n)| { let mut l = vec![b'a' + (i % 26) as u8; *n]; l.push(b'\n'); l }).collect();
            let mut buffer = FrameBuffer::new(512 << 10);
            let mut got = Frames::new();
            for part in text.chunks(chunk) {
                feed(&mut buffer, part, &mut got);
                prop_assert!(buffer.storage.len() <= (512 << 10) + CHUNK_BYTES);
            }
            prop_assert_eq!(got, split(&text, 512 << 10));
            buffer.spare_mut();
            prop_assert!(buffer.storage.capacity() <= KEPT_BYTES);
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
        for end in ["\n", "\r\n"] {
            let mut got = Frames::new();
            feed(&mut FrameBuffer::new(5), format!("12345{end}").as_bytes(), &mut got);
            assert_eq!(got, [Ok(b"12345".to_vec())]);
            got.clear();
            feed(&mut FrameBuffer::new(5), format!("123456{end}1{end}").as_bytes(), &mut got);
            assert_eq!(got, [Err(FrameError::TooLarge { max_frame_bytes: 5 })]);
        }
    }

    #[test]
    fn a_line_that_never_ends_is_refused_within_the_limit_and_one_read() {
        let max = 100 << 10;
        let mut buffer = FrameBuffer::new(max);
        let mut sent = 0;
        let refused = loop {
            let spare = buffer.spare_mut();
            spare.fill(b'x');
            let n = spare.len();
            buffer.filled(n);
            sent += n;
            if let Some(frame) = buffer.next() {
                break frame.is_err();
            }
            assert!(sent <= max);
        };
        assert!(refused && sent <= max + CHUNK_BYTES && buffer.storage.capacity() <= max + CHUNK_BYTES);
        let mut later = Frames::new();
        feed(&mut buffer, b"{}\n", &mut later);
        assert_eq!(later, [], "nothing after a refused line is a line");
    }

    #[test]
    fn lines_that_nobody_takes_leave_no_room_and_lose_nothing() {
        // The storage then ends with a line's end.
        let mut buffer = FrameBuffer::new(12);
        let mut lines = 0;
        while !buffer.spare_mut().is_empty() {
            let spare = buffer.spare_mut();
            let n = spare.len().min(4);
            spare[..n].copy_from_slice(&b"abc\n"[..n]);
            buffer.filled(n);
            lines += 1;
        }
        for _ in 0..lines {
            assert_eq!(buffer.next(), Some(Ok(&b"abc"[..])));
        }
        assert!(buffer.next().is_none() && buffer.buffered() == 0);
    }

    /// Feeds `bytes`, asking for steps; how many were needed.
    fn feed_in_steps(buffer: &mut FrameBuffer, mut bytes: &[u8]) -> usize {
        let mut steps = 0;
        while !bytes.is_empty() {
            while buffer.wants_step() {
                buffer.allow_step();
                steps += 1;
            }
            let spare = buffer.spare_mut();
            assert!(!spare.is_empty(), "a read of nothing would look like the end of the stream");
            let n = spare.len().min(bytes.len());
            spare[..n].copy_from_slice(&bytes[..n]);
            buffer.filled(n);
            bytes = &bytes[n..];
            assert!(!buffer.has_frame() || bytes.is_empty());
            assert!(buffer.storage.capacity() <= FREE_BYTES + steps * STEP_BYTES);
        }
        steps
    }

    #[test]
    fn a_line_up_to_one_step_needs_no_permission_and_a_longer_one_one_for_each_step() {
        let max = 5 << 20;
        for (len, expected) in [
            (1 << 10, 0),
            (STEP_BYTES, 0),
            (STEP_BYTES + CHUNK_BYTES, 1),
            (2 * STEP_BYTES, 1),
            (2 * STEP_BYTES + CHUNK_BYTES, 2),
            (max, 4),
        ] {
            let mut buffer = FrameBuffer::in_steps(max);
            let mut line = vec![b'x'; len];
            line.push(b'\n');
            assert_eq!(feed_in_steps(&mut buffer, &line), expected, "{len}");
            assert_eq!(buffer.next().map(|line| line.map(<[u8]>::len)), Some(Ok(len)));
            assert_eq!(buffer.shrink(), expected > 0, "{len}");
            assert!(buffer.storage.capacity() <= KEPT_BYTES);
            assert_eq!(feed_in_steps(&mut buffer, &line), expected, "as at first");
        }
        let mut buffer = FrameBuffer::in_steps(max);
        assert_eq!(
            feed_in_steps(&mut buffer, &vec![b'x'; max + 1]),
            4,
            "never more than the longest line needs"
        );
        assert!(buffer.next().is_some_and(|line| line.is_err()));
        buffer.abandon();
        assert!(
            buffer.shrink() && buffer.storage.capacity() <= KEPT_BYTES,
            "what is dropped is given back, too"
        );
    }

    #[test]
    fn what_has_begun_survives_the_shrinking_behind_a_long_line() {
        for rest in [0, 1, 5_000, 200_000, 900_000] {
            let mut buffer = FrameBuffer::in_steps(8 << 20);
            let long = [vec![b'x'; 6 << 20], vec![b'\n'], vec![b'y'; rest]].concat();
            while buffer.wants_step() || buffer.allowed_bytes < Some(8 << 20) {
                buffer.allow_step();
            }
            for part in long.chunks(700_001) {
                let mut part = part;
                while !part.is_empty() {
                    let spare = buffer.spare_mut();
                    let n = spare.len().min(part.len());
                    spare[..n].copy_from_slice(&part[..n]);
                    buffer.filled(n);
                    part = &part[n..];
                }
            }
            assert_eq!(buffer.next().map(|line| line.map(<[u8]>::len)), Some(Ok(6 << 20)));
            assert!(buffer.next().is_none() && buffer.shrink());
            assert!(buffer.storage.capacity() <= FREE_BYTES);
            let end = buffer.spare_mut();
            end[0] = b'\n';
            buffer.filled(1);
            let expected = (rest > 0).then(|| Ok(vec![b'y'; rest]));
            assert_eq!(buffer.next().map(|line| line.map(<[u8]>::to_vec)), expected);
        }
    }

    #[test]
    fn an_abandoned_line_leaves_nothing() {
        let mut buffer = FrameBuffer::in_steps(8 << 20);
        feed_in_steps(&mut buffer, &vec![b'x'; 3 << 20]);
        buffer.abandon();
        assert!(buffer.shrink() && !buffer.wants_step());
        assert!(buffer.next().is_none() && !buffer.has_frame());
        assert!(buffer.storage.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn a_single_byte_sender_is_scanned_once() {
        let mut buffer = FrameBuffer::new(1 << 20);
        for sent in 1..=100_000 {
            buffer.spare_mut()[0] = b'x';
            buffer.filled(1);
            assert!(!buffer.has_frame() && buffer.next().is_none());
            assert_eq!(
                (buffer.start, buffer.scanned),
                (0, sent),
                "the next search begins where this one ended"
            );
        }
        buffer.spare_mut()[0] = b'\n';
        buffer.filled(1);
        assert_eq!(buffer.next().unwrap().unwrap().len(), 100_000);
    }
}
