//! Line numbers that were pasted from a numbered read into the content of a new file or of an edit. Runs in the worker. Pure.

use crate::{
    text::number,
    wire::{Error, Result},
};

/// How to handle content in which every line begins with a rising number and `→`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pasted {
    /// Write it as sent, with a warning.
    Warn,
    /// Refuse it (C210).
    Refuse,
    /// Write it without the numbers.
    Strip,
    /// Write it as sent, because the caller set `verbatim`.
    Keep,
}

impl Pasted {
    /// `strict` is a field of the request, the others are fields of the entry.
    pub(super) fn new(strict: bool, verbatim: Option<bool>, strip: Option<bool>) -> Result<Self> {
        Ok(match (verbatim == Some(true), strip == Some(true)) {
            (true, true) => {
                return Err(Error::bad_input(
                    "verbatim cannot be combined with strip_read_prefixes: one writes the content as sent, the other changes it; \
                     drop one of them",
                ));
            }
            (true, false) => Self::Keep,
            (false, true) => Self::Strip,
            (false, false) if strict => Self::Refuse,
            (false, false) => Self::Warn,
        })
    }

    /// Applies the rule to one content. Returns the warning, without the position of the field.
    pub(super) fn apply(self, field: &str, content: &mut String) -> Result<Option<String>> {
        // The first line decides for nearly all contents.
        let Some(stripped) = (self != Self::Keep).then(|| number::without_prefixes(content)).flatten() else {
            return Ok(None);
        };
        match self {
            Self::Refuse => Err(Error::bad_input(format!(
                "{field}: every line begins with a line number and →, as a numbered read shows them; leave them out, or pass \
                 strip_read_prefixes: true to have them removed, or verbatim: true to write them"
            ))),
            Self::Strip => {
                *content = stripped;
                Ok(Some(format!("{field}: the line numbers before its lines were left out")))
            }
            Self::Warn | Self::Keep => Ok(Some(format!(
                "{field}: every line begins with a line number and →, as a numbered read shows them, and was written so; \
                 strip_read_prefixes: true leaves them out, verbatim: true says that they are meant"
            ))),
        }
    }
}

/// The error of an entry, which names its path.
pub(super) fn with_path(sent: &str, error: Error) -> Error {
    Error { message: format!("{sent}: {}", error.message), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASTED: &str = "7→a\n8→b\n";

    fn applied(strict: bool, verbatim: bool, strip: bool, content: &str) -> Result<(String, Option<String>)> {
        let mut content = content.to_owned();
        let warning = Pasted::new(strict, Some(verbatim), Some(strip))?.apply("content", &mut content)?;
        Ok((content, warning))
    }

    #[test]
    fn numbers_are_warned_about_or_refused_unless_the_caller_decides() {
        let (content, warning) = applied(false, false, false, PASTED).unwrap();
        assert_eq!(content, PASTED);
        assert!(warning.unwrap().starts_with("content: every line begins with a line number"));
        let error = applied(true, false, false, PASTED).unwrap_err().to_string();
        assert!(error.starts_with("C210 content: ") && error.contains("verbatim: true"), "{error}");
        for strict in [false, true] {
            assert_eq!(applied(strict, true, false, PASTED).unwrap(), (PASTED.into(), None));
            let (content, warning) = applied(strict, false, true, PASTED).unwrap();
            assert_eq!((content.as_str(), warning.is_some()), ("a\nb\n", true));
            assert!(applied(strict, true, true, "a").is_err());
            for other in ["", "a\n", "7→a\nb\n", "7→a\n9→b\n"] {
                assert_eq!(applied(strict, false, false, other).unwrap(), (other.into(), None), "{other:?}");
            }
        }
    }
}
