//! Indents JSON for a terminal, with members in the received order and numbers with the received digits. Pure.
//!
//! Re-indents the text instead of parsing it into values, which would sort keys and round numbers.

use super::{
    escape,
    output::{OutputStyle, Paint},
};

const INDENT: &str = "  ";

/// `json` must be valid; the function that received it has checked it.
pub(super) fn push_pretty_json(json: &str, style: OutputStyle, text: &mut String) {
    let mut depth = 0usize;
    let mut rest = json.trim();
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '{' | '[' => {
                text.push(c);
                let inner = rest[1..].trim_start();
                if inner.starts_with(['}', ']']) {
                    text.push_str(&inner[..1]);
                    taken = rest.len() - inner.len() + 1;
                } else {
                    depth += 1;
                    break_line(depth, text);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(depth, text);
                text.push(c);
            }
            ',' => {
                text.push(c);
                break_line(depth, text);
            }
            ':' => text.push_str(": "),
            '"' => {
                taken = string_length(rest);
                push_string(&rest[..taken], rest[taken..].trim_start().starts_with(':'), style, text);
            }
            c if c.is_ascii_whitespace() => {}
            c => text.push(c),
        }
        rest = &rest[taken..];
    }
}

fn break_line(depth: usize, text: &mut String) {
    text.push('\n');
    (0..depth).for_each(|_| text.push_str(INDENT));
}

fn push_string(string: &str, is_key: bool, style: OutputStyle, text: &mut String) {
    let safe = escape::json(string);
    text.push_str(&if is_key { style.paint(Paint::Bold, &safe) } else { safe });
}

/// Bytes of the string that `json` begins with, both quotes included.
fn string_length(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pretty(json: &str) -> String {
        let mut text = String::new();
        push_pretty_json(json, OutputStyle::PLAIN, &mut text);
        text
    }

    #[test]
    fn order_digits_and_escapes_survive() {
        let json = r#"{"b":1.10,"a":[1e400,"x\"{,:\\"],"e":{},"l":[ ]}"#;
        let shown = pretty(json);
        assert_eq!(
            shown,
            "{\n  \"b\": 1.10,\n  \"a\": [\n    1e400,\n    \"x\\\"{,:\\\\\"\n  ],\n  \"e\": {},\n  \"l\": []\n}"
        );
    }

    #[test]
    fn pretty_form_means_the_same() {
        let json = r#"{"a":[{"b":[[],[1,2]]},"é \u001b",null,true],"c":""}"#;
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&pretty(json)), parse(json));
        assert_eq!(pretty(&pretty(json)), pretty(json));
    }

    #[test]
    fn control_characters_of_the_upper_half_are_written_as_escapes() {
        assert_eq!(pretty("\"a\u{9b}31m\u{202e}\""), "\"a\\u009b31m\\u202e\"");
    }
}
