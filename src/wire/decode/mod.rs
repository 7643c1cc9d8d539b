//! Turns a client's JSON value into a request type, or into an error that an agent can act on. Runs in the worker. Trusts the
//! types and the schemas made from them, and nothing in the value. Describes errors by the schema where it can, not with the
//! text of a library, and quotes only a few words of the client.

mod describe;
mod example;
mod explain;
mod request_schema;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::request_schema::{RequestSchema, UnknownField};
use super::{Error, Result, warnings::Warnings};

/// Unknown fields that one error names. If there are more, the error says so.
const MAX_NAMED_FIELDS: usize = 3;

/// Ends every error for an unknown field in a call that changes something.
pub(super) const NOTHING_CHANGED: &str =
    "nothing was changed, because a call that changes files must not hold a field that would be ignored";

/// Decodes a request that changes nothing, or an entry of a batch that was checked as a whole. `at` is the place of `value`
/// in the request: empty for the request itself, `files[3]` for an entry that is decoded alone. Unknown fields are warned
/// about.
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
    let shape = RequestSchema::of::<T>();
    for unknown in shape.unknown_fields(&value, at, warnings.remaining()) {
        let hint = unknown.suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        warnings.push(format!("{}: unknown field, ignored{hint}", unknown.location));
    }
    deserialize_or_explain(shape, &value, at)
}

/// Decodes a request that changes something. A field that is not known may be a misspelt guard (`dry_run`, `if_match`), so
/// an unknown field at any level, also inside the entries of a batch, refuses the whole request with C210.
pub fn decode_change<T: DeserializeOwned + JsonSchema + 'static>(value: Value) -> Result<T> {
    let shape = RequestSchema::of::<T>();
    // First reports a missing or malformed field of the request itself, because that error already suggests the name that was
    // misspelt.
    let request = deserialize_or_explain(shape, &value, "")?;
    let unknown = shape.unknown_fields(&value, "", MAX_NAMED_FIELDS + 1);
    if unknown.is_empty() { Ok(request) } else { Err(unknown_fields_error(shape, &unknown)) }
}

fn deserialize_or_explain<T: DeserializeOwned + JsonSchema + 'static>(
    shape: &RequestSchema,
    value: &Value,
    at: &str,
) -> Result<T> {
    T::deserialize(value).map_err(|_| {
        let text = explain::by_schema(shape, value, at).unwrap_or_else(|| explain::by_serde::<T>(shape, value, at));
        Error::bad_input(text)
    })
}

fn unknown_fields_error(shape: &RequestSchema, unknown: &[UnknownField]) -> Error {
    let named = unknown.iter().take(MAX_NAMED_FIELDS).map(|unknown| explain::unknown_field(shape, unknown));
    let more = if unknown.len() > MAX_NAMED_FIELDS { "; and more unknown fields" } else { "" };
    let named: Vec<String> = named.collect();
    Error::bad_input(format!("{}{more}; {NOTHING_CHANGED}", named.join("; ")))
}

#[cfg(test)]
mod tests;
