//! Lines and their own terminators. Nothing here normalises: a line keeps what ends it.

use super::BOM;

/// The terminator of a line. A CR without LF is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminator {
    Lf,
    CrLf,
}

impl Terminator {
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
        }
    }

    /// The terminator of the last line of `bytes`.
    pub fn at_end_of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [.., b'\r', b'\n'] => Some(Self::CrLf),
            [.., b'\n'] => Some(Self::Lf),
            _ => None,
        }
    }
}

/// The byte order mark, empty if there is none, and the lines.
pub fn split_bom(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mark = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    bytes.split_at(mark)
}

/// Without what ends it.
pub fn text_of(line: &[u8]) -> &[u8] {
    let end = Terminator::at_end_of(line).map_or(0, |end| end.bytes().len());
    &line[..line.len() - end]
}

/// Lines of a body without a byte order mark.
pub fn count(body: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', body).count() as u64 + u64::from(!body.is_empty() && !body.ends_with(b"\n"))
}

/// Newlines of a text, or None if it is binary: has a NUL. Both in one pass and by many bytes at a time, written so that the
/// compiler does that with any processor.
pub fn newlines_of_text(bytes: &[u8]) -> Option<u64> {
    const LANES: usize = 32;
    let (rows, rest) = bytes.as_chunks::<LANES>();
    let (mut newlines, mut least) = (0, [u8::MAX; LANES]);
    // A lane counts no further than a byte does.
    for block in rows.chunks(u8::MAX.into()) {
        let mut in_lane = [0u8; LANES];
        for row in block {
            for lane in 0..LANES {
                in_lane[lane] += u8::from(row[lane] == b'\n');
                least[lane] = least[lane].min(row[lane]);
            }
        }
        newlines += in_lane.map(u64::from).iter().sum::<u64>();
    }
    let is_text = !least.contains(&0) && !rest.contains(&0);
    is_text.then(|| newlines + memchr::memchr_iter(b'\n', rest).count() as u64)
}

/// The number of the line that holds byte `at`, 1-based. One past the end belongs to the line that would begin there.
pub fn number_at(body: &[u8], at: usize) -> u64 {
    1 + memchr::memchr_iter(b'\n', &body[..at]).count() as u64
}

/// The offset where the line that contains byte `at` begins.
pub fn start_at(body: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &body[..at]).map_or(0, |lf| lf + 1)
}

/// The offset where the line that contains byte `at` ends, including its terminator.
pub fn end_at(body: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |lf| at + lf + 1)
}

/// Each line with its terminator.
pub fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, more) = rest.split_at(end_at(rest, 0));
        rest = more;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_lf_or_with_the_file() {
        for (body, expected) in [
            (&b""[..], vec![]),
            (b"a", vec![&b"a"[..]]),
            (b"a\n", vec![b"a\n"]),
            (b"a\r\nb\rc\n\n", vec![b"a\r\n", b"b\rc\n", b"\n"]),
        ] {
            assert_eq!(lines(body).collect::<Vec<_>>(), expected);
            assert_eq!(count(body), expected.len() as u64);
        }
    }

    #[test]
    fn newlines_of_any_number_are_counted_and_a_nul_anywhere_is_seen() {
        // More rows than a lane can count, and a rest that fills none.
        for len in [0, 1, 31, 32, 33, 63, 64, 32 * 255, 32 * 256 + 7] {
            assert_eq!(newlines_of_text(&vec![b'\n'; len]), Some(len as u64));
            let mut text: Vec<u8> = (0..len).map(|at| [b'\n', b'a', 0xff, 1][at % 4]).collect();
            assert_eq!(newlines_of_text(&text), Some(len.div_ceil(4) as u64));
            for nul in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|nul| *nul < len) {
                let byte = std::mem::take(&mut text[nul]);
                assert_eq!(newlines_of_text(&text), None, "{nul} of {len}");
                text[nul] = byte;
            }
        }
    }

    #[test]
    fn a_terminator_is_lf_or_crlf_and_nothing_else() {
        for (line, text, end) in [
            (&b"a\n"[..], &b"a"[..], Some(Terminator::Lf)),
            (b"a\r\n", b"a", Some(Terminator::CrLf)),
            (b"a\r\r\n", b"a\r", Some(Terminator::CrLf)),
            (b"a\r", b"a\r", None),
            (b"\n", b"", Some(Terminator::Lf)),
        ] {
            assert_eq!((text_of(line), Terminator::at_end_of(line)), (text, end), "{line:?}");
        }
    }

    #[test]
    fn every_byte_is_in_one_line() {
        let body = b"ab\r\n\nc";
        for (at, number, start, end) in
            [(0, 1, 0, 4), (2, 1, 0, 4), (3, 1, 0, 4), (4, 2, 4, 5), (5, 3, 5, 6), (6, 3, 5, 6)]
        {
            let found = (number_at(body, at), start_at(body, at), end_at(body, at));
            assert_eq!(found, (number, start, end), "{at}");
        }
    }

    #[test]
    fn a_mark_belongs_to_no_line() {
        assert_eq!(split_bom(b"\xef\xbb\xbfa"), (BOM, &b"a"[..]));
        assert_eq!(split_bom(b"\xef\xbba"), (&b""[..], &b"\xef\xbba"[..]));
    }
}
