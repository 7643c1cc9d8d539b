//! The error type of a policy: position, key, and which values are allowed. Runs where a policy is read. Pure.

use std::fmt;

use crate::edit_distance::edit_distance;

/// `policy.toml:12:8: limits.max_read_bytes: …`; without a place when the file as a whole is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// `policy.toml:12:8`, `policy.toml` or `--root`.
    pub position: String,
    pub message: String,
    /// The other mistakes, in the order of the file.
    pub further: Vec<PolicyError>,
}

impl PolicyError {
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { position: place.into(), message: message.into(), further: Vec::new() }
    }

    /// All mistakes as one error. Fine if there is none.
    pub fn refuse_all(found: Vec<Self>) -> Result<(), Self> {
        let mut found = found.into_iter();
        found.next().map_or(Ok(()), |first| Err(Self { further: found.collect(), ..first }))
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)?;
        self.further.iter().try_for_each(|further| write!(f, "\n{further}"))
    }
}

/// `did you mean …?` if a known word is similar, else the list of all known words.
pub(super) fn hint(word: &str, known: &[&str]) -> String {
    let letters = |word: &str| word.chars().collect::<Vec<_>>();
    let word = letters(word);
    let nearest = known.iter().map(|candidate| (edit_distance(&word, &letters(candidate)), candidate)).min();
    match nearest {
        // A third of the letters may be wrong; below that a guess would mislead.
        Some((edits, candidate)) if edits <= 2.max(candidate.len() / 3) && edits < candidate.len() => {
            format!("did you mean `{candidate}`?")
        }
        _ => format!("allowed: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_words_get_the_list_instead_of_a_guess() {
        assert_eq!(hint("treads", &["threads", "pool"]), "did you mean `threads`?");
        assert_eq!(hint("colour", &["threads", "pool"]), "allowed: threads, pool");
        assert_eq!(hint("xy", &["ro", "rw"]), "allowed: ro, rw");
    }
}
