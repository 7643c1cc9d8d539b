//! Renders a unified diff for a terminal. Pure.

use super::{
    escape,
    output::{OutputStyle, Paint},
};

/// Adds colours and escapes control characters for output that a person sees. A program gets the diff unchanged, so that it
/// can apply it.
pub(super) fn render(diff: &str, is_seen: bool, style: OutputStyle) -> String {
    if !is_seen {
        return diff.to_owned();
    }
    let mut text = String::with_capacity(diff.len());
    // Removed and added lines of the hunk that are still to come, because a removed line may itself begin with dashes.
    let mut left = (0, 0);
    for line in diff.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let paint = line_paint(line, &mut left);
        let safe = escape::line(line);
        text.push_str(&paint.map_or_else(|| safe.clone(), |paint| style.paint(paint, &safe)));
        text.push_str(end);
    }
    text
}

fn line_paint(line: &str, left: &mut (u64, u64)) -> Option<Paint> {
    if *left == (0, 0) {
        return match hunk_lengths(line) {
            Some(lengths) => {
                *left = lengths;
                Some(Paint::Link)
            }
            // "\ No newline at end of file" behind the last line of a hunk.
            None if line.starts_with('\\') => Some(Paint::Dim),
            None => Some(Paint::Bold),
        };
    }
    let (paint, old, new) = match line.as_bytes().first() {
        Some(b'+') => (Some(Paint::Good), 0, 1),
        Some(b'-') => (Some(Paint::Removed), 1, 0),
        Some(b'\\') => (Some(Paint::Dim), 0, 0),
        _ => (None, 1, 1),
    };
    *left = (left.0.saturating_sub(old), left.1.saturating_sub(new));
    paint
}

/// The 4 and the 5 of `@@ -3,4 +3,5 @@`; a missing length is 1.
fn hunk_lengths(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut length = |sign| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok())
    };
    Some((length('-')?, length('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\t\u{1b}[2J\n--- b\n+++ c\n d\r\n\\ No newline at end of file\n";

    #[test]
    fn a_program_gets_what_came() {
        assert_eq!(render(DIFF, false, OutputStyle::PLAIN), DIFF);
    }

    #[test]
    fn eyes_get_no_sequences_of_the_file() {
        let shown = render(DIFF, true, OutputStyle::PLAIN);
        assert!(!shown.contains('\x1b') && shown.contains(" a\t\\u001b[2J\n") && shown.contains(" d\\r\n"));
    }

    #[test]
    fn lines_of_a_hunk_that_look_like_headers_are_changes() {
        let style = OutputStyle { color: true, unicode: true, columns: None };
        let shown = render(DIFF, true, style);
        assert!(shown.contains("\x1b[31m--- b\x1b[0m\n") && shown.contains("\x1b[32m+++ c\x1b[0m\n"), "{shown:?}");
        assert!(shown.starts_with("\x1b[1m--- a/x\x1b[0m\n") && shown.contains("\x1b[36m@@ -1,3 +1,3 @@\x1b[0m\n"));
        assert!(shown.ends_with("\x1b[2m\\ No newline at end of file\x1b[0m\n"));
    }

    #[test]
    fn lengths_of_a_hunk_default_to_one() {
        assert_eq!(hunk_lengths("@@ -1 +1,2 @@"), Some((1, 2)));
        assert_eq!(hunk_lengths("@@ -0,0 +1 @@ fn"), Some((0, 1)));
        assert_eq!(hunk_lengths("--- a"), None);
    }
}
