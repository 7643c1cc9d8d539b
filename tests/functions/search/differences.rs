//! Where ours and ripgrep may differ, as data, each with the sentence of the contract that says so and a question that
//! shows it. Nothing else may differ, and an entry whose question shows no difference is stale.

use regex::bytes::Regex;
use serde::Deserialize;

use super::query::Query;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Only ripgrep has the line.
    Ripgrep,
    /// Only we have it.
    Ours,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    pub name: String,
    /// Why: what the contract says.
    pub says: String,
    pub side: Side,
    /// Paths below the root, a regex.
    files: String,
    /// All of these are asked for.
    #[serde(default)]
    with: Vec<String>,
    /// None of these.
    #[serde(default)]
    without: Vec<String>,
    /// The question has this glob.
    #[serde(default)]
    glob: Option<String>,
    /// The pattern holds this, a regex.
    #[serde(default)]
    pattern: Option<String>,
    /// The line that only one of the two has holds this, a regex.
    #[serde(default)]
    line: Option<String>,
    pub example: Query,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    difference: Vec<Difference>,
}

/// The regexes of an entry.
pub struct Where {
    files: Regex,
    pattern: Option<Regex>,
    line: Option<Regex>,
}

pub struct Differences(pub Vec<(Difference, Where)>);

impl Differences {
    pub fn read() -> Self {
        let listed: Listed = toml::from_str(include_str!("differences.toml")).unwrap();
        let compiled = listed.difference.into_iter().map(|entry| {
            let regex = |text: &String| Regex::new(text).unwrap();
            let (pattern, line) = (entry.pattern.as_ref().map(regex), entry.line.as_ref().map(regex));
            let place = Where { files: regex(&entry.files), pattern, line };
            (entry, place)
        });
        Self(compiled.collect())
    }

    /// Which entry allows this one, by number.
    pub fn allowing(&self, query: &Query, side: Side, path: &[u8], line: &[u8]) -> Option<usize> {
        let holds = |regex: &Option<Regex>, text: &[u8]| regex.as_ref().is_none_or(|regex| regex.is_match(text));
        self.0.iter().position(|(entry, place)| {
            entry.side == side
                && entry.with.iter().all(|flag| query.has(flag))
                && !entry.without.iter().any(|flag| query.has(flag))
                && place.files.is_match(path)
                && holds(&place.pattern, query.pattern.as_bytes())
                && holds(&place.line, line)
                && entry.glob.as_deref().is_none_or(|glob| query.has_glob(glob))
        })
    }
}
