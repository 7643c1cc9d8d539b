//! As much JSON as a driver writes.

use std::fmt::Write as _;

pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control < ' ' => write!(quoted, "\\u{:04x}", u32::from(control)).unwrap(),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
