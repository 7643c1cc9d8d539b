//! Finds out why a request cannot be decoded, and explains it to an agent. Runs in the worker. Trusts the schema. The value
//! comes from the client, so it is quoted only in part, and walked within `MAX_STEPS`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    describe::{describe_choices, describe_expected, describe_value, number_bounds, suggest_literal, suggest_nearest},
    example,
    request_schema::{
        LocationStep, RequestLocation, RequestSchema, UnknownField, admits_literal, admits_type, tags, unions,
    },
};
use crate::wire::{json::excerpt, nearest::nearest};

/// The walk tries the branches of unions one by one, so it can visit a value several times. This limit ends it.
const MAX_STEPS: u32 = 1 << 20;

/// Longer texts of a library are cut, because they may quote the client.
const MAX_TEXT_CHARS: usize = 300;

enum SchemaViolation<'s, 'v> {
    WrongValue { schema: &'s Value, got: &'v Value },
    MissingField { name: &'s str, schema: &'s Value, siblings: &'v Map<String, Value>, known: &'s Map<String, Value> },
    UnknownTag { name: &'s str, allowed: Vec<&'s Value>, got: Option<&'v Value> },
}

/// Describes the first value that violates the schema. `None` if there is none, because the schema is more lenient than the
/// type.
pub(super) fn by_schema(shape: &RequestSchema, value: &Value, at: &str) -> Option<String> {
    let mut search = ViolationSearch { shape, location: RequestLocation::new(at), steps_left: MAX_STEPS };
    let problem = search.check(&shape.root, value)?;
    Some(describe(shape, search.location, problem))
}

/// Describes the error of serde and its place in the request, for rules that only the type has.
pub(super) fn by_serde<T: DeserializeOwned>(shape: &RequestSchema, value: &Value, at: &str) -> String {
    let Err(error) = serde_path_to_error::deserialize::<_, T>(value) else {
        // Not reachable, because decoding is deterministic. This text names no field: a wrong claim about one would be worse.
        return format!("{}: not accepted", RequestLocation::new(at).text());
    };
    let mut location = RequestLocation::new(at);
    for segment in error.path() {
        match segment {
            serde_path_to_error::Segment::Seq { index } => location.steps.push(LocationStep::Index(*index)),
            serde_path_to_error::Segment::Map { key } => location.steps.push(LocationStep::Key(key)),
            _ => break,
        }
    }
    let text: String = error.inner().to_string().chars().take(MAX_TEXT_CHARS).collect();
    with_example(format!("{}: {text}", location.text()), example::find_example(shape, &location, None))
}

/// Describes an unknown field, and suggests a field of the same object, else one of another level of the request.
pub(super) fn unknown_field(shape: &RequestSchema, unknown: &UnknownField) -> String {
    let UnknownField { location, level, name, suggestion } = unknown;
    let hint = match suggestion {
        Some(meant) => format!("; did you mean {meant}?"),
        None => {
            let levels = shape.fields_of_all_levels();
            let elsewhere: Vec<_> = levels.iter().filter(|(list, _)| list != level).collect();
            let meant = nearest(name, elsewhere.iter().map(|(_, field)| field.as_str()));
            match elsewhere.into_iter().find(|(_, field)| Some(field.as_str()) == meant) {
                _ if levels.iter().any(|(list, field)| list == level && field == name) => {
                    "; not a field of this op".to_owned()
                }
                Some((list, field)) if !list.is_empty() => {
                    format!("; did you mean {field} in each entry of {}?", list.trim_end_matches("[]"))
                }
                Some((_, field)) if field == name => {
                    format!("; {field} is a field of the request, not of an entry")
                }
                Some((_, field)) => format!("; did you mean {field}?"),
                None => String::new(),
            }
        }
    };
    format!("{location}: unknown field{hint}")
}

struct ViolationSearch<'s, 'v> {
    shape: &'s RequestSchema,
    /// The place of the search. After a violation was found, the place of the violation.
    location: RequestLocation<'v>,
    steps_left: u32,
}

impl<'s, 'v> ViolationSearch<'s, 'v> {
    fn check(&mut self, schema: &'s Value, value: &'v Value) -> Option<SchemaViolation<'s, 'v>> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let part = self.shape.resolve(schema).as_object()?;
        if !admits_type(part, value) || !admits_literal(part, value) || !in_range(part, value) {
            return Some(SchemaViolation::WrongValue { schema, got: value });
        }
        let inside = match value {
            Value::Object(members) => self.check_members(part, members),
            Value::Array(items) => self.check_items(part, items),
            _ => None,
        };
        inside.or_else(|| {
            unions(part).find_map(|(keyword, branches)| match keyword {
                "allOf" => branches.iter().find_map(|branch| self.check(branch, value)),
                _ => self.check_union(schema, branches, value),
            })
        })
    }

    fn check_members(
        &mut self,
        part: &'s Map<String, Value>,
        members: &'v Map<String, Value>,
    ) -> Option<SchemaViolation<'s, 'v>> {
        let known = part.get("properties")?.as_object()?;
        let required = part.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let schema = known.get(name).unwrap_or(&Value::Null);
                return Some(SchemaViolation::MissingField { name, schema, siblings: members, known });
            }
        }
        members.iter().find_map(|(key, member)| {
            let schema = known.get(key)?;
            self.check_child(LocationStep::Key(key), schema, member)
        })
    }

    fn check_items(&mut self, part: &'s Map<String, Value>, items: &'v [Value]) -> Option<SchemaViolation<'s, 'v>> {
        let schema = part.get("items").filter(|s| s.is_object())?;
        items.iter().enumerate().find_map(|(i, item)| self.check_child(LocationStep::Index(i), schema, item))
    }

    fn check_child(
        &mut self,
        step: LocationStep<'v>,
        schema: &'s Value,
        value: &'v Value,
    ) -> Option<SchemaViolation<'s, 'v>> {
        self.location.steps.push(step);
        let problem = self.check(schema, value);
        if problem.is_none() {
            self.location.steps.pop();
        }
        problem
    }

    /// Reports a violation inside the branch that the client meant, or of the union itself if no branch fits.
    fn check_union(
        &mut self,
        schema: &'s Value,
        branches: &'s [Value],
        value: &'v Value,
    ) -> Option<SchemaViolation<'s, 'v>> {
        let meant: Vec<&Value> = branches.iter().filter(|b| self.shape.fits(b, value)).collect();
        let depth = self.location.steps.len();
        for branch in meant.iter().skip(1) {
            let contradicts = self.check(branch, value).is_some();
            self.location.steps.truncate(depth);
            if !contradicts {
                return None;
            }
        }
        match meant.first() {
            Some(branch) => self.check(branch, value),
            None => Some(self.no_branch_fits(schema, branches, value)),
        }
    }

    fn no_branch_fits(&self, schema: &'s Value, branches: &'s [Value], value: &'v Value) -> SchemaViolation<'s, 'v> {
        let parts = || branches.iter().filter_map(|b| self.shape.resolve(b).as_object());
        match (value, parts().find_map(|part| tags(part).next())) {
            (Value::Object(members), Some((name, _))) => {
                let allowed = parts().flat_map(tags).filter(|(n, _)| *n == name).map(|(_, tag)| tag).collect();
                SchemaViolation::UnknownTag { name, allowed, got: members.get(name) }
            }
            _ => SchemaViolation::WrongValue { schema, got: value },
        }
    }
}

fn in_range(part: &Map<String, Value>, value: &Value) -> bool {
    let Some(n) = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)) else {
        return true;
    };
    let (low, high) = number_bounds(part);
    low.is_none_or(|low| n >= low) && high.is_none_or(|high| n <= high)
}

fn describe(shape: &RequestSchema, location: RequestLocation<'_>, problem: SchemaViolation<'_, '_>) -> String {
    match problem {
        SchemaViolation::WrongValue { schema, got } => {
            let (expected, guess) = (describe_expected(shape, schema), suggest_literal(shape, schema, got));
            let text = format!("{}: expected {expected}, got {}{guess}", location.text(), describe_value(got));
            with_example(text, example::find_example(shape, &location, Some(schema)))
        }
        SchemaViolation::MissingField { name, schema, siblings: beside, known } => {
            let misspelt = beside
                .keys()
                .find(|key| !known.contains_key(*key) && nearest(key, known.keys().map(String::as_str)) == Some(name));
            let guess = misspelt.map(|key| format!(" ({} is not a field; did you mean {name}?)", excerpt(key)));
            let mut location = location.clone();
            location.steps.push(LocationStep::Key(name));
            let text = format!(
                "{}: missing; expected {}{}",
                location.text(),
                describe_expected(shape, schema),
                guess.unwrap_or_default()
            );
            with_example(text, example::find_example(shape, &location, Some(schema)))
        }
        SchemaViolation::UnknownTag { name, allowed, got } => {
            let mut location = location.clone();
            location.steps.push(LocationStep::Key(name));
            let got = got.map_or("nothing".to_owned(), |got| {
                format!("{}{}", describe_value(got), suggest_nearest(&allowed, got))
            });
            let text = format!("{}: expected {}, got {got}", location.text(), describe_choices(&allowed));
            let example = allowed.first().map(|tag| example::with_field_name(&location, (*tag).clone()));
            with_example(text, example)
        }
    }
}

fn with_example(text: String, example: Option<Value>) -> String {
    match example {
        Some(example) => format!("{text}; example: {example}"),
        None => text,
    }
}
