use proptest::prelude::*;

use super::*;

type FrameResults = Vec<Result<Vec<u8>, FrameError>>;

fn feed(buffer: &mut FrameBuffer, mut bytes: &[u8], got: &mut FrameResults) {
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
fn split(bytes: &[u8], max_frame_bytes: usize) -> FrameResults {
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
        let mut got = FrameResults::new();
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
        let mut got = FrameResults::new();
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
        let mut got = FrameResults::new();
        feed(&mut FrameBuffer::new(5), format!("12345{end}").as_bytes(), &mut got);
        assert_eq!(got, [Ok(b"12345".to_vec())]);
        got.clear();
        feed(&mut FrameBuffer::new(5), format!("123456{end}1{end}").as_bytes(), &mut got);
        assert_eq!(got, [Err(FrameError::TooLarge { max_frame_bytes: 5 })]);
    }
}

/// The end of the long line may arrive together with the line or later.
#[test]
fn a_line_that_is_skipped_costs_no_other_line() {
    for chunk in [1, 3, 7, 100] {
        let mut buffer = FrameBuffer::new(5);
        let mut got = FrameResults::new();
        for part in b"1\n1234567890123\n2\n\n123456\n345\n".chunks(chunk) {
            feed(&mut buffer, part, &mut got);
            while got.last().is_some_and(Result::is_err) {
                got.pop();
                buffer.skip_frame();
                while let Some(line) = buffer.next() {
                    got.push(line.map(<[u8]>::to_vec));
                }
            }
        }
        assert_eq!(got, [Ok(b"1".to_vec()), Ok(b"2".to_vec()), Ok(b"345".to_vec())], "{chunk}");
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
    let mut later = FrameResults::new();
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
        while buffer.needs_reservation() {
            buffer.add_reserved_step();
            steps += 1;
        }
        let spare = buffer.spare_mut();
        assert!(!spare.is_empty(), "a read of nothing would look like the end of the stream");
        let n = spare.len().min(bytes.len());
        spare[..n].copy_from_slice(&bytes[..n]);
        buffer.filled(n);
        bytes = &bytes[n..];
        assert!(!buffer.has_frame() || bytes.is_empty());
        assert!(buffer.storage.capacity() <= UNRESERVED_BYTES + steps * STEP_BYTES);
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
        let mut buffer = FrameBuffer::with_reservations(max);
        let mut line = vec![b'x'; len];
        line.push(b'\n');
        assert_eq!(feed_in_steps(&mut buffer, &line), expected, "{len}");
        assert_eq!(buffer.next().map(|line| line.map(<[u8]>::len)), Some(Ok(len)));
        assert_eq!(buffer.shrink(), expected > 0, "{len}");
        assert!(buffer.storage.capacity() <= KEPT_BYTES);
        assert_eq!(feed_in_steps(&mut buffer, &line), expected, "as at first");
    }
    let mut buffer = FrameBuffer::with_reservations(max);
    assert_eq!(feed_in_steps(&mut buffer, &vec![b'x'; max + 1]), 4, "never more than the longest line needs");
    assert!(buffer.next().is_some_and(|line| line.is_err()));
    buffer.abandon();
    assert!(buffer.shrink() && buffer.storage.capacity() <= KEPT_BYTES, "what is dropped is given back, too");
}

#[test]
fn what_has_begun_survives_the_shrinking_behind_a_long_line() {
    for rest in [0, 1, 5_000, 200_000, 900_000] {
        let mut buffer = FrameBuffer::with_reservations(8 << 20);
        let long = [vec![b'x'; 6 << 20], vec![b'\n'], vec![b'y'; rest]].concat();
        while buffer.needs_reservation() || buffer.allowed_bytes < Some(8 << 20) {
            buffer.add_reserved_step();
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
        assert!(buffer.storage.capacity() <= UNRESERVED_BYTES);
        let end = buffer.spare_mut();
        end[0] = b'\n';
        buffer.filled(1);
        let expected = (rest > 0).then(|| Ok(vec![b'y'; rest]));
        assert_eq!(buffer.next().map(|line| line.map(<[u8]>::to_vec)), expected);
    }
}

#[test]
fn an_abandoned_line_leaves_nothing() {
    let mut buffer = FrameBuffer::with_reservations(8 << 20);
    feed_in_steps(&mut buffer, &vec![b'x'; 3 << 20]);
    buffer.abandon();
    assert!(buffer.shrink() && !buffer.needs_reservation());
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
        assert_eq!((buffer.start, buffer.scanned), (0, sent), "the next search begins where this one ended");
    }
    buffer.spare_mut()[0] = b'\n';
    buffer.filled(1);
    assert_eq!(buffer.next().unwrap().unwrap().len(), 100_000);
}
