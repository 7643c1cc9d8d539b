//! Warnings about a request, which its reply carries beside the result. Runs in the worker. The client's text must be cut
//! before it gets here; the number of warnings is limited here.

use serde::Serialize;

/// Warnings that one reply holds. A request can have a hundred thousand unknown fields.
pub const MAX_WARNINGS: usize = 20;

const LEFT_OUT: &str = "more warnings were left out";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a warning, unless it is in the list already: a batch is checked as a whole and entry by entry.
    pub fn push(&mut self, warning: String) {
        if self.is_full() || self.0.contains(&warning) {
            return;
        }
        self.0.push(if self.0.len() < MAX_WARNINGS { warning } else { LEFT_OUT.to_owned() });
    }

    /// True if no warning can be added.
    fn is_full(&self) -> bool {
        self.0.len() > MAX_WARNINGS
    }

    /// The number of warnings that can be added until the list is full.
    pub fn remaining(&self) -> usize {
        (MAX_WARNINGS + 1).saturating_sub(self.0.len())
    }

    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_are_kept_and_one_line_says_that_there_were_more() {
        let mut warnings = Warnings::default();
        (0..20).for_each(|i| warnings.push(i.to_string()));
        assert!(!warnings.is_full() && warnings.as_slice().len() == 20);
        (20..100).for_each(|i| warnings.push(i.to_string()));
        assert_eq!(warnings.as_slice().len(), 21);
        assert_eq!(warnings.as_slice()[19], "19");
        assert_eq!(warnings.as_slice()[20], LEFT_OUT);
    }

    #[test]
    fn a_warning_is_said_once() {
        let mut warnings = Warnings::default();
        warnings.push("a".into());
        warnings.clone().0.into_iter().for_each(|warning| warnings.push(warning));
        assert_eq!(warnings.as_slice(), ["a"]);
    }
}
