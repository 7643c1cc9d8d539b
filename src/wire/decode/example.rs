//! Finds a short JSON example of a correct value. Runs in the worker when a request cannot be decoded. Trusts the schema. Of
//! the client's request, an example contains at most the name of the field that it is for.

use serde_json::{Map, Value, json};

use super::request_schema::{LocationStep, RequestLocation, RequestSchema, literals, type_names, unions};

/// Longer examples are not shown, because they would hide the message. A generated one is used instead, if it is shorter.
const MAX_EXAMPLE_BYTES: usize = 200;

/// The deepest nesting of objects and arrays in a generated example.
const MAX_NESTING: u8 = 6;

/// Finds an example for a place in the request: from the schema of that place, else from an example of the whole request,
/// else a generated one.
pub(super) fn find_example(
    shape: &RequestSchema,
    location: &RequestLocation<'_>,
    schema: Option<&Value>,
) -> Option<Value> {
    let fits = |value: &Value| value.to_string().len() <= MAX_EXAMPLE_BYTES;
    let own = schema.into_iter().flat_map(|schema| [schema, shape.resolve(schema)]).flat_map(examples);
    let whole = examples(&shape.root).filter_map(|example| value_at(example, &location.steps));
    let found = own.chain(whole).find(|example| fits(example)).cloned();
    let found = found.or_else(|| schema.and_then(|schema| generate(shape, schema, MAX_NESTING)));
    found.filter(fits).map(|value| with_field_name(location, value))
}

/// Adds the name of the field, so that the example can be copied as it is.
pub(super) fn with_field_name(location: &RequestLocation<'_>, value: Value) -> Value {
    match location.steps.last() {
        Some(LocationStep::Key(key)) => Value::Object(Map::from_iter([((*key).to_owned(), value)])),
        _ => value,
    }
}

fn examples(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("examples").and_then(Value::as_array).into_iter().flatten()
}

/// The value at a place in an example. For any entry of a list it takes the first one.
fn value_at<'e>(example: &'e Value, steps: &[LocationStep<'_>]) -> Option<&'e Value> {
    steps.iter().try_fold(example, |value, step| match step {
        LocationStep::Key(key) => value.get(key),
        LocationStep::Index(_) => value.get(0),
    })
}

fn generate(shape: &RequestSchema, schema: &Value, nesting: u8) -> Option<Value> {
    let nesting = nesting.checked_sub(1)?;
    let part = shape.resolve(schema).as_object()?;
    if let Some(example) = part.get("examples").and_then(|e| e.get(0)) {
        return Some(example.clone());
    }
    if let Some(allowed) = literals(part) {
        return allowed.into_iter().find(|value| !value.is_null()).cloned();
    }
    let Some(kind) = type_names(part).into_iter().find(|kind| *kind != "null") else {
        return unions(part).flat_map(|(_, branches)| branches).find_map(|b| generate(shape, b, nesting));
    };
    match kind {
        "string" => Some(json!("text")),
        "boolean" => Some(json!(true)),
        "integer" | "number" => {
            let least = part.get("minimum").and_then(Value::as_f64).unwrap_or(0.0).max(1.0);
            let most = part.get("maximum").and_then(Value::as_f64).unwrap_or(f64::MAX);
            Some(json!(least.min(most) as i64))
        }
        "array" => {
            Some(Value::Array(part.get("items").and_then(|i| generate(shape, i, nesting)).into_iter().collect()))
        }
        "object" => {
            let required = part.get("required").and_then(Value::as_array).into_iter().flatten();
            let members = required
                .filter_map(Value::as_str)
                .map(|name| Some((name.to_owned(), generate(shape, part.get("properties")?.get(name)?, nesting)?)));
            members.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}
