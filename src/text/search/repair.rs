//! Repairs patterns as agents write them: `foo(`, `${name}`, `map[string]interface{}`. Parts that cannot be regex are taken
//! literally, and the reply states what was searched for instead.

/// Braces that cannot be a repetition are escaped, and with them a `$` directly before one. None: nothing to repair.
/// What stands in a bracket is left alone: braces are plain there.
pub(super) fn braces(pattern: &str) -> Option<String> {
    let bytes = pattern.as_bytes();
    let mut out = String::with_capacity(pattern.len() + 8);
    let (mut at, mut copied) = (0, 0);
    let mut open_repetition = None;
    let escape = |at: usize, copied: &mut usize, out: &mut String| {
        out.push_str(&pattern[*copied..at]);
        out.push('\\');
        *copied = at;
    };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at = after_escape(pattern, at),
            b'[' => at = after_class(bytes, at),
            b'{' => {
                open_repetition = repetition_end(bytes, at);
                if open_repetition.is_none() {
                    let dollar = at.checked_sub(1).filter(|&before| bytes[before] == b'$' && before >= copied);
                    if let Some(dollar) = dollar {
                        escape(dollar, &mut copied, &mut out);
                    }
                    escape(at, &mut copied, &mut out);
                }
                at += 1;
            }
            b'}' => {
                if open_repetition.take() != Some(at) {
                    escape(at, &mut copied, &mut out);
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    (copied > 0 || !out.is_empty()).then(|| out + &pattern[copied..])
}

/// All parentheses as text.
pub(super) fn parentheses(pattern: &str) -> String {
    let bytes = pattern.as_bytes();
    let mut out = String::with_capacity(pattern.len() + 8);
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at = after_escape(pattern, at),
            b'[' => at = after_class(bytes, at),
            b'(' | b')' => {
                out.push_str(&pattern[copied..at]);
                out.push('\\');
                copied = at;
                at += 1;
            }
            _ => at += 1,
        }
    }
    out + &pattern[copied..]
}

/// `{n}`, `{n,}` or `{n,m}` that begins here: where it ends.
fn repetition_end(bytes: &[u8], open: usize) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = open + 1;
    let first = digits(at);
    at += first;
    if first > 0 && bytes.get(at) == Some(&b',') {
        at += 1;
        at += digits(at);
    }
    (first > 0 && bytes.get(at) == Some(&b'}')).then_some(at)
}

/// `\p{Greek}`, `\x{41}` and similar escapes keep their braces, even if unfinished: the error of the compiler then explains
/// what is wrong.
fn after_escape(pattern: &str, at: usize) -> usize {
    let Some(escaped) = pattern[at + 1..].chars().next() else { return at + 1 };
    let after = at + 1 + escaped.len_utf8();
    let rest = &pattern[after..];
    let takes_braces = matches!(escaped, 'p' | 'P' | 'x' | 'u' | 'U')
        || (escaped == 'b' && ["{start", "{end"].iter().any(|form| rest.starts_with(form)));
    match rest.find('}') {
        Some(end) if takes_braces && rest.starts_with('{') => after + end + 1,
        None if takes_braces && rest.starts_with('{') => pattern.len(),
        _ => after,
    }
}

/// Behind the bracket that closes the one here; the end if none does.
fn after_class(bytes: &[u8], open: usize) -> usize {
    // Classes nest, as deep as the pattern is long: counted, not recursed into.
    let (mut at, mut depth) = (open, 0usize);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'[' => {
                depth += 1;
                at += usize::from(bytes.get(at) == Some(&b'^'));
                // A bracket right at the beginning is one of the members.
                at += usize::from(bytes.get(at) == Some(&b']'));
            }
            b']' if depth == 1 => return at,
            b']' => depth -= 1,
            b'\\' => at += 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn braces_that_are_no_repetition_become_text() {
        for (pattern, expected) in [
            ("${name}", r"\$\{name\}"),
            ("foo{bar}", r"foo\{bar\}"),
            ("interface{}", r"interface\{\}"),
            ("{", r"\{"),
            ("}", r"\}"),
            ("a{,3}", r"a\{,3\}"),
            ("a{2}}", r"a{2}\}"),
            ("x{1,2}{y}", r"x{1,2}\{y\}"),
            ("fn {", r"fn \{"),
            ("é{ü}", r"é\{ü\}"),
            ("$${a}", r"$\$\{a\}"),
        ] {
            assert_eq!(braces(pattern).as_deref(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn what_is_regex_stays() {
        for pattern in [
            "a{2,3}",
            "a{2,}",
            "a{2}",
            r"\p{Greek}",
            r"\x{41}",
            r"\u{41}",
            r"\{x\}",
            "[{}]",
            "[]{}]",
            "[^]{}]",
            r"\b{start}a",
            "[a[{}]b]",
            r"\p{Greek",
            "a",
            "",
            r"\",
        ] {
            assert_eq!(braces(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn classes_in_classes_take_no_stack() {
        assert_eq!(braces(&"[".repeat(1 << 20)), None);
        assert_eq!(braces("[a[b]{}]{x}").as_deref(), Some(r"[a[b]{}]\{x\}"));
    }

    #[test]
    fn parentheses_become_text() {
        assert_eq!(parentheses(r"foo(a[()]\(b)"), r"foo\(a[()]\(b\)");
    }

    proptest! {
        #[test]
        fn a_repaired_pattern_needs_no_repair(pattern in r"[a{}()\[\]\\,0-9p$é^]{0,12}") {
            if let Some(repaired) = braces(&pattern) {
                prop_assert_eq!(braces(&repaired), None, "{}", repaired);
            }
            let text = parentheses(&pattern);
            prop_assert_eq!(parentheses(&text), text);
        }
    }
}
