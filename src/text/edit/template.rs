//! Replacement texts of regular expressions. A reference to a group that the pattern lacks is refused before anything is
//! replaced: the regex crate would put nothing in its place, and a template literal would silently lose its expression.

use regex::bytes::{CaptureLocations, Regex};

use super::{line_ops::count_text, splice::Splice};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template<'r>(Vec<TemplatePart<'r>>);

#[derive(Debug, PartialEq, Eq)]
enum TemplatePart<'r> {
    Literal(&'r [u8]),
    Group(usize),
}

impl<'r> Template<'r> {
    /// `$$` is a dollar; `$name` takes the longest run of letters, digits and underscores; `${…}` everything up to the
    /// first brace. A dollar that begins none of these is itself.
    pub(super) fn parse(replacement: &'r str, regex: &Regex) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = replacement;
        while let Some(dollar) = rest.find('$') {
            let (before, from_dollar) = rest.split_at(dollar);
            parts.push(TemplatePart::Literal(before.as_bytes()));
            let (len, part) = match reference(from_dollar) {
                Some((len, name)) => (len, TemplatePart::Group(group(&from_dollar[..len], name, regex)?)),
                None => (if from_dollar.starts_with("$$") { 2 } else { 1 }, TemplatePart::Literal(b"$")),
            };
            parts.push(part);
            rest = &from_dollar[len..];
        }
        parts.push(TemplatePart::Literal(rest.as_bytes()));
        Ok(Self(parts))
    }

    /// Whether the whole match is all it needs to know of a match.
    pub(super) fn needs_groups(&self) -> bool {
        self.0.iter().any(|part| matches!(part, TemplatePart::Group(_)))
    }

    pub(super) fn push(&self, out: &mut Splice<'_>, body: &[u8], groups: &CaptureLocations) {
        for part in &self.0 {
            match part {
                TemplatePart::Literal(bytes) => out.push(bytes),
                // A group that took no part in the match is empty.
                TemplatePart::Group(index) => {
                    groups.get(*index).into_iter().for_each(|(from, to)| out.push(&body[from..to]))
                }
            }
        }
    }
}

/// Its length with the dollar, and the name inside.
fn reference(from_dollar: &str) -> Option<(usize, &str)> {
    if let Some(braced) = from_dollar.strip_prefix("${") {
        let end = braced.find('}')?;
        return Some((end + 3, &braced[..end]));
    }
    let name = &from_dollar[1..];
    let end = name.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).unwrap_or(name.len());
    (end > 0).then(|| (end + 1, &name[..end]))
}

fn group(reference: &str, name: &str, regex: &Regex) -> Result<usize, String> {
    let groups = regex.captures_len();
    let found = match name.parse::<usize>() {
        // `parse` alone would also accept "+1".
        Ok(index) if name.bytes().all(|byte| byte.is_ascii_digit()) => (index < groups).then_some(index),
        _ => regex.capture_names().position(|known| known == Some(name)),
    };
    found.ok_or_else(|| {
        format!(
            "replacement: {reference:?} refers to no group of the pattern, which has {}; write a literal $ as $$, for \
             example $${{name}} for the ${{name}} of template literals, and ${{1}}a for group 1 before an a",
            count_text(groups as u64 - 1, "capture group")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str, replacement: &str, body: &str) -> Result<String, String> {
        let regex = Regex::new(pattern).unwrap();
        let template = Template::parse(replacement, &regex)?;
        let mut groups = regex.capture_locations();
        let whole = regex.captures_read(&mut groups, body.as_bytes()).unwrap();
        let mut splice = Splice::new(body.as_bytes(), 1000, std::iter::empty());
        splice.replace(whole.range(), |out| template.push(out, body.as_bytes(), &groups));
        Ok(String::from_utf8(splice.finish().unwrap().0).unwrap())
    }

    #[test]
    fn references_are_read_as_the_contract_says() {
        for (replacement, expected) in [
            ("$1-$x", "a-b"),
            ("${1}a", "aa"),
            ("$0$0", "abab"),
            ("$$1", "$1"),
            ("$$$1", "$a"),
            ("$", "$"),
            ("$ 1", "$ 1"),
            ("a$", "a$"),
            ("${1", "${1"),
            ("$é", "$é"),
            ("$-", "$-"),
            ("${x}y", "by"),
            ("$3", ""),
        ] {
            assert_eq!(expanded("(a)(?<x>b)(c)?", replacement, "ab").unwrap(), expected, "{replacement}");
        }
    }

    #[test]
    fn the_regex_crate_agrees_where_all_groups_exist() {
        let regex = Regex::new("(a)(?<x>b)").unwrap();
        for replacement in ["$1-$x", "${1}a", "$$1", "$", "$$$$", "${x}$", "$ $1 ${0}}", "{$1}", "$x.$2", "a$$b"] {
            let theirs = regex.replace(b"ab", replacement.as_bytes()).into_owned();
            assert_eq!(expanded("(a)(?<x>b)", replacement, "ab").unwrap().as_bytes(), theirs, "{replacement}");
        }
    }

    #[test]
    fn a_reference_to_no_group_is_quoted_and_explained() {
        for (replacement, quoted) in [
            ("$1a", "\"$1a\""),
            ("${}", "\"${}\""),
            ("Hello, ${name}!", "\"${name}\""),
            ("$2", "\"$2\""),
            ("${+1}", "\"${+1}\""),
            ("$99999999999999999999999", "\"$99999999999999999999999\""),
        ] {
            let error = expanded("(a)", replacement, "a").unwrap_err();
            for part in [quoted, "1 capture group;", "$$", "template literals"] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert!(expanded("a", "$1", "a").unwrap_err().contains("0 capture groups"));
    }
}
