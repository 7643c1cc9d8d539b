//! JSON Schema as types on one line each, in the notation that models know best. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// `request = {path?: string}`, then the types that it names, unless they were listed before.
pub(super) fn render_types(title: &str, schema: &Value, told: &mut BTreeSet<String>) -> String {
    let mut text = format!("{title} = {}\n", render_type(schema));
    for (name, schema) in schema["definitions"].as_object().into_iter().flatten() {
        let line = format!("  {name} = {}\n", render_type(schema));
        if told.insert(line.clone()) {
            text.push_str(&line);
        }
    }
    text
}

/// The values of a choice, and their descriptions.
pub(super) fn enum_constants(schema: &Value) -> Vec<(&str, &str)> {
    schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|choice| Some((choice["const"].as_str()?, choice["description"].as_str().unwrap_or_default())))
        .collect()
}

fn render_type(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or(name).to_owned();
    }
    if let Some(word) = schema.get("const") {
        return word.to_string();
    }
    for several in ["anyOf", "oneOf", "enum"] {
        if let Some(choices) = schema[several].as_array() {
            return render_union(choices);
        }
    }
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return render_type(only);
    }
    let name = match &schema["type"] {
        Value::Array(several) => several.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        one => one.as_str(),
    };
    match name {
        Some("array") => render_array(&schema["items"]),
        Some("object") => render_object(schema["properties"].as_object(), &schema["required"]),
        Some(name) => name.to_owned(),
        None => "any".into(),
    }
}

fn render_union(choices: &[Value]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for choice in choices {
        let kind = if choice.is_string() { choice.to_string() } else { render_type(choice) };
        if kind != "null" && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(" | ")
}

fn render_array(items: &Value) -> String {
    match items {
        // A pair, such as a range.
        Value::Array(several) => {
            format!("[{}]", several.iter().map(render_type).collect::<Vec<_>>().join(", "))
        }
        one => match render_type(one) {
            several if several.contains(" | ") => format!("({several})[]"),
            one => format!("{one}[]"),
        },
    }
}

fn render_object(fields: Option<&Map<String, Value>>, required: &Value) -> String {
    let required: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = fields.into_iter().flatten();
    // Fields that distinguish the variants of an object come first, then required fields.
    let mut fields: Vec<(&String, &Value)> = fields.collect();
    fields.sort_by_key(|(name, field)| (field.get("const").is_none(), !required.contains(&name.as_str())));
    let field = |(name, field): (&String, &Value)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{name}{mark}: {}", render_type(field))
    };
    format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_become_types() {
        for (schema, expected) in [
            (json!({"type": "string"}), "string"),
            (json!({"type": ["integer", "null"]}), "integer"),
            (json!({"anyOf": [{"$ref": "#/definitions/A"}, {"type": "null"}]}), "A"),
            (
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/A"}]}}),
                "(string | A)[]",
            ),
            (json!({"type": "array", "items": [{"type": "integer"}, {"type": "integer"}]}), "[integer, integer]"),
            (json!({"enum": ["a", "b"], "type": "string"}), "\"a\" | \"b\""),
            (json!({"oneOf": [{"const": "a", "description": "x"}, {"const": "b"}]}), "\"a\" | \"b\""),
            (
                json!({"type": "object", "required": ["b", "op"], "properties": {"a": {"type": "boolean"},
                    "b": {"type": "number"}, "op": {"const": "x"}}}),
                "{op: \"x\", b: number, a?: boolean}",
            ),
        ] {
            assert_eq!(render_type(&schema), expected);
        }
    }
}
