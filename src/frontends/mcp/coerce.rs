//! Runs in `stockade mcp`: arguments of a usual wrong JSON type become the type that the request has, such as a text where a list
//! is expected. Pure.
//! Does not trust the arguments. Never touches a text where a text is allowed, so no path and no content can change.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, PoisonError, RwLock},
};

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::object::{JsonObject, decode_string, parse_checked};
use crate::wire::function::FunctionEntry;

/// Limit for references, unions and lists inside each other; the schemas of requests have fewer.
const MAX_NESTING: u8 = 12;

/// The types that the fields of an object accept, by name.
#[derive(Debug, Default)]
pub(super) struct FieldTypes(BTreeMap<String, FieldType>);

#[derive(Debug, Default)]
struct FieldType {
    takes_text: bool,
    takes_number: bool,
    takes_boolean: bool,
    takes_list: bool,
    /// The fields of the objects in the list.
    entries: FieldTypes,
}

impl FieldTypes {
    /// The types of a function's request. Made once for each function, because generating a schema costs more than most calls.
    pub(super) fn of(function: &'static FunctionEntry) -> &'static Self {
        static MADE: LazyLock<RwLock<BTreeMap<&'static str, &'static FieldTypes>>> = LazyLock::new(RwLock::default);
        if let Some(types) = MADE.read().unwrap_or_else(PoisonError::into_inner).get(function.name) {
            return types;
        }
        let mut made = MADE.write().unwrap_or_else(PoisonError::into_inner);
        made.entry(function.name).or_insert_with(|| {
            let schema = serde_json::to_value((function.request_schema)()).unwrap_or_default();
            let mut types = Self::default();
            types.collect(&schema, &schema, MAX_NESTING);
            // Bounded by the number of functions.
            Box::leak(Box::new(types))
        })
    }

    /// Adds the fields of all forms that an object may have.
    fn collect(&mut self, root: &Value, schema: &Value, nesting: u8) {
        let Some(nesting) = nesting.checked_sub(1) else { return };
        let schema = resolve(root, schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            self.0.entry(name.clone()).or_default().collect(root, field, nesting);
        }
        branches(schema).for_each(|branch| self.collect(root, branch, nesting));
    }

    /// Changes the arguments, also those of entries.
    pub(super) fn coerce(&self, arguments: &mut JsonObject) {
        let names: Vec<String> = arguments.names().cloned().collect();
        for name in names {
            let (Some(field), Some(value)) = (self.0.get(&name), arguments.get(&name)) else { continue };
            if let Some(coerced) = field.coerce(value) {
                arguments.set_raw(&name, coerced);
            }
        }
    }
}

impl FieldType {
    fn collect(&mut self, root: &Value, schema: &Value, nesting: u8) {
        let Some(nesting) = nesting.checked_sub(1) else { return };
        let schema = resolve(root, schema);
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<&str>>(),
        };
        self.takes_text |= types.contains(&"string");
        self.takes_number |= types.contains(&"integer") || types.contains(&"number");
        self.takes_boolean |= types.contains(&"boolean");
        self.takes_list |= types.contains(&"array");
        if let items @ Value::Object(_) = &schema["items"] {
            self.entries.collect(root, items, nesting);
        }
        branches(schema).for_each(|branch| self.collect(root, branch, nesting));
    }

    /// The value in the type that is expected. None if it stays as it is.
    fn coerce(&self, value: &RawValue) -> Option<Box<RawValue>> {
        let list = self.takes_list.then(|| self.as_list(value)).flatten();
        let value = match &list {
            Some(list) => list,
            None => value,
        };
        match value.get().as_bytes().first()? {
            b'"' if !self.takes_text => self.as_scalar(value),
            b'[' if self.takes_list => self.coerce_entries(value).or(list),
            _ => list,
        }
    }

    /// Turns a text or an object where a list is expected into a list of one, or into the list that the text contains.
    fn as_list(&self, value: &RawValue) -> Option<Box<RawValue>> {
        let spelled = match value.get().as_bytes().first()? {
            b'"' if !self.takes_text => decode_string(value)?,
            b'{' => String::new(),
            _ => return None,
        };
        let spelled = spelled.trim();
        let list = spelled.starts_with('[').then(|| parse_checked(spelled)).flatten();
        list.or_else(|| to_raw_value(&[value]).ok())
    }

    fn as_scalar(&self, value: &RawValue) -> Option<Box<RawValue>> {
        let text = decode_string(value)?;
        let text = text.trim();
        let is_number = self.takes_number && text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let is_boolean = self.takes_boolean && matches!(text, "true" | "false");
        (is_number || is_boolean).then(|| parse_checked(text)).flatten()
    }

    fn coerce_entries(&self, list: &RawValue) -> Option<Box<RawValue>> {
        if self.entries.0.is_empty() {
            return None;
        }
        let entries: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
        let coerced = entries.into_iter().map(|entry| {
            let Ok(mut object) = serde_json::from_str::<JsonObject>(entry.get()) else { return entry.to_owned() };
            self.entries.coerce(&mut object);
            to_raw_value(&object).unwrap_or_else(|_| entry.to_owned())
        });
        to_raw_value(&coerced.collect::<Vec<_>>()).ok()
    }
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| schema[keyword].as_array()).flatten()
}

/// Follows `#/definitions/…`; the schemas of requests have no other references.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tools::ToolSelection, *};

    fn coerced(tool: &str, arguments: Value) -> Value {
        let offer = ToolSelection::default().find_tool(tool, None).unwrap();
        let mut arguments: JsonObject = serde_json::from_str(&arguments.to_string()).unwrap();
        FieldTypes::of(offer.function).coerce(&mut arguments);
        serde_json::to_value(&arguments).unwrap()
    }

    #[test]
    fn texts_become_the_list_number_or_boolean_that_is_expected() {
        for (tool, sent, expected) in [
            ("find", json!({"paths": "*.rs", "limit": "7"}), json!({"paths": ["*.rs"], "limit": 7})),
            ("read", json!({"paths": "[\"a\", \"b\"]"}), json!({"paths": ["a", "b"]})),
            ("read", json!({"paths": "[a].rs"}), json!({"paths": ["[a].rs"]})),
            (
                "read",
                json!({"path": "1", "line_from": " 3 ", "numbered": "false"}),
                json!({"path": "1", "line_from": 3, "numbered": false}),
            ),
            (
                "search",
                json!({"query": "7", "include_globs": "*.rs"}),
                json!({"query": "7", "include_globs": ["*.rs"]}),
            ),
            ("restore", json!({"ids": "x"}), json!({"ids": ["x"]})),
            (
                "edit",
                json!({"files": [{"path": "a", "ops": {"op": "remove", "from_line": "1", "to_line": "2"}}]}),
                json!({"files": [{"path": "a", "ops": [{"op": "remove", "from_line": 1, "to_line": 2}]}]}),
            ),
            (
                "edit",
                json!({"files": "[{\"path\":\"a\",\"dry_run\":\"true\"}]"}),
                json!({"files": [{"path": "a", "dry_run": true}]}),
            ),
        ] {
            assert_eq!(coerced(tool, sent), expected);
        }
    }

    #[test]
    fn a_text_stays_where_a_text_is_allowed_or_nothing_else_is_meant() {
        for (tool, sent) in [
            ("create", json!({"files": [{"path": "7", "content": "[1]"}]})),
            ("read", json!({"path": "a", "line_from": "first"})),
            ("read", json!({"path": ["a"]})),
            ("search", json!({"query": "[\"a\"]", "unknown": "7"})),
        ] {
            assert_eq!(coerced(tool, sent.clone()), sent);
        }
    }

    /// A list that a text spells out reaches the parser of the service without another check.
    #[test]
    fn what_the_service_would_refuse_stays_a_text() {
        let twice = json!({"files": "[{\"path\":\"a\",\"path\":\"b\"}]"});
        assert_eq!(coerced("edit", twice), json!({"files": ["[{\"path\":\"a\",\"path\":\"b\"}]"]}));
    }
}
