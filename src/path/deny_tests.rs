use proptest::prelude::*;

use globset::Glob;

use super::*;

fn globs(patterns: &[&str]) -> DenyGlobs {
    let patterns: Vec<_> = patterns.iter().map(|pattern| pattern.to_string()).collect();
    DenyGlobs::new(&patterns, &[]).expect("valid patterns")
}

fn seed() -> DenyGlobs {
    globs(&["**/.env", "**/.env.*", "**/*.pem", "**/*.key", "**/secrets/**"])
}

#[test]
fn the_seed_globs_hide_what_they_name() {
    let globs = seed();
    for hit in [".env", "a/.env", ".env.local", "a/b.pem", "x.key", "secrets/x", "a/secrets/b/c"] {
        assert!(globs.matches(hit.as_bytes()), "{hit}");
    }
    for miss in ["", "env", "a/.envrc", "pem", "a.pem.txt", "secrets", "secretsx/y", "src/main.rs"] {
        assert!(!globs.matches(miss.as_bytes()), "{miss}");
    }
}

#[test]
fn a_denied_ancestor_denies_everything_below() {
    let globs = seed();
    for hit in [".env/x", "a/.env/b/c", "dir.pem/readme"] {
        assert!(globs.matches(hit.as_bytes()), "{hit}");
    }
}

#[test]
fn case_does_not_open_a_door() {
    let globs = globs(&["**/.env", "geheim/[A-F]*", "**/É.txt", "**/straße", "**/*.KEY", "ŉ", "**/id"]);
    for hit in [
        ".ENV",
        "a/.Env",
        "GEHEIM/b1",
        "geheim/B1",
        "x/é.TXT",
        "STRAẞE",
        "x.key",
        "x.\u{212a}ey",
        "x.\u{212a}EY",
        "ŉ",
        "ID",
    ] {
        assert!(globs.matches(hit.as_bytes()), "{hit}");
    }
    for miss in ["geheim/g", "x/e.txt", "STRASSE", "ıd", "İd"] {
        assert!(!globs.matches(miss.as_bytes()), "{miss}");
    }
}

#[test]
fn bytes_that_are_not_utf8_compare_as_they_are() {
    let globs = globs(&["**/*.pem", "a?b"]);
    assert!(globs.matches(b"d/\xff\xfe.PEM") && globs.matches(b"A\xffB"));
    assert!(!globs.matches(b"\xff.pe\xff"));
}

#[test]
fn the_root_itself_is_never_denied() {
    for pattern in ["**", "*", "**/**"] {
        let globs = globs(&[pattern]);
        assert!(!globs.matches(b"") && !globs.covers_folder(b""));
        assert!(globs.matches(b"x"), "{pattern}");
    }
}

#[test]
fn a_folder_whose_content_is_denied_is_covered_as_an_operand() {
    let globs = globs(&["**/secrets/**", "keys/*", "deep/{x,y}/**"]);
    for hit in ["secrets", "a/SECRETS", "keys", "deep/y", "secrets/sub"] {
        assert!(globs.covers_folder(hit.as_bytes()), "{hit}");
    }
    for miss in ["a", "secret", "deep", "mykeys"] {
        assert!(!globs.covers_folder(miss.as_bytes()), "{miss}");
    }
    assert!(!globs.matches(b"secrets"), "it may still be listed");
}

#[test]
fn private_state_is_denied_at_the_top_of_a_root_only() {
    let globs = globs(&[]);
    let hits = [".stockade", ".STOCKADE", ".\u{17f}toc\u{212a}ade", ".stockade-0123456789abcdef"];
    for hit in hits.into_iter().chain([".Stockade-0123456789ABCDEF", ".\u{17f}tockade-0000000000000000"]) {
        assert!(globs.matches(hit.as_bytes()) && is_private_name(hit.as_bytes()), "{hit}");
        let below = format!("{hit}/1000/journal");
        assert!(globs.matches(below.as_bytes()) && globs.covers_folder(hit.as_bytes()), "{below}");
        let deeper = format!("a/{hit}");
        assert!(!globs.matches(deeper.as_bytes()), "{deeper}");
    }
    for miss in [
        ".stockade2",
        "stockade",
        ".stockade-",
        ".stockade-notes",
        ".stockade-0123456789abcde",
        ".stockade-0123456789abcdef0",
        ".stockade-0123456789abcdeg",
        ".stockade.0123456789abcdef",
        ".stockade-tmp-0123456789abcdef0123456789abcdef",
    ] {
        assert!(!globs.matches(miss.as_bytes()) && !is_private_name(miss.as_bytes()), "{miss}");
    }
}

#[test]
fn patterns_that_could_never_match_are_refused() {
    for pattern in ["", "/etc", "secrets/", "a//b", "./a", "../x", "a/./b"] {
        let (named, error) = DenyGlobs::new(&[pattern.to_string()], &[]).expect_err(pattern);
        assert!(named == pattern && error.contains("relative to a root"), "{pattern}: {error}");
    }
    for pattern in ["[a", "{a", "[z-a]", "[!é]"] {
        assert!(DenyGlobs::new(&[pattern.to_string()], &[]).is_err(), "{pattern}");
    }
}

#[test]
fn the_deciding_pattern_is_named_as_written() {
    let globs = globs(&["**/*.PEM", "Secrets/**"]);
    assert_eq!(globs.deciding(b"x.pem/y"), Some("**/*.PEM"));
    assert_eq!(globs.deciding(b"secrets/y"), Some("Secrets/**"));
    assert_eq!(globs.deciding(b".stockade/y"), Some(".stockade"));
    assert_eq!(globs.deciding(b".stockade-0123456789abcdef/y"), Some(".stockade"));
    assert_eq!(globs.deciding(b"x"), None);
}

#[test]
fn globs_cross_to_the_worker_as_their_patterns() {
    let json = serde_json::to_string(&seed()).expect("serialises");
    assert!(json.starts_with(r#"{"globs":["**/.env","#));
    let back: DenyGlobs = serde_json::from_str(&json).expect("deserialises");
    assert!(back.matches(b"x/.env"));
    assert!(serde_json::from_str::<DenyGlobs>(r#"{"globs":["[a"],"except":[]}"#).is_err());
}

/// One-to-one case changes only, which is what simple folding knows.
fn swap_case(path: &str) -> String {
    let swap = |c: char| {
        let other: String = if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() };
        let back = other.chars().next().filter(|_| other.chars().count() == 1);
        back.filter(|_| c != 'ı').unwrap_or(c)
    };
    path.chars().map(swap).collect()
}

proptest! {
    #[test]
    fn denial_does_not_depend_on_case(
        path in "[a-cA-CéÉßẞжЖ.KkıİſS]{1,4}(/[a-cA-CéÉжЖ.envENV]{1,4}){0,3}",
        pattern in "(\\*\\*/)?[a-cA-CéÉßẞжЖ*.kſ]{1,4}(/\\*\\*)?",
    ) {
        prop_assume!(DenyGlobs::new(std::slice::from_ref(&pattern), &[]).is_ok());
        let lower = globs(&[&pattern]);
        let swapped = globs(&[&swap_case(&pattern)]);
        let other = swap_case(&path);
        prop_assert_eq!(lower.matches(path.as_bytes()), lower.matches(other.as_bytes()));
        prop_assert_eq!(lower.matches(path.as_bytes()), swapped.matches(path.as_bytes()));
        prop_assert_eq!(lower.covers_folder(path.as_bytes()), swapped.covers_folder(other.as_bytes()));
    }

    #[test]
    fn denial_is_inherited(path in "[a-c.]{1,3}(/[a-c.]{1,3}){0,3}", pattern in "[a-c.*?]{1,4}") {
        prop_assume!(DenyGlobs::new(std::slice::from_ref(&pattern), &[]).is_ok());
        let globs = globs(&[&pattern]);
        let below = format!("{path}/x");
        prop_assert!(!globs.matches(path.as_bytes()) || globs.matches(below.as_bytes()));
    }

    /// The oracle: every prefix of the path tested by itself with the plain pattern.
    #[test]
    fn one_pass_equals_testing_every_ancestor(
        // Never `.` or `..`: no checked path has such a name, and globset takes them for no name at all.
        path in "([a-c.]{0,2}[a-c]|[a-c][a-c.]{0,2}|\\.{3})(/([a-c.]{0,2}[a-c]|[a-c][a-c.]{0,2}|\\.{3})){0,5}",
        pattern in "(\\*\\*/)?[a-c.*?]{1,4}(/[a-c*?]{1,3})?(/\\*\\*)?",
    ) {
        prop_assume!(DenyGlobs::new(std::slice::from_ref(&pattern), &[]).is_ok());
        let alone = Glob::new(&pattern).expect("compiles").compile_matcher();
        let slashes = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let expected = slashes.into_iter().any(|end| alone.is_match(&path[..end]));
        prop_assert_eq!(globs(&[&pattern]).matches(path.as_bytes()), expected, "{} {}", pattern, path);
    }
}

#[test]
fn a_path_of_two_thousand_components_costs_one_pass() {
    let globs = globs(&["**/.env", "**/.env.*", "**/*.pem", "**/*.key", "**/secrets/**"]);
    let path = vec!["a"; 2047].join("/");
    let start = std::time::Instant::now();
    for _ in 0..100 {
        assert!(!globs.matches(path.as_bytes()));
    }
    // A pass takes microseconds, the quadratic way took tens of milliseconds even optimised.
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
}

fn excepting(patterns: &[&str], except: &[&str]) -> DenyGlobs {
    let strings = |globs: &[&str]| globs.iter().map(|glob| glob.to_string()).collect::<Vec<_>>();
    DenyGlobs::new(&strings(patterns), &strings(except)).expect("valid patterns")
}

#[test]
fn an_exception_shows_a_name_but_never_below_a_denied_folder() {
    let globs = excepting(
        &["**/.env.*", "**/private", "**/secrets/**", "**/.env"],
        &["**/.env.example", "**/private/ok", "**/secrets/ok", "**/open"],
    );
    for shown in [".env.example", "a/.ENV.Example", ".env.example/x", ".env.example/.env", "open/.env"] {
        assert!(!globs.matches(shown.as_bytes()), "{shown}");
        assert!(!globs.covers_folder(shown.as_bytes()) && globs.deciding(shown.as_bytes()).is_none());
    }
    for hidden in [
        ".env.examples",
        ".env.local",
        ".env.d/.env.example",
        "private/ok",
        "private/.env.example",
        "secrets/ok",
        "secrets/.env.example",
        "secrets/a/.env.example",
        "open.env/.env",
        "private/open/x",
    ] {
        assert!(globs.matches(hidden.as_bytes()), "{hidden}");
    }
    assert!(globs.covers_folder(b"secrets") && !globs.covers_folder(b"open"));
    assert_eq!(globs.deciding(b"secrets/ok"), Some("**/secrets/**"));
}

#[test]
fn a_folder_that_is_an_exception_is_shown_with_its_content() {
    let globs = excepting(&["**/secrets/**"], &["**/secrets"]);
    assert!(!globs.matches(b"secrets/x") && !globs.covers_folder(b"a/secrets"));
    assert!(globs.matches(b".stockade/x"), "no exception shows the service's own state");
    assert!(excepting(&[], &["**"]).matches(b".stockade"));
}

proptest! {
    /// The expected value is found by testing every prefix of the path: the shortest excepted one, and its folder.
    #[test]
    fn halving_finds_the_exception_that_testing_every_beginning_finds(
        path in "[a-c]{1,2}(/[a-c]{1,2}){0,5}",
        pattern in "(\\*\\*/)?[a-c*]{1,2}(/[a-c*]{1,2})?(/\\*\\*)?",
        except in "(\\*\\*/)?[a-c*]{1,2}(/[a-c*]{1,2})?",
    ) {
        let valid = |glob: &String| DenyGlobs::new(std::slice::from_ref(glob), &[]).is_ok();
        prop_assume!(valid(&pattern) && valid(&except));
        let (plain, shown) = (globs(&[&pattern]), globs(&[&except]));
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).chain([path.len()]).collect();
        let first = ends.iter().position(|end| shown.matches(&path.as_bytes()[..*end]));
        let expected = match first {
            None => plain.matches(path.as_bytes()),
            Some(0) => false,
            Some(at) => plain.covers_folder(&path.as_bytes()[..ends[at - 1]]),
        };
        let both = excepting(&[&pattern], &[&except]);
        prop_assert_eq!(both.matches(path.as_bytes()), expected, "{} {} {}", pattern, except, path);
    }
}
