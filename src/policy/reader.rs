//! Reads TOML values by key and remembers where each stands. Knows nothing of what the keys mean.
//!
//! Not serde: its errors for an unknown key or a bad value have the place, but neither the range that is allowed nor
//! the nearest key.

use std::ops::{Range, RangeInclusive};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::{PolicyError, hint};

type Value<'d> = Spanned<DeValue<'d>>;

/// The text and its name, to turn an offset into `source:line:column`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'d> {
    pub(super) text: &'d str,
    pub(super) source: &'d str,
}

impl Document<'_> {
    pub(super) fn place(&self, span: Range<usize>) -> String {
        let before = &self.text[..span.start.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        format!("{}:{line}:{column}", self.source)
    }
}

/// One table of the document, all of whose keys are known.
#[derive(Debug)]
pub(super) struct Section<'d> {
    document: Document<'d>,
    /// `limits.`, `root.`; empty at the top.
    prefix: String,
    span: Range<usize>,
    table: &'d DeTable<'d>,
    known: Vec<&'d str>,
}

/// A value and what an error about it needs.
pub(super) struct Field<'s, 'd, T> {
    pub(super) value: T,
    key: &'s str,
    span: Range<usize>,
    section: &'s Section<'d>,
}

impl<T> Field<'_, '_, T> {
    /// Says which key, and what is wrong with its value.
    pub(super) fn error(&self, what: impl AsRef<str>) -> PolicyError {
        self.section.error_at(self.span.clone(), self.key, what.as_ref())
    }
}

impl<'d> Section<'d> {
    /// The whole document.
    pub(super) fn top(
        document: Document<'d>,
        table: &'d Spanned<DeTable<'d>>,
        known: &[&'d str],
    ) -> Result<Self, PolicyError> {
        Self::checked(document, String::new(), table.span(), table.get_ref(), known)
    }

    fn checked(
        document: Document<'d>,
        prefix: String,
        span: Range<usize>,
        table: &'d DeTable<'d>,
        known: &[&'d str],
    ) -> Result<Self, PolicyError> {
        let section = Self { document, prefix, span, table, known: known.to_vec() };
        let unknown = table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            Some(key) => {
                let what = format!("unknown key; {}", hint(key.get_ref(), known));
                Err(section.error_at(key.span(), key.get_ref(), &what))
            }
            None => Ok(section),
        }
    }

    pub(super) fn place(&self) -> String {
        self.document.place(self.span.clone())
    }

    /// An error about the table as a whole.
    pub(super) fn error(&self, what: &str) -> PolicyError {
        PolicyError::new(self.place(), format!("{}: {what}", self.prefix.trim_end_matches('.')))
    }

    fn error_at(&self, span: Range<usize>, key: &str, what: &str) -> PolicyError {
        PolicyError::new(self.document.place(span), format!("{}{key}: {what}", self.prefix))
    }

    /// `pick` takes the right type out of a value; anything else is an error that says what was expected.
    fn field<'s, T>(
        &'s self,
        key: &'s str,
        expected: &str,
        pick: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
    ) -> Result<Option<Field<'s, 'd, T>>, PolicyError> {
        debug_assert!(self.known.contains(&key), "a key that is read is a key that is known: {key}");
        let Some(found) = self.table.get(key) else { return Ok(None) };
        match pick(found.get_ref()) {
            Some(value) => Ok(Some(Field { value, key, span: found.span(), section: self })),
            None => {
                let what =
                    format!("expected {expected}, found a value of type {}", found.get_ref().type_str());
                Err(self.error_at(found.span(), key, &what))
            }
        }
    }

    pub(super) fn text<'s>(&'s self, key: &'s str) -> Result<Option<Field<'s, 'd, &'d str>>, PolicyError> {
        self.field(key, "a text", DeValue::as_str)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, PolicyError> {
        Ok(self.field(key, "true or false", DeValue::as_bool)?.map(|field| field.value))
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, PolicyError> {
        let Some(field) = self.field(key, "a whole number", DeValue::as_integer)? else { return Ok(None) };
        let value = u64::from_str_radix(field.value.as_str(), field.value.radix()).ok();
        match value.filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => {
                let (from, to) = range.into_inner();
                Err(field.error(format!("{} is out of range; allowed: {from} to {to}", field.value)))
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, PolicyError> {
        let Some(field) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == field.value) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let allowed: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Err(field.error(format!(
                    "\"{}\" is not allowed; allowed: {}",
                    field.value,
                    allowed.join(", ")
                )))
            }
        }
    }

    pub(super) fn texts<'s>(
        &'s self,
        key: &'s str,
    ) -> Result<Option<Vec<Field<'s, 'd, &'d str>>>, PolicyError> {
        let Some(list) = self.field(key, "a list of texts", DeValue::as_array)? else { return Ok(None) };
        let item = |item: &'d Value<'d>| {
            let field = Field { value: "", key, span: item.span(), section: self };
            match item.get_ref().as_str() {
                Some(value) => Ok(Field { value, ..field }),
                None => Err(field.error("expected a list of texts; this entry is none")),
            }
        };
        list.value.iter().map(item).collect::<Result<_, _>>().map(Some)
    }

    /// A `[key]` table; None when absent.
    pub(super) fn section(&self, key: &str, known: &[&'d str]) -> Result<Option<Section<'d>>, PolicyError> {
        let expected = format!("a table `[{key}]`");
        let Some(field) = self.field(key, &expected, DeValue::as_table)? else { return Ok(None) };
        Self::checked(self.document, format!("{key}."), field.span, field.value, known).map(Some)
    }

    /// `[[key]]` tables, in order.
    pub(super) fn sections(&self, key: &str, known: &[&'d str]) -> Result<Vec<Section<'d>>, PolicyError> {
        let expected = format!("tables `[[{key}]]`");
        let Some(list) = self.field(key, &expected, DeValue::as_array)? else { return Ok(Vec::new()) };
        let table = |item: &'d Value<'d>| match item.get_ref().as_table() {
            Some(table) => Self::checked(self.document, format!("{key}."), item.span(), table, known),
            None => Err(self.error_at(item.span(), key, &format!("expected {expected}"))),
        };
        list.value.iter().map(table).collect()
    }
}
