//! One ignore file (`.gitignore`, `.ignore`, `.git/info/exclude`) by git's own rules.
//!
//! Not the `ignore` crate's matcher: it reads `{a,b}` as a choice where git does not, asks the system for its number of
//! CPUs at every file, and comes with a walker that opens by path. tests/functions/search/ignore.rs compares this one with git itself.

mod wildcard;

use std::collections::HashMap;

use self::wildcard::{PathWildcard, Wildcard};
use super::BOM;

/// The rules of one ignore file, for names below its folder.
#[derive(Debug, Default)]
pub struct IgnoreRules {
    rules: Vec<IgnoreRule>,
    /// Rules that are one plain name, which most are: their numbers, ascending.
    by_name: HashMap<Box<[u8]>, Vec<u32>>,
    /// All others, ascending.
    others: Vec<u32>,
}

#[derive(Debug)]
struct IgnoreRule {
    pattern: IgnorePattern,
    is_negated: bool,
    for_folders: bool,
}

#[derive(Debug)]
enum IgnorePattern {
    /// Found through `by_name`.
    PlainName,
    /// `*` and a plain rest.
    NameEnd(Box<[u8]>),
    Name(Wildcard),
    /// With a slash: from the file's own folder on.
    Path(PathWildcard),
}

/// The verdict of the rules about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreVerdict {
    Ignored,
    /// A `!` rule: no rule further up counts any more.
    Kept,
}

impl IgnoreRules {
    /// A line that is no valid rule matches nothing, as with git.
    pub fn parse(content: &[u8]) -> Self {
        let mut rules = Self::default();
        for line in content.strip_prefix(BOM).unwrap_or(content).split(|&byte| byte == b'\n') {
            rules.add(line.strip_suffix(b"\r").unwrap_or(line));
        }
        rules
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn add(&mut self, line: &[u8]) {
        if line.first() == Some(&b'#') {
            return;
        }
        let line = without_trailing_spaces(line);
        let (is_negated, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
        let (for_folders, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
        // Numbers are u32: a file of that many lines is not read.
        let (false, Ok(number)) = (line.is_empty(), u32::try_from(self.rules.len())) else { return };
        let pattern = if memchr::memchr(b'/', line).is_some() {
            IgnorePattern::Path(PathWildcard::parse(line.strip_prefix(b"/").unwrap_or(line)))
        } else if is_plain(line) {
            IgnorePattern::PlainName
        } else if let Some(end) = line.strip_prefix(b"*").filter(|end| is_plain(end)) {
            IgnorePattern::NameEnd(end.into())
        } else {
            IgnorePattern::Name(Wildcard::parse(line))
        };
        match pattern {
            IgnorePattern::PlainName => self.by_name.entry(line.into()).or_default().push(number),
            _ => self.others.push(number),
        }
        self.rules.push(IgnoreRule { pattern, is_negated, for_folders });
    }

    /// The last rule that matches decides. `path` is what follows the file's own folder; every folder on the way was
    /// asked about before, and was not ignored.
    pub fn verdict(&self, path: &[u8], is_dir: bool) -> Option<IgnoreVerdict> {
        let name = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
        let applies = |number: &&u32| is_dir || !self.rules[**number as usize].for_folders;
        let by_name = self.by_name.get(name).and_then(|numbers| numbers.iter().rev().find(applies));
        let other = self
            .others
            .iter()
            .rev()
            .take_while(|number| by_name.is_none_or(|found| *number > found))
            .filter(applies)
            .find(|number| self.rules[**number as usize].pattern.matches(path, name));
        let rule = &self.rules[*other.or(by_name)? as usize];
        Some(if rule.is_negated { IgnoreVerdict::Kept } else { IgnoreVerdict::Ignored })
    }
}

impl IgnorePattern {
    fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        match self {
            Self::PlainName => false,
            Self::NameEnd(end) => name.ends_with(end),
            Self::Name(wildcard) => wildcard.matches(name),
            Self::Path(pattern) => pattern.matches(path),
        }
    }
}

fn is_plain(text: &[u8]) -> bool {
    !text.iter().any(|byte| b"*?[\\".contains(byte))
}

/// A space that a backslash stands before stays, and so do those between it and the text.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while at < line.len() {
        match line[at] {
            b' ' => {}
            b'\\' => {
                at += 1;
                end = (at + 1).min(line.len());
            }
            _ => end = at + 1,
        }
        at += 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests;
