//! Lines and their own terminators. Nothing here normalises: a line keeps what ends it.

use super::BOM;

/// What ends a line. A lone CR ends nothing.
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

    /// What the last line of `bytes` ends with.
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

/// The number of the line that holds byte `at`, 1-based. One past the end belongs to the line that would begin there.
pub fn number_at(body: &[u8], at: usize) -> u64 {
    1 + memchr::memchr_iter(b'\n', &body[..at]).count() as u64
}

/// Where the line that holds byte `at` begins.
pub fn start_at(body: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &body[..at]).map_or(0, |lf| lf + 1)
}

/// Where that line ends, its terminator included.
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
