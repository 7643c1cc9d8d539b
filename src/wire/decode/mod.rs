//! Runs in the worker: a client's JSON value becomes a request type, or an answer that an agent can act on.
//! Trusts the types and the schemas made from them, nothing in the value. Never answers with library text where the
//! schema knows better, never repeats more than a few words of the client's.

mod example;
mod explain;
mod shape;
mod words;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::shape::Shape;
use super::{Error, Result, warnings::Warnings};

/// `at` is the place of `value` in the request: empty for the request itself, `files[3]` for an entry of a batch
/// that is decoded alone.
///
/// Decodes from a borrow, because an answer about a failure needs the value; the price is one copy of each string,
/// a tenth of what parsing it cost.
///
/// Unknown fields are found by the schema and not by watching serde (`serde_ignored`): flattened, tagged and
/// untagged types are read through a buffer, and what they skip is invisible from outside. So a serde alias has to
/// stand in the schema, or it would be called unknown.
pub fn decode<T: DeserializeOwned + JsonSchema + 'static>(
    value: Value,
    at: &str,
    warnings: &mut Warnings,
) -> Result<T> {
    let shape = Shape::of::<T>();
    shape.warn_of_unknown_fields(&value, at, warnings);
    T::deserialize(&value).map_err(|_| {
        let text = explain::by_schema(shape, &value, at)
            .unwrap_or_else(|| explain::by_serde::<T>(shape, &value, at));
        Error::bad_input(text)
    })
}

#[cfg(test)]
mod tests;
