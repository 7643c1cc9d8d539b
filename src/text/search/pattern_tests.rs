use super::*;

fn regex(query: &str) -> Result<SearchPattern, String> {
    SearchPattern::new(query, PatternOptions { is_regex: true, ..PatternOptions::default() })
}

fn matches(pattern: &SearchPattern, line: &str) -> bool {
    let mut scratch = pattern.scratch(|| false);
    let text = format!("{line}\n");
    pattern.candidate(&mut scratch, text.as_bytes(), 0).is_some()
        && pattern.confirms(&mut scratch, line.as_bytes(), false)
}

#[test]
fn a_query_is_text_unless_it_is_said_to_be_regex() {
    let text = SearchPattern::new("a.c", PatternOptions::default()).unwrap();
    assert!(matches(&text, "xa.cx") && !matches(&text, "abc") && !matches(&text, "A.C"));
    assert!(matches(&regex("a.c").unwrap(), "abc"));
    let folded = SearchPattern::new("É.", PatternOptions { ignores_case: true, ..PatternOptions::default() }).unwrap();
    assert!(matches(&folded, "é.") && !matches(&folded, "éx"));
}

/// RW-60 to RW-64.
#[test]
fn what_is_no_regex_is_repaired_and_told() {
    for (query, used, hit) in [
        ("${name}", Some(r"\$\{name\}"), "${name}"),
        ("foo(", Some(r"foo\("), "foo("),
        ("a)", Some(r"a\)"), "a)"),
        ("f({", Some(r"f\(\{"), "f({"),
        ("a{2,3}", None, "aaa"),
        (r"\p{Greek}", None, "α"),
    ] {
        let pattern = regex(query).unwrap();
        assert_eq!(pattern.repaired(), used, "{query}");
        assert!(matches(&pattern, hit), "{query}");
    }
    let strict = |query| {
        SearchPattern::new(query, PatternOptions { is_regex: true, no_repair: true, ..PatternOptions::default() })
    };
    assert!(strict("(a").unwrap_err().contains("unclosed group"));
    assert!(strict("a{x}").is_err() && strict("(a)").is_ok());
    assert!(regex("[a").unwrap_err().contains("unclosed character class"));
    assert!(regex("*").unwrap_err().contains("repetition operator missing expression"));
}

#[test]
fn bombs_are_refused_with_what_to_do() {
    let refused = |query: &str| regex(query).unwrap_err();
    let start = std::time::Instant::now();
    assert!(refused(r"\w{2000}").contains("too large when compiled"));
    assert!(refused("(?:(?:(?:a{100}){100}){100}){100}").contains("too large when compiled"));
    assert!(refused(&"a".repeat(9000)).contains("at most 8192 bytes"));
    assert!(refused(&"(".repeat(200).replace('(', "(a").add_closing(200)).contains("nested parentheses"));
    assert!(SearchPattern::new(&"a".repeat(70_000), PatternOptions::default()).unwrap_err().contains("at most 65536"));
    assert!(refused(&r"\w".repeat(4096)).contains("more than 200 character classes"));
    let _ = regex(&format!("(?i){}", r"\p{L}".repeat(199)));
    let _ = regex(&format!("(?i){}", "[^a]".repeat(199)));
    let _ = regex(&"a|b|".repeat(2000));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

trait AddClosing {
    fn add_closing(self, count: usize) -> String;
}

impl AddClosing for String {
    fn add_closing(self, count: usize) -> String {
        self + &")".repeat(count)
    }
}

#[test]
fn multiline_is_on_where_the_pattern_has_a_break_or_as_told() {
    let multiline = |query, is_regex, multiline| {
        SearchPattern::new(query, PatternOptions { is_regex, multiline, ..PatternOptions::default() })
            .map(|p| p.is_multiline())
    };
    assert_eq!(multiline("a", true, None), Ok(false));
    assert_eq!(multiline(r"a\nb", true, None), Ok(true));
    assert_eq!(multiline("a\nb", false, None), Ok(true));
    assert_eq!(multiline(r"a\nb", false, None), Ok(false), "two characters of a literal");
    assert_eq!(multiline("a", true, Some(true)), Ok(true));
    for (query, is_regex) in [(r"a\nb", true), ("a\nb", false), (r"[\n]", true)] {
        assert!(multiline(query, is_regex, Some(false)).unwrap_err().contains("multiline: true"), "{query:?}");
    }
    assert_eq!(multiline(r"a\s", true, Some(false)), Ok(false), "it can match something else");
}

#[test]
fn only_plain_texts_stream() {
    assert_eq!(SearchPattern::new("abc", PatternOptions::default()).unwrap().literal_len(), Some(3));
    assert_eq!(regex("a+b").unwrap().literal_len(), None);
    assert_eq!(regex(r"a\.b").unwrap().literal_len(), Some(3), "a regex that is a plain text");
    assert_eq!(regex(r"\bab\b").unwrap().literal_len(), None);
}

#[test]
fn words_end_where_characters_say_so() {
    let word =
        |query: &str| SearchPattern::new(query, PatternOptions { is_word: true, ..PatternOptions::default() }).unwrap();
    for (query, line, expected) in [
        ("foo", "a foo b", true),
        ("foo", "foobar", false),
        ("foo", "xfoo foo", true),
        ("foo", "éfoo", false),
        ("foo", "fooé", false),
        ("foo", "→foo→", true),
        ("-x", "a -x", true),
        ("-x", "a-x", false),
        ("", "", true),
    ] {
        assert_eq!(matches(&word(query), line), expected, "{query} {line}");
    }
    let pattern = word("foo");
    let mut scratch = pattern.scratch(|| false);
    assert!(!pattern.confirms(&mut scratch, b"\xfffoo", false), "no character, no boundary");
    let either = PatternOptions { is_word: true, is_regex: true, ..PatternOptions::default() };
    let either = SearchPattern::new("foo|foobar", either).unwrap();
    assert!(matches(&either, "foobar") && matches(&either, "foo") && !matches(&either, "fooba"));
}
