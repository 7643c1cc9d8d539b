//! Required literals: byte strings of which every match of a pattern contains at least one, wherever they stand in the
//! pattern. Finding them takes one pass at the speed of memory, and only the lines that hold one need the regex.

use regex_automata::{MatchKind, util::prefilter::Prefilter};
use regex_syntax::hir::{
    Hir, HirKind,
    literal::{Extractor, Literal, Seq, rank},
};

/// Shorter literals stand in too many lines: cutting and matching each line costs more than the regex alone.
const MIN_LITERAL_BYTES: usize = 3;
/// Parts of a concatenation that are searched for literals.
const MAX_PARTS: usize = 32;
/// The most literals that one set may have; the vectorised search takes no more.
const MAX_LITERALS: usize = 64;

/// The most literals while parts are joined, and their length: the bounds that the extractor itself has.
const MAX_JOINED_LITERALS: usize = 250;
const MAX_JOINED_BYTES: usize = 100;

/// Literals, and how often one of them is expected.
struct RequiredLiterals {
    literals: Vec<Vec<u8>>,
    frequency: f64,
}

/// A search for the rarest set of required literals of a pattern that matches within one line. `None` if the pattern has no
/// good set, or if its best set is at its beginning, where the regex engine itself searches for it.
pub(super) fn prefilter(hir: &Hir) -> Option<Prefilter> {
    let required = rarest(hir)?;
    if prefix(hir).is_some_and(|prefix| prefix.frequency <= required.frequency) {
        return None;
    }
    Prefilter::new(MatchKind::LeftmostFirst, &required.literals).filter(Prefilter::is_fast)
}

/// Recursion is bounded by the parser's nest limit.
fn rarest(hir: &Hir) -> Option<RequiredLiterals> {
    let within = match hir.kind() {
        HirKind::Repetition(repetition) if repetition.min > 0 => rarest(&repetition.sub),
        HirKind::Capture(capture) => rarest(&capture.sub),
        HirKind::Concat(subs) => {
            let subs = &subs[..subs.len().min(MAX_PARTS)];
            let begins: Vec<Seq> = subs.iter().map(|sub| Extractor::new().extract(sub)).collect();
            let behind = (1..subs.len()).filter_map(|from| RequiredLiterals::of(joined(&begins[from..])));
            behind.chain(subs.iter().filter_map(rarest)).reduce(rarer)
        }
        HirKind::Alternation(subs) => subs.iter().map(rarest).reduce(either).flatten(),
        _ => None,
    };
    prefix(hir).into_iter().chain(within).reduce(rarer)
}

/// Literals that the matches of `hir` begin with.
fn prefix(hir: &Hir) -> Option<RequiredLiterals> {
    RequiredLiterals::of(Extractor::new().extract(hir))
}

/// Joins the literals that the parts of a concatenation begin with to the literals that the whole begins with. The caller
/// extracts the parts: copying the rest of the pattern for each part could take as long as one second if groups are nested.
fn joined(parts: &[Seq]) -> Seq {
    let mut whole = Seq::singleton(Literal::exact(vec![]));
    for part in parts {
        if whole.is_inexact() {
            break;
        }
        let mut part = part.clone();
        if whole.max_cross_len(&part).is_some_and(|len| len > MAX_JOINED_LITERALS) {
            part.make_infinite();
        }
        whole.cross_forward(&mut part);
        whole.keep_first_bytes(MAX_JOINED_BYTES);
    }
    whole
}

fn rarer(one: RequiredLiterals, other: RequiredLiterals) -> RequiredLiterals {
    if other.frequency < one.frequency { other } else { one }
}

fn either(one: Option<RequiredLiterals>, other: Option<RequiredLiterals>) -> Option<RequiredLiterals> {
    RequiredLiterals::new([one?.literals, other?.literals].concat())
}

impl RequiredLiterals {
    fn of(mut found: Seq) -> Option<Self> {
        found.optimize_for_prefix_by_preference();
        Self::new(found.literals()?.iter().map(|literal| literal.as_bytes().to_vec()).collect())
    }

    /// `None` if a literal is too short to be rare, or could span two lines.
    fn new(literals: Vec<Vec<u8>>) -> Option<Self> {
        let is_good = |literal: &Vec<u8>| literal.len() >= MIN_LITERAL_BYTES && !literal.contains(&b'\n');
        if literals.len() > MAX_LITERALS || !literals.iter().all(is_good) {
            return None;
        }
        let share = |byte: &u8| f64::from(u16::from(rank(*byte)) + 1) / 512.0;
        let frequency = literals.iter().map(|literal| literal.iter().map(share).product::<f64>()).sum();
        Some(Self { literals, frequency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(pattern: &str) -> Vec<String> {
        let hir = regex_syntax::parse(pattern).unwrap();
        let literals = rarest(&hir).map_or_else(Vec::new, |required| required.literals);
        literals.into_iter().map(|literal| String::from_utf8(literal).unwrap()).collect()
    }

    #[test]
    fn the_rarest_literals_that_each_match_contains() {
        for (pattern, expected) in [
            (r"\w{6}_xfer\d", &["_xfer"][..]),
            (r"[a-z]+_(?:lock|unlock)_\w+", &["_lock_", "_unlock_"]),
            (r"\w+(?:foo\d|\w+bar)\w*", &["foo", "bar"]),
            (r"\w(\d?needle)+", &["needle"]),
            (r"the \w+ zqxj", &[" zqxj"]),
            (r"\w+\bword\b", &["word"]),
            // The literals are not in each match, or are too short.
            (r"\w+(needle)?", &[]),
            (r"\w+(needle)*", &[]),
            (r"\w+(?:needle|\d)", &[]),
            (r"\w+ab", &[]),
            (r"\w+a\nbc", &[]),
            ("", &[]),
            (r"\w+[a-z]{3}", &[]),
        ] {
            assert_eq!(required(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_literal_at_the_beginning_is_left_to_the_engine() {
        let prefilter = |pattern: &str| prefilter(&regex_syntax::parse(pattern).unwrap());
        assert!(prefilter(r"needle\w+").is_none());
        assert!(prefilter(r"\w+needle").is_some());
        assert!(prefilter(r"the\w+zqxjk").is_some());
    }
}
