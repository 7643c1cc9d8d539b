//! Simple Unicode case folding of paths and of glob patterns, so that both sides of a deny test meet in one form.
//!
//! globset's own option folds ASCII only, and the disk may fold more (a casefold folder of ext4, a Mac):
//! there `.ÉNV` opens `.énv`. Simple folding maps one character to one, so no pattern changes its structure.

use std::borrow::Cow;

/// Members a character class may expand to.
const MAX_CLASS_CHARS: usize = 1024;

/// One-to-one folding (Unicode's C and S mappings). The standard library has no folding table; lower(upper(c)),
/// each only where it is one character, is that table except for the cases named here (a test compares all
/// characters with the regex crate's table).
pub(super) fn fold_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    match c {
        // The dotless ı is a letter by itself; its capital is the ASCII I, which folds to i.
        'ı' => c,
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{fb05}' => '\u{fb06}',
        _ => {
            let upper = single(c, c.to_uppercase());
            single(upper, upper.to_lowercase())
        }
    }
}

fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Borrowed when there is nothing to fold, which is nearly always. Bytes that are not UTF-8 stay as they are.
pub fn fold_path(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(path);
    }
    let mut folded = Vec::with_capacity(path.len() + 8);
    let mut buffer = [0; 4];
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            folded.extend_from_slice(fold_char(c).encode_utf8(&mut buffer).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(folded)
}

/// A pattern for folded paths. `pattern` is valid for globset.
///
/// Classes are expanded: `[A-Z]` has to hold the folds of its members, and globset compares classes byte by
/// byte, so that `[é]` would never match anything.
pub(super) fn fold_pattern(pattern: &str) -> Result<String, String> {
    let mut folded = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                folded.push('\\');
                folded.extend(chars.next().map(fold_char));
            }
            '[' => push_class(&mut folded, &mut chars)?,
            _ => folded.push(fold_char(c)),
        }
    }
    Ok(folded)
}

fn push_class(folded: &mut String, chars: &mut std::str::Chars<'_>) -> Result<(), String> {
    let negated = chars.as_str().starts_with(['!', '^']);
    if negated {
        chars.next();
    }
    let members = class_members(chars)?;
    if !negated {
        let members: Vec<_> = members.iter().map(|c| format!("\\{c}")).collect();
        folded.push_str(&format!("{{{}}}", members.join(",")));
        return Ok(());
    }
    if !members.iter().all(char::is_ascii) {
        return Err("a negated class can hold only ASCII characters".into());
    }
    // `]` is literal only in front, `-` only at the end.
    folded.push_str("[!");
    folded.extend(members.iter().filter(|&&c| c == ']'));
    folded.extend(members.iter().filter(|&&c| c != ']' && c != '-'));
    folded.extend(members.iter().filter(|&&c| c == '-'));
    folded.push(']');
    Ok(())
}

/// Reads up to the closing bracket, by globset's rules: `]` or `-` in front is literal, so is `-` at the end.
fn class_members(chars: &mut std::str::Chars<'_>) -> Result<Vec<char>, String> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut in_range = false;
    loop {
        let c = chars.next().ok_or("unclosed character class")?;
        match (c, ranges.last_mut()) {
            (']', Some(_)) => break,
            ('-', Some(_)) if !in_range => in_range = true,
            (_, Some(last)) if in_range => {
                last.1 = c;
                in_range = false;
            }
            _ => ranges.push((c, c)),
        }
    }
    if in_range {
        ranges.push(('-', '-'));
    }
    let mut members: Vec<char> = Vec::new();
    for c in ranges.into_iter().flat_map(|(from, to)| from..=to) {
        let c = fold_char(c);
        if !members.contains(&c) {
            members.push(c);
        }
        if members.len() > MAX_CLASS_CHARS {
            return Err(format!("a character class holds more than {MAX_CLASS_CHARS} characters"));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_is_unicodes_simple_folding() {
        for (upper, lower) in
            [('É', 'é'), ('ẞ', 'ß'), ('\u{212a}', 'k'), ('ſ', 's'), ('Σ', 'ς'), ('Ж', 'ж'), ('ǅ', 'ǆ'), ('µ', 'μ')]
        {
            assert_eq!(fold_char(upper), fold_char(lower), "{upper} {lower}");
        }
        assert_ne!(fold_char('ı'), fold_char('i'), "dotless i is another letter");
        assert_ne!(fold_char('İ'), fold_char('i'), "dotted capital I folds to two characters, so not at all");
        assert_ne!(fold_char('é'), fold_char('e'));
    }

    /// The oracle is the folding table of the regex crate.
    #[test]
    fn folding_agrees_with_the_regex_crate_for_every_cased_character() {
        let cased: String = (char::MIN..=char::MAX)
            .filter(|&c| fold_char(c) != c || !c.to_uppercase().eq([c]) || !c.to_lowercase().eq([c]))
            .collect();
        // The two tables may be of different Unicode versions.
        let unknown = regex::Regex::new(r"\p{Cn}").expect("a class");
        let cased = unknown.replace_all(&cased, "");
        let mut folds: Vec<char> = cased.chars().map(fold_char).collect();
        folds.sort_unstable();
        folds.dedup();
        for fold in folds {
            let regex = regex::Regex::new(&format!("(?i)[{fold}]")).expect("a class");
            let theirs: String = regex.find_iter(&cased).map(|found| found.as_str()).collect();
            let ours: String = cased.chars().filter(|&c| fold_char(c) == fold).collect();
            assert_eq!(ours, theirs, "fold of {fold:?} (U+{:04X})", fold as u32);
        }
    }

    #[test]
    fn plain_paths_are_not_copied() {
        assert!(matches!(fold_path(b"src/main.rs"), Cow::Borrowed(_)));
        assert_eq!(&*fold_path(b"A\xff\xc3B"), b"a\xff\xc3b", "bytes that are not UTF-8 stay");
    }

    #[test]
    fn folded_patterns_are_valid_globs_with_the_same_meaning() {
        for (pattern, hits, misses) in [
            ("[A-C]X", &["ax", "bx", "cx"][..], &["dx"][..]),
            ("[!A]", &["b"], &["a"]),
            ("[]-]", &["]", "-"], &["a"]),
            ("[!]-]", &["a"], &["]", "-"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[É]", &["é"], &["e"]),
            ("[à-ä]", &["ã"], &["ç"]),
            ("{[A,],B}", &["a", ",", "b"], &["c"]),
            ("\\*\\É", &["*é"], &["xé"]),
            ("[{}^]", &["{", "}", "^"], &["!"]),
        ] {
            globset::Glob::new(pattern).expect("a valid pattern");
            let folded = fold_pattern(pattern).expect("can be folded");
            let glob = globset::Glob::new(&folded).expect("valid when folded").compile_matcher();
            hits.iter().for_each(|hit| assert!(glob.is_match(hit), "{pattern} as {folded}: {hit}"));
            misses.iter().for_each(|miss| assert!(!glob.is_match(miss), "{pattern} as {folded}: {miss}"));
        }
        assert!(fold_pattern("[!é]").is_err());
        assert!(fold_pattern("[a-\u{10ffff}]").is_err());
    }
}
