//! The wildcards of git's ignore files: `?`, `*`, `[…]` within a name, `**` over folders. Bytes, not characters, as git
//! has it. The time is bounded by pattern times name: only the last star ever has to be tried again.

/// One name of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wildcard {
    /// None matches nothing: an unclosed bracket, a backslash at the end.
    tokens: Option<Vec<Token>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    Any,
    Star,
    Class(Box<ByteClass>),
}

/// The bytes of a bracket.
#[derive(Debug, Default, PartialEq, Eq)]
struct ByteClass {
    bits: [u64; 4],
    is_negated: bool,
}

impl ByteClass {
    fn add(&mut self, from: u8, to: u8) {
        (from..=to).for_each(|byte| self.bits[usize::from(byte >> 6)] |= 1 << (byte & 63));
    }

    fn has(&self, byte: u8) -> bool {
        let is_listed = self.bits[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0;
        is_listed != self.is_negated
    }
}

impl Wildcard {
    pub(super) fn parse(pattern: &[u8]) -> Self {
        Self { tokens: tokens(pattern) }
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let Some(tokens) = &self.tokens else { return false };
        let (mut token, mut at) = (0, 0);
        // The position after the last star, and where the name continues if that star matches one more byte.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match tokens.get(token) {
                Some(Token::Star) => {
                    token += 1;
                    retry = Some((token, at));
                    continue;
                }
                Some(one) if name.get(at).is_some_and(|byte| one.takes(*byte)) => {
                    (token, at) = (token + 1, at + 1);
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match &mut retry {
                Some((after, from)) if *from < name.len() => {
                    *from += 1;
                    (token, at) = (*after, *from);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::Any => true,
            Self::Class(class) => class.has(byte),
            Self::Star => false,
        }
    }
}

fn tokens(pattern: &[u8]) -> Option<Vec<Token>> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        tokens.push(match byte {
            b'*' if tokens.last() == Some(&Token::Star) => continue,
            b'*' => Token::Star,
            b'?' => Token::Any,
            b'[' => {
                let (class, len) = class(&pattern[at..])?;
                at += len;
                Token::Class(Box::new(class))
            }
            b'\\' => {
                at += 1;
                Token::Byte(*pattern.get(at - 1)?)
            }
            other => Token::Byte(other),
        });
    }
    Some(tokens)
}

/// Parses the text after a `[`: the class, and its length with the closing bracket.
fn class(text: &[u8]) -> Option<(ByteClass, usize)> {
    let mut class = ByteClass::default();
    let mut at = 0;
    if matches!(text.first(), Some(b'!' | b'^')) {
        class.is_negated = true;
        at = 1;
    }
    let first = at;
    // The byte before, as the beginning of a range.
    let mut before = None;
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            b']' if at - 1 > first => return Some((class, at)),
            b'\\' => {
                let byte = *text.get(at)?;
                at += 1;
                class.add(byte, byte);
                before = Some(byte);
            }
            b'-' if before.is_some() && !matches!(text.get(at), None | Some(b']')) => {
                let escaped = usize::from(text.get(at) == Some(&b'\\'));
                let to = *text.get(at + escaped)?;
                at += escaped + 1;
                class.add(before.take()?, to);
            }
            b'[' if text.get(at) == Some(&b':') => {
                let end = at + 1 + memchr::memchr(b']', &text[at + 1..])?;
                match text[at + 1..end].strip_suffix(b":") {
                    Some(name) => {
                        let is_in = named(name)?;
                        (0..=u8::MAX).filter(is_in).for_each(|byte| class.add(byte, byte));
                        at = end + 1;
                        before = None;
                    }
                    // No `:]`: an ordinary bracket among the others.
                    None => {
                        class.add(b'[', b'[');
                        before = Some(b'[');
                    }
                }
            }
            other => {
                class.add(other, other);
                before = Some(other);
            }
        }
    }
}

fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

/// A pattern with folders.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathWildcard {
    /// The literal text before the first wildcard, which is compared byte by byte. Git removes it before it matches the rest,
    /// so the rest may begin in the middle of a name: `foo**/x` is `foo` and `**/x`.
    prefix: Box<[u8]>,
    parts: Vec<PathPart>,
}

#[derive(Debug, PartialEq, Eq)]
enum PathPart {
    Name(Wildcard),
    /// `**` between slashes: any number of folders.
    Folders,
}

impl PathWildcard {
    /// Without the leading slash.
    pub(super) fn parse(pattern: &[u8]) -> Self {
        let plain = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        let (prefix, rest) = pattern.split_at(plain);
        let mut parts = Vec::new();
        for (part, is_escaped) in split(rest) {
            // More than two stars are two, as git has it.
            if part.len() < 2 || part.iter().any(|&byte| byte != b'*') {
                parts.push(PathPart::Name(Wildcard::parse(part)));
                continue;
            }
            // In front of an escaped slash, `**` means at least one folder.
            parts.extend(is_escaped.then(|| PathPart::Name(Wildcard::parse(b"*"))));
            parts.push(PathPart::Folders);
        }
        parts.dedup_by(|a, b| *a == PathPart::Folders && *b == PathPart::Folders);
        Self { prefix: prefix.into(), parts }
    }

    pub(super) fn matches(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(&*self.prefix) else { return false };
        let mut names = rest.split(|&byte| byte == b'/');
        if self.parts.iter().all(|part| *part != PathPart::Folders) {
            // Nearly always: name by name, and nothing is allocated.
            let fits = |part: &PathPart| match (part, names.next()) {
                (PathPart::Name(wildcard), Some(name)) => wildcard.matches(name),
                _ => false,
            };
            return self.parts.iter().all(fits) && names.next().is_none();
        }
        self.matches_over_folders(&names.collect::<Vec<_>>())
    }

    fn matches_over_folders(&self, names: &[&[u8]]) -> bool {
        let (mut part, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                // At the end, `**` means everything inside the folder, but not the folder itself.
                Some(PathPart::Folders) if part + 1 == self.parts.len() => return at < names.len(),
                Some(PathPart::Folders) => {
                    part += 1;
                    retry = Some((part, at));
                    continue;
                }
                Some(PathPart::Name(wildcard)) if names.get(at).is_some_and(|name| wildcard.matches(name)) => {
                    (part, at) = (part + 1, at + 1);
                    continue;
                }
                None if at == names.len() => return true,
                _ => {}
            }
            match &mut retry {
                Some((after, from)) if *from < names.len() => {
                    *from += 1;
                    (part, at) = (*after, *from);
                }
                _ => return false,
            }
        }
    }
}

/// At slashes, except those inside a bracket, which never match anything; and whether a backslash stood before the slash
/// that ends a part.
fn split(pattern: &[u8]) -> Vec<(&[u8], bool)> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < pattern.len() {
        match pattern[at] {
            b'/' => {
                parts.push((&pattern[from..at], false));
                from = at + 1;
            }
            b'\\' if pattern.get(at + 1) == Some(&b'/') => {
                parts.push((&pattern[from..at], true));
                at += 1;
                from = at + 1;
            }
            b'\\' => at += 1,
            b'[' => at += class(&pattern[at + 1..]).map_or(0, |(_, len)| len),
            _ => {}
        }
        at += 1;
    }
    parts.push((&pattern[from.min(pattern.len())..], false));
    parts
}
