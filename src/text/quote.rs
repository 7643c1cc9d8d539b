//! Runs in the worker and in clients: what a caller sent, quoted in a text for people and models. Pure. Trusts nothing in it.

/// The first `max_chars` characters of `text` in double quotes, with the escapes of JSON. `…` follows if something was left out.
/// So a quote inside cannot end the quoted text, and a text stays one line.
pub fn quote(text: &str, max_chars: usize) -> String {
    let (shown, rest) = match text.char_indices().nth(max_chars) {
        Some((end, _)) => (&text[..end], "…"),
        None => (text, ""),
    };
    let quoted = serde_json::Value::from(format!("{shown}{rest}"));
    quoted.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_inside_cannot_end_the_quoted_text() {
        assert_eq!(quote("say \"hi\"", 60), r#""say \"hi\"""#);
        assert_eq!(quote("a\\", 60), r#""a\\""#);
        assert_eq!(quote("a\nb\u{1b}[0m", 60), r#""a\nb\u001b[0m""#);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_before_it_is_escaped() {
        assert_eq!(quote("äöü", 2), "\"äö…\"");
        assert_eq!(quote("\"\"\"", 2), r#""\"\"…""#);
        assert_eq!(quote("äöü", 3), "\"äöü\"");
    }
}
