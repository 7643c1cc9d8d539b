//! A compiled expression, and two ways to run it. The quick way uses all optimisations of the regex crate and cannot be
//! interrupted; its worst case is the size of the expression times the size of the text. Where that is too much, an automaton
//! reads the text byte by byte and checks for cancellation now and then. So no expression and no text can make a call miss
//! its deadline.

use std::{ops::Range, sync::OnceLock};

use regex_automata::{
    Anchored, Input, MatchKind, Span,
    hybrid::{
        LazyStateID,
        dfa::{self, DFA},
    },
    meta::{self, Regex},
    nfa::thompson::{NFA, WhichCaptures},
    util::prefilter::Prefilter,
};
use regex_syntax::hir::Hir;

/// Compiled size. ripgrep allows more; but every thread and every byte of a text pays for it.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Memory for the automaton's states, for each thread.
const STATE_BYTES: usize = 1 << 20;
/// States of the expression times bytes of text that may be run without a check for cancellation: some tenths of a second at
/// worst.
const MAX_UNCHECKED_WORK: usize = 32 << 20;
/// Texts up to this length are searched the quick way, whatever the expression.
pub const MIN_UNCHECKED_BYTES: usize = 512;
/// Bytes between two checks for cancellation.
const CHECK_EVERY_BYTES: usize = 128;

pub(super) struct RegexEngine {
    quick: Regex,
    nfa: NFA,
    hir: Hir,
    /// Bytes that the quick way may be given.
    max_quick_bytes: usize,
    /// Made when a text is first too long.
    stepwise: OnceLock<Option<StepwiseSearch>>,
}

/// Finds where a match ends, and from there where it begins.
struct StepwiseSearch {
    forward: DFA,
    backward: DFA,
    /// Finds places where a match may begin without the automaton, if that is possible.
    prefilter: Option<Prefilter>,
}

pub(super) struct Cache {
    quick: meta::Cache,
    stepwise: Option<(dfa::Cache, dfa::Cache)>,
}

/// Why nothing was found although something may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchAbort {
    /// The call was cancelled or its deadline has passed.
    Stopped,
    /// The text is too long for this expression: it has word boundaries, and the text is not ASCII.
    TooLong,
}

/// Cancellation check, and the reason why a search was abandoned.
pub(super) struct SearchCancellation {
    pub(super) is_cancelled: Box<dyn Fn() -> bool>,
    pub(super) abort: Option<SearchAbort>,
}

impl RegexEngine {
    /// The error text states what is wrong and how to fix it.
    pub(super) fn new(hir: &Hir) -> Result<Self, String> {
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(MAX_COMPILED_BYTES))
            .hybrid_cache_capacity(STATE_BYTES)
            .which_captures(WhichCaptures::Implicit)
            // Caches are the threads' own.
            .pool_capacity(1);
        let quick =
            Regex::builder().configure(config).build_from_hir(hir).map_err(|error| match error.size_limit() {
                Some(limit) => too_large(limit),
                None => error.to_string(),
            })?;
        let nfa = thompson(hir, false).ok_or_else(|| too_large(MAX_COMPILED_BYTES))?;
        let longest = (MAX_UNCHECKED_WORK / nfa.states().len().max(1)).max(MIN_UNCHECKED_BYTES);
        Ok(Self { quick, nfa, hir: hir.clone(), max_quick_bytes: longest, stepwise: OnceLock::new() })
    }

    pub(super) fn cache(&self) -> Cache {
        Cache { quick: self.quick.create_cache(), stepwise: None }
    }

    /// Bytes that are run without looking up.
    pub(super) fn max_quick_bytes(&self) -> usize {
        self.max_quick_bytes
    }

    /// A place in or directly behind the first match.
    pub(super) fn any_end(
        &self,
        cache: &mut Cache,
        patience: &mut SearchCancellation,
        text: &[u8],
        from: usize,
    ) -> Option<usize> {
        let input = Input::new(text).range(from..).earliest(true);
        if text.len() - from <= self.max_quick_bytes {
            return self.quick.search_half_with(&mut cache.quick, &input).map(|found| found.offset());
        }
        let (stepwise, (forward, _)) = self.stepwise(cache, patience)?;
        patience.unless_aborted(run_forward(stepwise, forward, &input, patience))
    }

    pub(super) fn find(
        &self,
        cache: &mut Cache,
        patience: &mut SearchCancellation,
        text: &[u8],
        range: Range<usize>,
    ) -> Option<Range<usize>> {
        let input = Input::new(text).range(range.clone());
        if range.len() <= self.max_quick_bytes {
            return self.quick.search_with(&mut cache.quick, &input).map(|found| found.range());
        }
        let (stepwise, (forward, backward)) = self.stepwise(cache, patience)?;
        let end = run_forward(stepwise, forward, &input, patience);
        let end = patience.unless_aborted(end)?;
        let input = Input::new(text).range(range.start..end).anchored(Anchored::Yes);
        let start = run_backward(&stepwise.backward, backward, &input, patience);
        Some(patience.unless_aborted(start)?..end)
    }

    fn stepwise<'c>(
        &self,
        cache: &'c mut Cache,
        patience: &mut SearchCancellation,
    ) -> Option<(&StepwiseSearch, &'c mut (dfa::Cache, dfa::Cache))> {
        let Some(stepwise) = self.stepwise.get_or_init(|| self.build_stepwise()) else {
            patience.abort = Some(SearchAbort::TooLong);
            return None;
        };
        let make = || (stepwise.forward.create_cache(), stepwise.backward.create_cache());
        Some((stepwise, cache.stepwise.get_or_insert_with(make)))
    }

    fn build_stepwise(&self) -> Option<StepwiseSearch> {
        let prefilter = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &self.hir).filter(Prefilter::is_fast);
        let config = |kind| {
            dfa::Config::new()
                .match_kind(kind)
                // This works for ASCII text; in other text the automaton gives up.
                .unicode_word_boundary(true)
                // From there it may leap.
                .specialize_start_states(prefilter.is_some())
                .cache_capacity(STATE_BYTES)
                .skip_cache_capacity_check(true)
        };
        let build = |kind, nfa| dfa::Builder::new().configure(config(kind)).build_from_nfa(nfa).ok();
        Some(StepwiseSearch {
            forward: build(MatchKind::LeftmostFirst, self.nfa.clone())?,
            backward: build(MatchKind::All, thompson(&self.hir, true)?)?,
            prefilter,
        })
    }
}

/// None if it is too large.
fn thompson(hir: &Hir, is_reverse: bool) -> Option<NFA> {
    let config = NFA::config()
        .utf8(false)
        .reverse(is_reverse)
        .nfa_size_limit(Some(MAX_COMPILED_BYTES))
        .which_captures(WhichCaptures::None);
    NFA::compiler().configure(config).build_from_hir(hir).ok()
}

fn too_large(limit: usize) -> String {
    format!("it is too large when compiled: more than {limit} bytes; repeat less, or search for a part of it")
}

impl SearchCancellation {
    fn check(&self) -> Result<(), SearchAbort> {
        if (self.is_cancelled)() { Err(SearchAbort::Stopped) } else { Ok(()) }
    }

    fn unless_aborted(&mut self, found: Result<Option<usize>, SearchAbort>) -> Option<usize> {
        found.unwrap_or_else(|given_up| {
            self.abort = Some(given_up);
            None
        })
    }
}

/// The state after this byte, or after the end of the text for `None`. `TooLong` if the automaton gives up.
fn next(dfa: &DFA, cache: &mut dfa::Cache, state: LazyStateID, byte: Option<u8>) -> Result<LazyStateID, SearchAbort> {
    let next = match byte {
        Some(byte) => dfa.next_state(cache, state, byte),
        None => dfa.next_eoi_state(cache, state),
    };
    next.ok().filter(|state| !state.is_tagged() || !state.is_quit()).ok_or(SearchAbort::TooLong)
}

/// The end of the leftmost match; with `earliest` any end that shows there is one. A match is known one byte late.
fn run_forward(
    StepwiseSearch { forward: dfa, prefilter, .. }: &StepwiseSearch,
    cache: &mut dfa::Cache,
    input: &Input<'_>,
    patience: &SearchCancellation,
) -> Result<Option<usize>, SearchAbort> {
    let (text, range) = (input.haystack(), input.get_range());
    let start = |cache: &mut dfa::Cache, at| {
        let input = input.clone().range(at..range.end);
        dfa.start_state_forward(cache, &input).map_err(|_| SearchAbort::TooLong)
    };
    let mut state = start(cache, range.start)?;
    let mut found = None;
    let (mut at, mut look_up_at) = (range.start, range.start);
    while at < range.end {
        if at >= look_up_at {
            patience.check()?;
            look_up_at = at + CHECK_EVERY_BYTES;
        }
        // Most states are nothing special.
        if state.is_tagged()
            && state.is_start()
            && let Some(prefilter) = prefilter
        {
            let Some(next) = prefilter.find(text, Span::from(at..range.end)) else { return Ok(found) };
            if next.start > at {
                at = next.start;
                state = start(cache, at)?;
            }
        }
        state = next(dfa, cache, state, Some(text[at]))?;
        if state.is_tagged() {
            if state.is_match() {
                found = Some(at);
                if input.get_earliest() {
                    return Ok(found);
                }
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        at += 1;
    }
    state = next(dfa, cache, state, text.get(range.end).copied())?;
    Ok(if state.is_match() { Some(range.end) } else { found })
}

/// The start of the match that ends at the end of the input: the earliest possible one.
fn run_backward(
    dfa: &DFA,
    cache: &mut dfa::Cache,
    input: &Input<'_>,
    patience: &SearchCancellation,
) -> Result<Option<usize>, SearchAbort> {
    let (text, range) = (input.haystack(), input.get_range());
    let mut state = dfa.start_state_reverse(cache, input).map_err(|_| SearchAbort::TooLong)?;
    let mut found = None;
    for at in range.clone().rev() {
        if at % CHECK_EVERY_BYTES == 0 {
            patience.check()?;
        }
        state = next(dfa, cache, state, Some(text[at]))?;
        if state.is_match() {
            found = Some(at + 1);
        } else if state.is_dead() {
            return Ok(found);
        }
    }
    let before = range.start.checked_sub(1).map(|at| text[at]);
    state = next(dfa, cache, state, before)?;
    Ok(if state.is_match() { Some(range.start) } else { found })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn engine(pattern: &str, longest: usize) -> RegexEngine {
        let hir = regex_syntax::ParserBuilder::new().utf8(false).multi_line(true).build().parse(pattern).unwrap();
        RegexEngine { max_quick_bytes: longest, ..RegexEngine::new(&hir).unwrap() }
    }

    fn patience(is_over: bool) -> SearchCancellation {
        SearchCancellation { is_cancelled: Box::new(move || is_over), abort: None }
    }

    proptest! {
        #[test]
        fn step_by_step_finds_what_the_quick_way_finds(
            pattern in r"(a|b|\.|\\w|\[ab\]|\^|\$|\\b|a\*|b\+\?|\(a\|ab\)|\(\?:b\|\)|\\n|é){1,6}",
            text in "[abc \\n]{0,40}",
            from in 0usize..10, to in 0usize..10,
        ) {
            let (quick, stepwise) = (engine(&pattern, usize::MAX), engine(&pattern, 0));
            let range = from.min(text.len())..text.len().saturating_sub(to).max(from.min(text.len()));
            let find = |engine: &RegexEngine| {
                let mut patience = patience(false);
                let found = engine.find(&mut engine.cache(), &mut patience, text.as_bytes(), range.clone());
                assert_eq!(patience.abort, None);
                found
            };
            // An empty text is run at once in either case.
            prop_assert_eq!(find(&quick), find(&stepwise));
            let has_any = |engine: &RegexEngine| {
                engine.any_end(&mut engine.cache(), &mut patience(false), text.as_bytes(), range.start).is_some()
            };
            prop_assert_eq!(has_any(&quick), has_any(&stepwise));
        }
    }

    /// The text is longer than the interval between two checks, and has places where a match may begin and none does.
    #[test]
    fn leaps_miss_nothing() {
        let apart = "x needlf\nneedles ".repeat(40);
        let text = format!("{apart}\nneedle  end\n{apart}needle\n{apart}");
        for pattern in [
            r"needle\s+\w+",
            r"needle\n\w",
            "^needle",
            "^needle$",
            r"\bneedle\b",
            "needle(les)?  |needle\n",
            "(?i)NEEDLE  END",
            "needleless",
        ] {
            let (quick, stepwise) = (engine(pattern, usize::MAX), engine(pattern, 0));
            for from in [0, 1, apart.len(), apart.len() + 3, text.len() - apart.len() - 8] {
                let find = |engine: &RegexEngine| {
                    let range = from..text.len();
                    engine.find(&mut engine.cache(), &mut patience(false), text.as_bytes(), range)
                };
                assert_eq!(find(&stepwise), find(&quick), "{pattern} from {from}");
            }
            assert_eq!(stepwise.stepwise.get().map(|made| made.is_some()), Some(true), "{pattern}");
        }
    }

    #[test]
    fn who_is_not_waited_for_stops() {
        let engine = engine("a?a?b", 0);
        let mut patience = patience(true);
        assert_eq!(engine.find(&mut engine.cache(), &mut patience, b"aaab", 0..4), None);
        assert_eq!(patience.abort, Some(SearchAbort::Stopped));
    }

    #[test]
    fn word_boundaries_in_long_text_that_is_not_ascii_are_given_up() {
        let engine = engine(r"\ba\b", 0);
        let mut patience = patience(false);
        assert_eq!(engine.find(&mut engine.cache(), &mut patience, "é a".as_bytes(), 0..4), None);
        assert_eq!(patience.abort, Some(SearchAbort::TooLong));
        patience.abort = None;
        assert_eq!(engine.find(&mut engine.cache(), &mut patience, b"x a", 0..3), Some(2..3));
    }

    #[test]
    fn large_expressions_get_short_texts() {
        assert_eq!(engine("a", 7).max_quick_bytes(), 7);
        let hir = regex_syntax::parse(r"\w{50}").unwrap();
        let longest = RegexEngine::new(&hir).unwrap().max_quick_bytes();
        assert!((MIN_UNCHECKED_BYTES..128 << 10).contains(&longest), "{longest}");
    }
}
