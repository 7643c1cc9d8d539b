//! Line numbers in front of lines: decimal, no padding, then `→`.

/// Between a number and its line.
const ARROW: &str = "→";

/// Bytes of the prefix of line `number`.
pub fn prefix_len(number: u64) -> u64 {
    digits(number) + ARROW.len() as u64
}

pub fn push_prefix(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
    out.extend_from_slice(ARROW.as_bytes());
}

/// Bytes of the prefixes of lines 1 to `last`.
pub fn prefixes_len(last: u64) -> u64 {
    // Each power of ten adds one digit to every number from it on.
    let powers = (0..).map_while(|exponent| 10u64.checked_pow(exponent)).take_while(|&power| power <= last);
    let digits = powers.fold(0u64, |sum, power| sum.saturating_add((last - power).saturating_add(1)));
    digits.saturating_add(last.saturating_mul(ARROW.len() as u64))
}

/// The text without the number and the arrow before each line. None unless every line has both and the numbers rise by one: the
/// text was then not pasted from a numbered read.
pub fn without_prefixes(text: &str) -> Option<String> {
    let mut next = None;
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let (number, rest) = split_prefix(line)?;
        if next.is_some_and(|next| next != number) {
            return None;
        }
        next = Some(number.checked_add(1)?);
        out.push_str(rest);
    }
    next.map(|_| out)
}

/// Whether any line begins with a number and the arrow.
pub fn has_prefix(text: &str) -> bool {
    text.lines().any(|line| split_prefix(line).is_some())
}

fn split_prefix(line: &str) -> Option<(u64, &str)> {
    let (number, rest) = line.split_once(ARROW)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

fn digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_number_and_an_arrow() {
        for number in [1, 9, 10, 99, 100, u64::MAX] {
            let mut out = Vec::new();
            push_prefix(&mut out, number);
            assert_eq!(out, format!("{number}\u{2192}").as_bytes());
            assert_eq!(prefix_len(number), out.len() as u64);
        }
    }

    #[test]
    fn the_sum_is_that_of_the_parts() {
        let mut sum = 0;
        for last in 0..=1234 {
            assert_eq!(prefixes_len(last), sum, "{last}");
            sum += prefix_len(last + 1);
        }
    }

    #[test]
    fn huge_numbers_saturate() {
        assert_eq!(prefixes_len(u64::MAX), u64::MAX);
    }

    #[test]
    fn pasted_numbers_are_those_of_every_line_and_rise_by_one() {
        for (text, expected) in [
            ("12→a\n13→\tb\n", Some("a\n\tb\n")),
            ("9→a\n10→", Some("a\n")),
            ("7→x", Some("x")),
            ("1→2→x", Some("2→x")),
            ("12→a\r\n13→b", Some("a\r\nb")),
            ("", None),
            ("a", None),
            ("→a", None),
            ("12→a\n14→b", None),
            ("12→a\nb", None),
            ("12→a\n\n", None),
            ("+1→a", None),
            ("01→a", None),
            ("99999999999999999999→a", None),
        ] {
            assert_eq!(without_prefixes(text).as_deref(), expected, "{text:?}");
        }
    }
}
