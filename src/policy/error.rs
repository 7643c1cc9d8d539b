//! The one error of a policy: where, which key, what is allowed.

use std::fmt;

/// `policy.toml:12:8: limits.max_read_bytes: …`; without a place when the file as a whole is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// `policy.toml:12:8`, `policy.toml` or `--root`.
    pub place: String,
    pub message: String,
}

impl PolicyError {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// `did you mean …?` if a known word is near, else all of them.
pub(super) fn hint(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|candidate| (distance(word, candidate), candidate)).min();
    match nearest {
        // A third of the letters may be wrong; below that a guess would mislead.
        Some((edits, candidate)) if edits <= 2.max(candidate.len() / 3) && edits < candidate.len() => {
            format!("did you mean `{candidate}`?")
        }
        _ => format!("allowed: {}", known.join(", ")),
    }
}

/// Letters to insert, drop or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, edits) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("é", "e", 1)] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }

    #[test]
    fn far_words_get_the_list_instead_of_a_guess() {
        assert_eq!(hint("treads", &["threads", "pool"]), "did you mean `threads`?");
        assert_eq!(hint("colour", &["threads", "pool"]), "allowed: threads, pool");
        assert_eq!(hint("xy", &["ro", "rw"]), "allowed: ro, rw");
    }
}
