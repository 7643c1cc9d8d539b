//! Describes schemas and values in plain text for error messages. Runs in the worker when a request cannot be decoded. Trusts
//! the schema; quotes only the beginning of the client's text.

use serde_json::{Map, Value};

use super::request_schema::{RequestSchema, literals, tags, type_names, unions};
use crate::wire::{json::excerpt, nearest::nearest};

/// Literals named in one message.
const MAX_LITERALS: usize = 20;

/// Describes the values that a schema accepts.
pub(super) fn describe_expected(shape: &RequestSchema, schema: &Value) -> String {
    let Some(part) = shape.resolve(schema).as_object() else { return "another value".into() };
    if let Some(allowed) = literals(part) {
        return describe_choices(&allowed);
    }
    let mut words: Vec<String> = type_names(part)
        .into_iter()
        .filter(|kind| *kind != "null")
        .map(|kind| describe_type(shape, part, kind))
        .collect();
    if words.is_empty()
        && let Some(tagged) = describe_tagged(shape, part)
    {
        return tagged;
    }
    if words.is_empty() {
        for branch in unions(part).flat_map(|(_, branches)| branches) {
            let is_null = shape.resolve(branch).get("type").is_some_and(|kind| kind == "null");
            let more = describe_expected(shape, branch);
            if !is_null && !words.contains(&more) {
                words.push(more);
            }
        }
    }
    if words.is_empty() { "another value".into() } else { words.join(" or ") }
}

/// Describes a choice of objects by the field that distinguishes them: the values of that field are clearer than all fields
/// of each object.
fn describe_tagged(shape: &RequestSchema, part: &Map<String, Value>) -> Option<String> {
    let branches = unions(part).flat_map(|(_, branches)| branches).filter_map(|b| shape.resolve(b).as_object());
    let tags: Vec<_> = branches.map(|branch| tags(branch).next()).collect::<Option<_>>()?;
    let (name, _) = *tags.first()?;
    let words: Vec<&Value> = tags.iter().filter(|(other, _)| *other == name).map(|(_, word)| *word).collect();
    (words.len() == tags.len()).then(|| format!("an object whose {name} is {}", describe_choices(&words)))
}

fn describe_type(shape: &RequestSchema, part: &Map<String, Value>, kind: &str) -> String {
    match kind {
        "string" => "a string".into(),
        "boolean" => "true or false".into(),
        "number" => "a number".into(),
        "integer" => match number_bounds(part) {
            (Some(low), Some(high)) => format!("a whole number from {low} to {high}"),
            (Some(low), None) => format!("a whole number, {low} or more"),
            (None, Some(high)) if high < i128::from(i64::MAX) => format!("a whole number, at most {high}"),
            _ => "a whole number".into(),
        },
        "array" => match part.get("items").filter(|items| items.is_object()) {
            Some(items) => format!("an array in which each entry is {}", describe_expected(shape, items)),
            None => "an array".into(),
        },
        "object" => {
            let required = part.get("required").and_then(Value::as_array).into_iter().flatten();
            let names: Vec<&str> = required.filter_map(Value::as_str).collect();
            if names.is_empty() { "an object".into() } else { format!("an object with {}", names.join(", ")) }
        }
        other => format!("a {other}"),
    }
}

pub(super) fn describe_choices(allowed: &[&Value]) -> String {
    let shown: Vec<String> =
        allowed.iter().filter(|v| !v.is_null()).take(MAX_LITERALS).map(ToString::to_string).collect();
    if shown.len() == 1 { shown.concat() } else { format!("one of {}", shown.join(", ")) }
}

/// Describes the value that was sent instead.
pub(super) fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => format!("the number {n}"),
        Value::String(text) => format!("the string {}", Value::from(excerpt(text))),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// Includes the branches of a union: an optional choice is a union of the choice and null.
pub(super) fn suggest_literal(shape: &RequestSchema, schema: &Value, got: &Value) -> String {
    let Some(part) = shape.resolve(schema).as_object() else { return String::new() };
    let branches = unions(part).flat_map(|(_, branches)| branches).filter_map(|b| shape.resolve(b).as_object());
    let allowed: Vec<&Value> = std::iter::once(part).chain(branches).filter_map(literals).flatten().collect();
    suggest_nearest(&allowed, got)
}

pub(super) fn suggest_nearest(allowed: &[&Value], got: &Value) -> String {
    let names = allowed.iter().filter_map(|value| value.as_str());
    let found = got.as_str().and_then(|got| nearest(got, names));
    found.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

/// Bounds of a whole number: those of the schema, and those of its format.
pub(super) fn number_bounds(part: &Map<String, Value>) -> (Option<i128>, Option<i128>) {
    let number = |key: &str| {
        let n = part.get(key)?;
        n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)).or_else(|| n.as_f64().map(|f| f as i128))
    };
    let (low, high) = match part.get("format").and_then(Value::as_str) {
        Some("uint8") => (Some(0), Some(i128::from(u8::MAX))),
        Some("uint16") => (Some(0), Some(i128::from(u16::MAX))),
        Some("uint32") => (Some(0), Some(i128::from(u32::MAX))),
        Some("uint64" | "uint") => (Some(0), None),
        Some("int32") => (Some(i128::from(i32::MIN)), Some(i128::from(i32::MAX))),
        Some("int64" | "int") => (None, Some(i128::from(i64::MAX))),
        _ => (None, None),
    };
    (number("minimum").or(low), number("maximum").or(high))
}
