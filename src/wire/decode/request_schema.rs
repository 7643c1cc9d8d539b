//! Questions about a client's value that a schema answers. Runs in the worker. Trusts the schema, which is made from the
//! types of this program. Does not trust the value, but the parser bounds its depth. Every walk is bounded by the value, and
//! by `MAX_NESTING` where it stays on one value.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::wire::{json::excerpt, nearest::nearest, schema};

/// References, unions and intersections that may follow each other without a step into the value.
const MAX_NESTING: u8 = 16;

#[derive(Debug)]
pub(super) struct RequestSchema {
    pub(super) root: Value,
    /// The fields of the root itself, sorted. Most requests have no others.
    field_names: Vec<String>,
}

/// A place in a request, such as `files[0].path`.
#[derive(Debug, Clone)]
pub(super) struct RequestLocation<'v> {
    base: &'v str,
    pub(super) steps: Vec<LocationStep<'v>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LocationStep<'v> {
    Key(&'v str),
    Index(usize),
}

impl<'v> RequestLocation<'v> {
    pub(super) fn new(base: &'v str) -> Self {
        Self { base, steps: Vec::new() }
    }

    /// The object of the last step, without the indexes of entries: `files[].ops[]`; empty for the request itself.
    fn level(&self) -> String {
        let above = &self.steps[..self.steps.len().saturating_sub(1)];
        let step = |(index, step): (usize, &LocationStep<'_>)| match step {
            LocationStep::Index(_) => "[]".to_owned(),
            LocationStep::Key(key) => format!("{}{key}", if index > 0 { "." } else { "" }),
        };
        above.iter().enumerate().map(step).collect()
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.base.to_owned();
        for step in &self.steps {
            match step {
                LocationStep::Index(i) => text.push_str(&format!("[{i}]")),
                LocationStep::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(&excerpt(key));
                }
            }
        }
        if text.is_empty() { "params".to_owned() } else { text }
    }
}

/// A field of a request that its schema does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    pub(super) location: String,
    /// The list of objects that contains the field, named as in `fields_of_all_levels`.
    pub(super) level: String,
    pub(super) name: String,
    /// The nearest field of the same object.
    pub(super) suggestion: Option<String>,
}

/// The parts of a schema that apply to one value, with references and unions resolved.
#[derive(Default)]
struct Facets<'s> {
    parts: Vec<&'s Map<String, Value>>,
    /// A part of the schema allows any field.
    allows_any_field: bool,
}

impl RequestSchema {
    /// Generating a schema costs more than most calls, so each one is generated once, when it is first needed, and leaked.
    /// The number of request types bounds the leak.
    pub(super) fn of<T: JsonSchema + 'static>() -> &'static Self {
        // A sorted map, because a hash map asks the kernel for random bytes, and the worker should not need to be allowed
        // that call.
        static SHAPES: RwLock<BTreeMap<TypeId, &'static RequestSchema>> = RwLock::new(BTreeMap::new());
        let id = TypeId::of::<T>();
        if let Some(shape) = SHAPES.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return shape;
        }
        let mut shapes = SHAPES.write().unwrap_or_else(PoisonError::into_inner);
        shapes.entry(id).or_insert_with(|| Box::leak(Box::new(Self::new(schema::accepted_schema::<T>().into()))))
    }

    fn new(root: Value) -> Self {
        let properties = root.get("properties").and_then(Value::as_object);
        // The map is sorted.
        let names = properties.into_iter().flat_map(|fields| fields.keys().cloned()).collect();
        Self { root, field_names: names }
    }

    /// True if no member is an object or an array and every name is a field of the root: then no field is unknown.
    fn knows_all_members(&self, members: &Map<String, Value>) -> bool {
        let is_known = |(name, value): (&String, &Value)| {
            !value.is_object() && !value.is_array() && self.field_names.binary_search(name).is_ok()
        };
        members.iter().all(is_known)
    }

    /// Follows `#/definitions/…`; the schemas of this program have no other references.
    pub(super) fn resolve<'s>(&'s self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..MAX_NESTING {
            let Some(target) = schema.get("$ref").and_then(Value::as_str) else { break };
            let Some(found) = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) else {
                break;
            };
            schema = found;
        }
        schema
    }

    /// Fields that the schema does not have, at most `most` of them, in the order of the value.
    pub(super) fn unknown_fields(&self, value: &Value, at: &str, most: usize) -> Vec<UnknownField> {
        let mut found = Vec::new();
        if most > 0 && !value.as_object().is_some_and(|members| self.knows_all_members(members)) {
            self.find_unknown_fields(&[&self.root], value, &mut RequestLocation::new(at), most, &mut found);
        }
        found
    }

    fn find_unknown_fields<'v>(
        &self,
        schemas: &[&Value],
        value: &'v Value,
        location: &mut RequestLocation<'v>,
        most: usize,
        found: &mut Vec<UnknownField>,
    ) {
        // Without a schema any value is allowed.
        if found.len() >= most || schemas.is_empty() || !(value.is_object() || value.is_array()) {
            return;
        }
        let mut facets = Facets::default();
        schemas.iter().for_each(|schema| self.collect_facets(schema, value, MAX_NESTING, &mut facets));
        if let Value::Array(items) = value {
            for (i, item) in items.iter().enumerate() {
                location.steps.push(LocationStep::Index(i));
                self.find_unknown_fields(&facets.items(i), item, location, most, found);
                location.steps.pop();
            }
        } else if let Value::Object(members) = value {
            for (key, member) in members {
                location.steps.push(LocationStep::Key(key));
                let fields = facets.fields(key);
                if !fields.is_empty() {
                    self.find_unknown_fields(&fields, member, location, most, found);
                } else if !facets.allows_any_field {
                    found.push(UnknownField {
                        location: location.text(),
                        level: location.level(),
                        name: key.clone(),
                        suggestion: nearest(key, facets.names()).map(str::to_owned),
                    });
                }
                location.steps.pop();
                if found.len() >= most {
                    return;
                }
            }
        }
    }

    /// Every field of the schema at any level, with the list of objects that contains it: `files[]` and `path`. The list is
    /// empty for a field of the request itself.
    pub(super) fn fields_of_all_levels(&self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        self.collect_levels(&self.root, "", MAX_NESTING, &mut fields);
        fields
    }

    fn collect_levels(&self, schema: &Value, at: &str, nesting: u8, fields: &mut Vec<(String, String)>) {
        let (Some(part), Some(nesting)) = (self.resolve(schema).as_object(), nesting.checked_sub(1)) else {
            return;
        };
        for (name, field) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            fields.push((at.to_owned(), name.clone()));
            let items = self.resolve(field).get("items").or_else(|| {
                // A list that may be null.
                let branches = field.get("anyOf").and_then(Value::as_array)?;
                branches.iter().find_map(|branch| self.resolve(branch).get("items"))
            });
            let dot = if at.is_empty() { "" } else { "." };
            if let Some(items) = items {
                self.collect_levels(items, &format!("{at}{dot}{name}[]"), nesting, fields);
            }
        }
        for (_, branches) in unions(part) {
            branches.iter().for_each(|branch| self.collect_levels(branch, at, nesting, fields));
        }
    }

    fn collect_facets<'s>(&'s self, schema: &'s Value, value: &Value, nesting: u8, facets: &mut Facets<'s>) {
        let Some(part) = self.resolve(schema).as_object() else {
            facets.allows_any_field = true;
            return;
        };
        let Some(nesting) = nesting.checked_sub(1) else { return };
        let mut is_leaf = true;
        for (keyword, branches) in unions(part) {
            is_leaf = false;
            let mut fits_any = false;
            for branch in branches {
                if keyword == "allOf" || self.fits_within(branch, value, nesting) {
                    fits_any = true;
                    self.collect_facets(branch, value, nesting, facets);
                }
            }
            // If no branch fits, decoding reports that. The fields of such a value must not be reported as unknown in
            // addition.
            facets.allows_any_field |= !fits_any;
        }
        let takes_any = part.contains_key("patternProperties")
            || part.get("additionalProperties").is_some_and(|more| *more == Value::Bool(true));
        // A schema with only a description accepts any JSON.
        let says_nothing = is_leaf && !["type", "properties", "items"].iter().any(|k| part.contains_key(*k));
        facets.allows_any_field |= takes_any || says_nothing;
        facets.parts.push(part);
    }

    /// True if the client meant this branch of a union: the kind of JSON value is right, and so is the tag, if there is one.
    /// Its fields may still be wrong; an error should then be about them.
    pub(super) fn fits(&self, schema: &Value, value: &Value) -> bool {
        self.fits_within(schema, value, MAX_NESTING)
    }

    fn fits_within(&self, schema: &Value, value: &Value, nesting: u8) -> bool {
        let Some(part) = self.resolve(schema).as_object() else { return true };
        let Some(nesting) = nesting.checked_sub(1) else { return false };
        if !admits_type(part, value) || !admits_literal(part, value) || !has_tags(part, value) {
            return false;
        }
        unions(part).all(|(keyword, branches)| {
            let mut branches = branches.iter();
            if keyword == "allOf" {
                branches.all(|branch| self.fits_within(branch, value, nesting))
            } else {
                branches.any(|branch| self.fits_within(branch, value, nesting))
            }
        })
    }
}

impl<'s> Facets<'s> {
    fn fields(&self, key: &str) -> Vec<&'s Value> {
        let named = self.parts.iter().filter_map(|part| part.get("properties")?.get(key));
        let other = self.parts.iter().filter_map(|part| part.get("additionalProperties").filter(|m| m.is_object()));
        let named: Vec<_> = named.collect();
        if named.is_empty() { other.collect() } else { named }
    }

    fn items(&self, index: usize) -> Vec<&'s Value> {
        let items = self.parts.iter().filter_map(|part| part.get("items"));
        items.filter_map(|items| if items.is_array() { items.get(index) } else { Some(items) }).collect()
    }

    fn names(&self) -> impl Iterator<Item = &'s str> {
        let properties = self.parts.iter().filter_map(|part| part.get("properties")?.as_object());
        properties.flat_map(|fields| fields.keys().map(String::as_str))
    }
}

pub(super) fn unions(part: &Map<String, Value>) -> impl Iterator<Item = (&'static str, &Vec<Value>)> {
    ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| Some((keyword, part.get(keyword)?.as_array()?)))
}

/// The names in `type`, which is one name or a list.
pub(super) fn type_names(part: &Map<String, Value>) -> Vec<&str> {
    match part.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn admits_type(part: &Map<String, Value>, value: &Value) -> bool {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        // Like serde, which does not read 1.0 as an integer.
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    !part.contains_key("type") || type_names(part).into_iter().any(is)
}

/// The values that `const` or `enum` allow.
pub(super) fn literals(part: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (part.get("const"), part.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

pub(super) fn admits_literal(part: &Map<String, Value>, value: &Value) -> bool {
    literals(part).is_none_or(|allowed| allowed.contains(&value))
}

/// Required fields with one fixed value, which identify the variant of a tagged type.
pub(super) fn tags(part: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let required = part.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    required.filter_map(|name| {
        let literals = literals(part.get("properties")?.get(name)?.as_object()?)?;
        (literals.len() == 1).then(|| (name, literals[0]))
    })
}

fn has_tags(part: &Map<String, Value>, value: &Value) -> bool {
    !value.is_object() || tags(part).all(|(name, tag)| value.get(name) == Some(tag))
}
