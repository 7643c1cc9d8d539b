//! Globs whose only wildcards are a leading `**/` or `*` and a trailing `*` or `/**`. Pure. Nearly all globs of policies are of
//! this form, and need no regex: 37 compiled ones made every process several hundred KiB larger.

use std::ops::Range;

/// Text at a certain place of a path, and what may follow it.
#[derive(Debug, Clone)]
pub(super) struct PlainGlob {
    place: Place,
    text: Box<[u8]>,
    then: Then,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// `TEXT`: the path begins with it.
    Top,
    /// `**/TEXT`: a name of the path begins with it.
    StartOfName,
    /// `*TEXT`, `**/*TEXT`: a name of the path ends with it, because a star crosses `/`.
    EndOfName,
}

/// Which paths a glob matches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// Those that it names.
    Itself,
    /// These and all below them.
    AndBelow,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    /// `TEXT`
    End,
    /// `TEXT*`
    Anything,
    /// `TEXT/**`
    Below,
}

impl PlainGlob {
    /// None for a glob of another form. `folded` is valid for globset and has no empty names.
    pub(super) fn new(folded: &str) -> Option<Self> {
        let (place, rest) = match (folded.strip_prefix("**/"), folded.strip_prefix('*')) {
            (Some(rest), _) => match rest.strip_prefix('*') {
                Some(rest) => (Place::EndOfName, rest),
                None => (Place::StartOfName, rest),
            },
            (None, Some(rest)) => (Place::EndOfName, rest),
            (None, None) => (Place::Top, folded),
        };
        let (text, then) = match (rest.strip_suffix("/**"), rest.strip_suffix('*')) {
            (Some(text), _) => (text, Then::Below),
            (None, Some(text)) => (text, Then::Anything),
            (None, None) => (rest, Then::End),
        };
        let is_plain = !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
        // `*TEXT*` may begin inside of a name.
        let is_known = is_plain && !matches!((place, then), (Place::EndOfName, Then::Anything));
        is_known.then(|| Self { place, text: text.as_bytes().into(), then })
    }

    /// Whether the glob matches the folded path because of this one of its names.
    pub(super) fn matches_at(&self, path: &[u8], name: &Range<usize>, reach: Reach) -> bool {
        let rest = match self.place {
            Place::Top if name.start > 0 => None,
            Place::Top | Place::StartOfName => path[name.start..].strip_prefix(&*self.text),
            Place::EndOfName => path[..name.end].ends_with(&self.text).then_some(&path[name.end..]),
        };
        rest.is_some_and(|rest| match (self.then, reach) {
            (Then::Anything, _) => true,
            (Then::Below, _) => rest.starts_with(b"/"),
            (Then::End, Reach::Itself) => rest.is_empty(),
            (Then::End, Reach::AndBelow) => matches!(rest, [] | [b'/', ..]),
        })
    }
}

/// The places of all names of a path, and of the empty one after a final `/`.
pub(super) fn names(path: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    memchr::memchr_iter(b'/', path).chain([path.len()]).map(move |end| {
        let name = start..end;
        start = end + 1;
        name
    })
}
