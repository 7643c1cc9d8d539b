//! Globs that a comparison of bytes decides. Pure. Nearly all globs of policies are of these forms, and a regex for each would make
//! every process of the service larger.

use std::ops::Range;

/// Text of plain characters. In globset's dialect a star crosses `/`.
#[derive(Debug, Clone)]
pub(super) enum PlainGlob {
    /// `**/TEXT`
    Name(Box<[u8]>),
    /// `**/TEXT*`
    Start(Box<[u8]>),
    /// `**/TEXT/**`
    Folder(Box<[u8]>),
    /// `**/*TEXT` and `*TEXT`
    End(Box<[u8]>),
}

type PlainGlobForm = fn(Box<[u8]>) -> PlainGlob;

impl PlainGlob {
    /// None for a glob of another form. `folded` is valid for globset and has no empty names.
    pub(super) fn new(folded: &str) -> Option<Self> {
        let is_plain = |text: &&str| !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
        let rest = folded.strip_prefix("**/").or_else(|| folded.starts_with('*').then_some(folded))?;
        let forms: [(Option<&str>, PlainGlobForm); 4] = [
            (rest.strip_prefix('*'), Self::End),
            (rest.strip_suffix("/**"), Self::Folder),
            (rest.strip_suffix('*'), Self::Start),
            (Some(rest), Self::Name),
        ];
        forms.into_iter().find_map(|(text, form)| Some(form(text.filter(is_plain)?.as_bytes().into())))
    }

    /// Whether the glob matches the folded path, or a folder above it, because of this one of its names.
    pub(super) fn hits(&self, path: &[u8], name: &Range<usize>) -> bool {
        let behind = |text: &[u8]| path[name.start..].strip_prefix(text);
        match self {
            Self::Name(text) => matches!(behind(text), Some([] | [b'/', ..])),
            Self::Start(text) => behind(text).is_some(),
            Self::Folder(text) => matches!(behind(text), Some([b'/', ..])),
            Self::End(text) => path[..name.end].ends_with(text),
        }
    }
}

/// The places of all names of a path, and of the empty one after a final `/`.
pub(super) fn names(path: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    memchr::memchr_iter(b'/', path).chain([path.len()]).map(move |end| std::mem::replace(&mut start, end + 1)..end)
}
