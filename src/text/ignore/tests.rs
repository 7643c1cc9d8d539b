use proptest::prelude::*;

use super::{
    IgnoreVerdict::{Ignored, Kept},
    *,
};

fn verdict(rules: &str, path: &str) -> Option<IgnoreVerdict> {
    let (path, is_dir) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
    IgnoreRules::parse(rules.as_bytes()).verdict(path.as_bytes(), is_dir)
}

/// From gitignore(5), sentence by sentence.
#[test]
fn rules_mean_what_the_manual_says() {
    for (rules, path, expected) in [
        ("\n\n", "a", None),
        ("#a", "#a", None),
        ("\\#a", "#a", Some(Ignored)),
        ("a  ", "a", Some(Ignored)),
        ("a\\ ", "a ", Some(Ignored)),
        ("a\\ ", "a", None),
        ("*.o\n!x.o", "x.o", Some(Kept)),
        ("!x.o\n*.o", "x.o", Some(Ignored)),
        ("\\!a", "!a", Some(Ignored)),
        ("/a", "a", Some(Ignored)),
        ("/a", "b/a", None),
        ("a", "b/a", Some(Ignored)),
        ("doc/frotz", "doc/frotz", Some(Ignored)),
        ("doc/frotz/", "a/doc/frotz/", None),
        ("doc/frotz/", "doc/frotz/", Some(Ignored)),
        ("doc/frotz/", "doc/frotz", None),
        ("frotz/", "a/frotz/", Some(Ignored)),
        ("foo/*", "foo/test.json", Some(Ignored)),
        ("foo/*", "foo/bar/hello.c", None),
        ("**/foo", "foo", Some(Ignored)),
        ("**/foo", "a/b/foo", Some(Ignored)),
        ("**/foo/bar", "a/foo/bar", Some(Ignored)),
        ("**/foo/bar", "foo/a/bar", None),
        ("abc/**", "abc/x/y", Some(Ignored)),
        ("abc/**", "abc/", None),
        ("a/**/b", "a/b", Some(Ignored)),
        ("a/**/b", "a/x/y/b", Some(Ignored)),
        ("a**/b", "ax/b", Some(Ignored)),
        // Git differs from its manual here: it removes the literal prefix of the pattern first.
        ("a**/b", "ax/y/b", Some(Ignored)),
        ("[a]**/b", "ax/y/b", None),
        ("a/***/b", "a/x/y/b", Some(Ignored)),
        ("a\\/b", "a/b", Some(Ignored)),
        ("foo.[ch]", "foo.h", Some(Ignored)),
        ("foo.[!ch]", "foo.h", None),
        ("[[:digit:]]x", "7x", Some(Ignored)),
        ("[a-c]", "b", Some(Ignored)),
        ("[]-]", "]", Some(Ignored)),
        ("[a", "[a", None),
        ("a\\", "a\\", None),
        ("a?c", "abc", Some(Ignored)),
        ("{a,b}", "a", None),
        ("{a,b}", "{a,b}", Some(Ignored)),
        ("a\r\nb\r", "a", Some(Ignored)),
        ("\u{feff}a", "a", Some(Ignored)),
        ("a//", "a/", None),
        ("/", "a/", None),
        ("A", "a", None),
    ] {
        assert_eq!(verdict(rules, path), expected, "{rules:?} {path:?}");
    }
}

#[test]
fn stars_cost_no_more_than_pattern_times_name() {
    let rules = format!("{}b\n{}b", "*a".repeat(100), "**/a/".repeat(100));
    let name = "a".repeat(200);
    assert_eq!(verdict(&rules, &name), None);
    assert_eq!(verdict(&rules, &vec!["a"; 1000].join("/")), None);
    assert_eq!(verdict(&rules, &format!("{name}b")), Some(Ignored));
}

/// A simple implementation of the same rules, for comparison.
fn naive(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
        (Some((b'?', rest)), Some((_, tail))) => naive(rest, tail),
        (Some((own, rest)), Some((byte, tail))) => own == byte && naive(rest, tail),
        _ => false,
    }
}

proptest! {
    #[test]
    fn wildcards_match_as_the_naive_matcher(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        let matches = wildcard::Wildcard::parse(pattern.as_bytes()).matches(name.as_bytes());
        prop_assert_eq!(matches, naive(pattern.as_bytes(), name.as_bytes()), "{} {}", pattern, name);
    }

    #[test]
    fn no_rule_and_no_name_panics(rules: Vec<u8>, path in "[a-c/\\[\\]*?!-]{1,12}", is_dir: bool) {
        IgnoreRules::parse(&rules).verdict(path.as_bytes(), is_dir);
    }
}
