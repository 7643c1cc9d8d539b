//! Against a reader that cuts lines first and knows no regions.

use proptest::prelude::*;

use super::*;
use crate::text::search::PatternOptions;

fn wants() -> ScanOptions {
    ScanOptions {
        max_line_bytes: 100,
        max_matches: u64::MAX,
        max_per_file: u64::MAX,
        max_bytes: u64::MAX,
        ..ScanOptions::default()
    }
}

/// Feeds whole lines in regions of about `step` bytes.
fn scan(pattern: &SearchPattern, wants: &ScanOptions, text: &[u8], step: usize) -> ScanOutcome {
    let mut scratch = pattern.scratch(|| false);
    let mut scanner = Scanner::new(pattern, &mut scratch, wants);
    let mut rest = text;
    while !rest.is_empty() {
        let near = &rest[..step.min(rest.len())];
        let end = match memchr::memrchr(b'\n', near) {
            Some(newline) => newline + 1,
            None => memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1),
        };
        let (region, later) = rest.split_at(end);
        if scanner.scan_region(region) == ScanControl::Stop || scanner.leave_region(region) == ScanControl::Stop {
            break;
        }
        rest = later;
    }
    scanner.finish()
}

/// Lines as the contract defines them, up to the first NUL.
fn naive_lines(text: &[u8]) -> Vec<&[u8]> {
    let text = &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())];
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for line in &mut lines {
        *line = match line.strip_suffix(b"\n") {
            Some(inner) => inner.strip_suffix(b"\r").unwrap_or(inner),
            None => line,
        };
    }
    lines
}

fn naive(query: &str, options: PatternOptions, text: &[u8]) -> Vec<(u64, String)> {
    let inner = if options.is_regex { query.to_owned() } else { regex::escape(query) };
    let inner = if options.is_word { format!(r"(?:^|\W)(?:{inner})(?:\W|$)") } else { inner };
    let regex = regex::bytes::RegexBuilder::new(&inner).case_insensitive(options.ignores_case).build().unwrap();
    let lines = naive_lines(text);
    let hits = (1..).zip(lines).filter(|(_, line)| regex.is_match(line));
    hits.map(|(number, line)| (number, String::from_utf8_lossy(line).into_owned())).collect()
}

const PATTERNS: &[&str] = &[
    "a", "ab", "a+b", "^a", "b$", "^$", "a|^b", r"\bab\b", r"\Bb", r"[^a]", r"a\s", r"\w+", "a.b", "(a|b)+$", "",
    r"\Aa", r"b\z", "(?:a*)*b", r"é", r"\W", r"^\w+\W", r"\r", "a{2,3}", "[ab]{2}", "(?i)A",
];

/// Literals stand only inside: lines are found by required literals.
const INNER: &[&str] = &[
    r"\w{2}aba",
    r"\w+bba\w",
    "[ab ]+aab$",
    r"^.*abb\b",
    r"\w(?:aab|bba) ?",
    r".\baba\b",
    r"(?i)\waba",
    r"\Bb+bab",
    r"\S(bab)+a?",
    r"[^b]baé",
    r"(?-u:[^a])abb",
    "[ab]*(?:aba[ab]|b ab).",
    r".+(?:aaa|(?:b|é)ab)$",
    r"\w?aba\w??",
];

/// A small regex of any shape: literals, classes, anchors, boundaries, alternatives, repetitions.
fn part() -> impl Strategy<Value = String> {
    let one_of = |all: &'static [&'static str]| proptest::sample::select(all).prop_map(str::to_owned);
    let leaf = prop_oneof![
        3 => "[ab]{1,4}",
        3 => one_of(&[".", r"\w", "[ab]", r"\W", r"\S", "[^a]", "é", " "]),
        1 => one_of(&["^", "$", r"\b", r"\B", ""]),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let several = |least| proptest::collection::vec(inner.clone(), least..4);
        prop_oneof![
            several(1).prop_map(|parts| parts.concat()),
            several(2).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (inner.clone(), one_of(&["?", "*", "+", "+?", "{2}", "{1,2}", "{0}"]))
                .prop_map(|(part, times)| format!("({part}){times}")),
        ]
    })
}

#[test]
fn lines_with_inner_literals_are_found_by_them() {
    for query in INNER {
        let options = PatternOptions { is_regex: true, ..PatternOptions::default() };
        assert!(SearchPattern::new(query, options).unwrap().has_required_literals(), "{query}");
    }
}

/// The regex runs on candidate lines only; a region full of them is left when the caller has given up.
#[test]
fn candidate_lines_are_left_when_the_search_is_cancelled() {
    let pattern =
        SearchPattern::new(r"\w{6}_xfer\d", PatternOptions { is_regex: true, ..PatternOptions::default() }).unwrap();
    let checks = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = checks.clone();
    let mut scratch = pattern.scratch(move || {
        seen.set(seen.get() + 1);
        seen.get() == 2
    });
    let wants = wants();
    let mut scanner = Scanner::new(&pattern, &mut scratch, &wants);
    scanner.scan_region("_xfer, master_xfer1\n".repeat(1 << 16).as_bytes());
    assert_eq!((checks.get(), scanner.take_given_up()), (2, Some(SearchAbort::Stopped)));
    let found = scanner.finish().count;
    assert!((1..1 << 15).contains(&found), "{found}");
}

/// `$` looks ahead over a CR that belongs to the end of a line, but the CR is not part of the match.
#[test]
fn a_match_that_ends_where_a_line_begins_has_no_part_of_that_line() {
    for (text, query, expected) in [
        ("a\n\n\r\nb\n", r"\n\n$", (1, 2)),
        ("a\n\n\r", r"\n\n$", (1, 2)),
        ("a\r\nb\r\n", r"a\s+b$", (1, 2)),
        ("\r\nb\n", r"^$", (1, 1)),
        // A CR that the pattern itself takes stays.
        ("x\r\r\nb\n", r"\s[^a]", (1, 2)),
        ("aa\n\r\nb\n", r"[^x][^x]", (1, 3)),
    ] {
        let options = PatternOptions { is_regex: true, multiline: Some(true), ..PatternOptions::default() };
        let pattern = SearchPattern::new(query, options).unwrap();
        let (mut scratch, wants) = (pattern.scratch(|| false), wants());
        let mut scanner = Scanner::new(&pattern, &mut scratch, &wants);
        scanner.scan_whole(text.as_bytes());
        let found = scanner.finish().found;
        let lines: Vec<_> = found.iter().map(|found| (found.line, found.last_line)).collect();
        assert_eq!(lines, [expected], "{query} in {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]
    #[test]
    fn lines_are_those_that_match_alone(
        text in proptest::collection::vec(prop_oneof![
            4 => Just(&b"a"[..]), 4 => Just(&b"b"[..]), 3 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..]),
            // No CR alone: ripgrep decides about it (tests/functions/search), and it takes none for text.
            1 => Just(&b" "[..]), 1 => Just("é".as_bytes()), 1 => Just(&b"\xff"[..]),
            1 => Just(&b"\0"[..]), 1 => Just(&b"A"[..]),
        ], 0..60),
        pattern in 0..PATTERNS.len(), is_regex: bool, ignores_case: bool, is_word: bool, step in 1usize..40,
    ) {
        let text = text.concat();
        let query = PATTERNS[pattern];
        let options = PatternOptions { is_regex, ignores_case, is_word, ..PatternOptions::default() };
        let compiled = SearchPattern::new(query, options).unwrap();
        let ScanOutcome { found, count, .. } = scan(&compiled, &wants(), &text, step);
        let found: Vec<_> = found.into_iter().map(|found| (found.line, found.shown.text)).collect();
        let expected = naive(query, options, &text);
        prop_assert_eq!(count, expected.len() as u64);
        prop_assert_eq!(found, expected, "{:?} {:?}", query, String::from_utf8_lossy(&text));
    }

    #[test]
    fn lines_with_inner_literals_are_those_that_match_alone(
        text in proptest::collection::vec(prop_oneof![
            9 => Just(&b"a"[..]), 9 => Just(&b"b"[..]), 2 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..]),
            1 => Just(&b" "[..]), 1 => Just("é".as_bytes()), 1 => Just(&b"\xff"[..]), 1 => Just(&b"\0"[..]),
            1 => Just(&b"AB"[..]),
        ], 0..80),
        listed in 0..INNER.len(), is_listed: bool, before in part(), literal in "[ab]{3,4}", behind in part(),
        ignores_case: bool, is_word: bool, step in 1usize..40,
    ) {
        let text = text.concat();
        let query = if is_listed { INNER[listed].to_owned() } else { [before, literal, behind].concat() };
        let query = query.as_str();
        let options = PatternOptions { is_regex: true, ignores_case, is_word, no_repair: true, ..PatternOptions::default() };
        let compiled = SearchPattern::new(query, options).unwrap();
        let ScanOutcome { found, .. } = scan(&compiled, &wants(), &text, step);
        let found: Vec<_> = found.into_iter().map(|found| (found.line, found.shown.text)).collect();
        prop_assert_eq!(found, naive(query, options, &text), "{:?} {:?}", query, String::from_utf8_lossy(&text));
    }

    #[test]
    fn neighbours_are_those_of_the_whole_file(
        text in "[ab\n]{0,60}", before in 0usize..4, after in 0usize..4, step in 1usize..30, max_matches in 1u64..5,
    ) {
        let pattern = SearchPattern::new("b", PatternOptions::default()).unwrap();
        let ScanOutcome { found, .. } = scan(&pattern, &ScanOptions { before, after, max_matches, ..wants() }, text.as_bytes(), step);
        prop_assert!(found.len() as u64 <= max_matches);
        let lines: Vec<&str> = text.lines().collect();
        for MatchedLines { line, before: above, after: below, .. } in found {
            let at = line as usize - 1;
            prop_assert_eq!(above, &lines[at.saturating_sub(before)..at]);
            prop_assert_eq!(below, &lines[at + 1..(at + 1 + after).min(lines.len())]);
        }
    }

    #[test]
    fn spans_and_columns_point_at_the_matches(text in "[ab é]{0,30}") {
        let pattern = SearchPattern::new("ab?", PatternOptions { is_regex: true, ..PatternOptions::default() }).unwrap();
        let ScanOutcome { found, .. } = scan(&pattern, &wants(), text.as_bytes(), 100);
        let expected: Vec<(u64, u64)> = regex::Regex::new("ab?").unwrap().find_iter(&text)
            .map(|m| (m.start() as u64, m.end() as u64)).collect();
        let spans: Vec<_> = found.first().map(|found| found.shown.spans.clone()).unwrap_or_default();
        prop_assert_eq!(found.first().map(|found| found.column), expected.first().map(|span| span.0 + 1));
        prop_assert_eq!(spans, expected);
    }

    #[test]
    fn several_lines_match_as_the_whole_text_does(text in "[ab\n]{0,40}", query in 0usize..6) {
        let query = [r"a\nb", r"b+\n+a", r"(?s)a.b", r"^a$", r"\n", r"a\s*b"][query];
        let pattern =
            SearchPattern::new(query, PatternOptions { is_regex: true, multiline: Some(true), ..PatternOptions::default() }).unwrap();
        let (mut scratch, wants) = (pattern.scratch(|| false), wants());
        let mut scanner = Scanner::new(&pattern, &mut scratch, &wants);
        scanner.scan_whole(text.as_bytes());
        let ScanOutcome { found, .. } = scanner.finish();
        let mut covered = Vec::new();
        for MatchedLines { line, last_line, shown, .. } in &found {
            prop_assert_eq!(&shown.text, &text.lines().collect::<Vec<_>>()[*line as usize - 1..*last_line as usize].join("\n"));
            covered.extend(*line..=*last_line);
        }
        let mut expected: Vec<u64> = Vec::new();
        for m in regex::Regex::new(&format!("(?m){query}")).unwrap().find_iter(&text) {
            let line = |at: usize| 1 + text[..at].matches('\n').count() as u64;
            if m.start() < text.len() || !text.ends_with('\n') && !text.is_empty() {
                expected.extend(line(m.start())..=line(m.end().max(m.start() + 1) - 1));
            }
        }
        expected.dedup();
        prop_assert_eq!(covered, expected, "{}", query);
    }

    #[test]
    fn a_long_line_in_pieces_has_the_first_match_of_the_whole(
        line in "[ab _]{1,80}", step in 24usize..40, is_word: bool,
    ) {
        let pattern = SearchPattern::new("ab", PatternOptions { is_word, ..PatternOptions::default() }).unwrap();
        let wants = ScanOptions { max_line_bytes: 8, ..wants() };
        let mut scratch = pattern.scratch(|| false);
        let mut scanner = Scanner::new(&pattern, &mut scratch, &wants);
        let keep = scanner.overlap_bytes();
        let bytes = line.as_bytes();
        scanner.begin_long(bytes);
        let (mut from, mut to) = (0, step.min(bytes.len()));
        loop {
            scanner.scan_long(&bytes[from..to], to == bytes.len());
            if to == bytes.len() {
                break;
            }
            let next = to.saturating_sub(keep).max(from);
            scanner.pass_long(next - from);
            from = next;
            to = (to + 3).min(bytes.len());
        }
        let ScanOutcome { found, .. } = scanner.finish();
        let query = if is_word { r"\b{start-half}ab\b{end-half}" } else { "ab" };
        let expected = regex::Regex::new(query).unwrap().find(&line).map(|m| m.start() as u64 + 1);
        prop_assert_eq!(found.first().map(|found| found.column), expected);
        if let Some(found) = found.first() {
            let offset = found.shown.offset.unwrap() as usize;
            prop_assert_eq!(&found.shown.text, &line[offset..offset + found.shown.text.len()]);
        }
    }
}

#[test]
fn most_ends_the_search_and_says_that_there_is_more() {
    let pattern = SearchPattern::new("a", PatternOptions::default()).unwrap();
    let page = Some(ScanCut::Page);
    for (most, expected) in [(0, (0, 0, page)), (2, (2, 2, page)), (3, (3, 3, None)), (9, (3, 3, None))] {
        let out = scan(&pattern, &ScanOptions { max_matches: most, ..wants() }, b"a\nb\na\na\n", 3);
        assert_eq!((out.found.len(), out.count, out.cut), expected, "{most}");
    }
    let out = scan(&pattern, &ScanOptions { max_per_file: 2, max_matches: 2, ..wants() }, b"a\nb\na\na\n", 3);
    assert_eq!((out.found.len(), out.cut), (2, Some(ScanCut::PerFile)));
    let out = scan(&pattern, &ScanOptions { max_per_file: 2, after_offset: Some(0), ..wants() }, b"a\nb\na\na\n", 3);
    assert_eq!((out.found.len(), out.cut), (1, Some(ScanCut::PerFile)), "those of the reply before count");
    let out = scan(&pattern, &ScanOptions { counts_only: true, ..wants() }, b"a\nb\na\na\n", 3);
    assert_eq!((out.found.len(), out.count), (0, 3));
}

#[test]
fn a_search_goes_on_behind_an_offset_and_keeps_to_its_lines() {
    let pattern = SearchPattern::new("a", PatternOptions::default()).unwrap();
    let text = b"a\nb\na\na\nb\na\n";
    let numbers = |wants: &ScanOptions| -> Vec<u64> {
        scan(&pattern, wants, text, 3).found.into_iter().map(|found| found.line).collect()
    };
    assert_eq!(numbers(&wants()), [1, 3, 4, 6]);
    assert_eq!(numbers(&ScanOptions { after_offset: Some(0), ..wants() }), [3, 4, 6]);
    assert_eq!(numbers(&ScanOptions { after_offset: Some(4), ..wants() }), [4, 6]);
    assert_eq!(numbers(&ScanOptions { lines: vec![(2, 3), (6, 9)], ..wants() }), [3, 6]);
    assert_eq!(numbers(&ScanOptions { lines: vec![(2, 3)], ..wants() }), [3]);
}

#[test]
fn long_lines_show_a_window_round_the_match() {
    let pattern = SearchPattern::new("needle", PatternOptions::default()).unwrap();
    let line = format!("{}needle{}", "x".repeat(500), "y".repeat(500));
    let ScanOutcome { found, .. } =
        scan(&pattern, &ScanOptions { max_line_bytes: 40, ..wants() }, line.as_bytes(), 100);
    let shown = &found[0].shown;
    assert_eq!((found[0].column, shown.text.len()), (501, 40));
    let (from, to) = shown.spans[0];
    assert_eq!(&shown.text[from as usize..to as usize], "needle");
    assert_eq!(shown.offset.unwrap() + from, 500);
}
