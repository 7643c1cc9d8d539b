//! JSON Schema, as far as the published schemas of the older line use it. A keyword that is not known here is an
//! error: a validator that skips what it does not understand proves nothing.

use serde_json::{Map, Value};

/// What says nothing about a value.
const NOTES: [&str; 7] = ["$schema", "title", "description", "default", "format", "definitions", "examples"];

/// Where and how a value contradicts its schema.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    Checker { root: schema }.check(schema, value, "")
}

struct Checker<'s> {
    root: &'s Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let part = schema.as_object().expect("a schema is an object");
        for (keyword, says) in part {
            let holds = match keyword.as_str() {
                known if NOTES.contains(&known) => Ok(()),
                "$ref" => self.check(self.target(says), value, at),
                "type" => is_of_type(says, value),
                "enum" => {
                    if says.as_array().unwrap().contains(value) {
                        Ok(())
                    } else {
                        Err("not in the list".into())
                    }
                }
                "minimum" => match value.as_f64() {
                    Some(number) if number < says.as_f64().unwrap() => Err("too small".into()),
                    _ => Ok(()),
                },
                "required" => required(says, value),
                "properties" => self.properties(says.as_object().unwrap(), value, at),
                "items" => self.items(says, value, at),
                "anyOf" | "oneOf" => self.branches(keyword, says, value, at),
                unknown => panic!("the schema says {unknown}, which is not known here"),
            };
            holds.map_err(|why| if why.starts_with('/') { why } else { format!("{at}/: {why}: {value}") })?;
        }
        Ok(())
    }

    fn target(&self, reference: &Value) -> &Value {
        let pointer = reference.as_str().unwrap().strip_prefix('#').expect("references are local");
        self.root.pointer(pointer).expect("and lead somewhere")
    }

    fn properties(&self, known: &Map<String, Value>, value: &Value, at: &str) -> Result<(), String> {
        let Some(members) = value.as_object() else { return Ok(()) };
        members.iter().try_for_each(|(name, member)| match known.get(name) {
            Some(schema) => self.check(schema, member, &format!("{at}/{name}")),
            None => Ok(()),
        })
    }

    fn items(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let items = value.as_array().into_iter().flatten().enumerate();
        items.into_iter().try_for_each(|(index, item)| self.check(schema, item, &format!("{at}/{index}")))
    }

    fn branches(&self, keyword: &str, branches: &Value, value: &Value, at: &str) -> Result<(), String> {
        let fitting =
            branches.as_array().unwrap().iter().filter(|branch| self.check(branch, value, at).is_ok()).count();
        match keyword {
            "anyOf" if fitting > 0 => Ok(()),
            "oneOf" if fitting == 1 => Ok(()),
            _ => Err(format!("{fitting} branches of {keyword} fit")),
        }
    }
}

fn is_of_type(says: &Value, value: &Value) -> Result<(), String> {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other} is not known here"),
    };
    let names: Vec<&str> = match says {
        Value::String(name) => vec![name],
        several => several.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
    };
    if names.iter().any(|name| is(name)) { Ok(()) } else { Err(format!("is not {}", names.join(" or "))) }
}

fn required(names: &Value, value: &Value) -> Result<(), String> {
    let Some(members) = value.as_object() else { return Ok(()) };
    let mut missing = names.as_array().unwrap().iter().filter(|name| !members.contains_key(name.as_str().unwrap()));
    missing.next().map_or(Ok(()), |name| Err(format!("{name} is missing")))
}

#[test]
fn the_validator_finds_what_is_wrong() {
    use serde_json::json;
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": ["integer", "null"], "minimum": 0}, "b": {"items": {"$ref": "#/definitions/B"}}},
        "definitions": {"B": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]}},
    });
    for good in [json!({"a": 1}), json!({"a": null, "b": ["x", null], "c": 7})] {
        assert_eq!(check(&schema, &good), Ok(()));
    }
    for bad in [json!({}), json!({"a": "1"}), json!({"a": -1}), json!({"a": 1, "b": ["y"]}), json!([])] {
        assert!(check(&schema, &bad).is_err(), "{bad}");
    }
}
