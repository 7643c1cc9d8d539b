//! What a search that found nothing may have been meant to be. Pure.

use regex_syntax::ast;

use crate::wire::types::search::SearchRequest;

/// Queries that are compiled in order to see whether they are regular expressions.
const MAX_QUERY_BYTES: usize = 1000;
/// Groups within groups.
const MAX_NESTING: u32 = 50;

/// Of a search without any match.
pub(super) fn of(request: &SearchRequest) -> Option<String> {
    let query = request.query.as_str();
    let is_regex = request.regex == Some(true);
    if query.contains('\u{8}') {
        let regex = if is_regex { "" } else { " and pass regex: true" };
        return Some(format!(
            "the query holds a backspace character, which is what \\b stands for in JSON; for a word boundary write \\\\b{regex}"
        ));
    }
    let what = regex_syntax_in(query).filter(|_| !is_regex)?;
    Some(format!(
        "the query was taken literally, and looks like a regular expression ({what}); pass regex: true to search for one"
    ))
}

/// Syntax that hardly any text has by chance, in a query that can be compiled.
fn regex_syntax_in(query: &str) -> Option<&'static str> {
    const SIGNS: [&str; 19] = [
        ".*", ".+", "\\w", "\\d", "\\s", "\\b", "\\S", "\\W", "\\(", "\\.", "\\[", "\\|", "(?:", "(?i)", "[^", "[a-z",
        "[A-Z", "[0-9", "]+",
    ];
    let is_choice = || {
        // `a|b`, and not the operators `||` and `|=` nor a pipe between spaces.
        query.split('|').count() > 1
            && query.split('|').all(|part| part.ends_with(is_word) && part.starts_with(|c| is_word(c) || c == '('))
    };
    let is_anchored = || {
        let (first, last) = (query.strip_prefix('^'), query.strip_suffix('$'));
        first.is_some_and(|rest| rest.starts_with(is_word))
            || last.is_some_and(|rest| rest.ends_with([')', ';', '*', '+']))
    };
    let sign = SIGNS.into_iter().find(|sign| query.contains(sign));
    let sign = sign.or_else(|| is_choice().then_some("|")).or_else(|| is_anchored().then_some("^ or $"))?;
    let compiles = query.len() <= MAX_QUERY_BYTES
        && ast::parse::ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(query).is_ok();
    compiles.then_some(sign)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(query: &str, regex: bool) -> Option<String> {
        of(&SearchRequest { query: query.into(), regex: Some(regex), ..SearchRequest::default() })
    }

    #[test]
    fn regular_expressions_that_were_taken_literally_are_recognised() {
        for query in
            [r"fn \w+", "foo.*bar", "foo|bar", "foo|bar|baz", "^import", r"\.rs", "[a-z]+", "end;$", r"log\(x\)"]
        {
            assert!(hint(query, false).is_some_and(|hint| hint.contains("regex: true")), "{query}");
            assert_eq!(hint(query, true), None, "{query}");
        }
        for query in
            ["foo", "a || b", "x |= 1", "a | b", "f(x)", "[id]", "$HOME", "a.b", "C:\\new", "fn(", "(.*", "^", "$5"]
        {
            assert_eq!(hint(query, false), None, "{query}");
        }
    }

    #[test]
    fn a_backspace_is_explained() {
        assert!(hint("\u{8}foo\u{8}", true).is_some_and(|hint| hint.ends_with("write \\\\b")));
        assert!(hint("\u{8}foo", false).is_some_and(|hint| hint.ends_with("pass regex: true")));
    }
}
