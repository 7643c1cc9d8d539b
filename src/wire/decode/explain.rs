//! Runs in the worker when a request cannot be decoded: finds what is wrong and says it to an agent.
//! Trusts the schema. The value is the client's: quoted only in part, walked within `MAX_STEPS`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    example,
    shape::{Place, Shape, Step, UnknownField, admits_kind, admits_literal, tags, unions},
    words::{bounds, expected, given, meant_literal, near, one_of},
};
use crate::wire::{json::shown, nearest::nearest};

/// Unions are tried branch by branch, so a walk could visit a value several times; this ends it.
const MAX_STEPS: u32 = 1 << 20;

/// Library text is shown up to here: it may quote the client.
const MAX_TEXT_CHARS: usize = 300;

enum Problem<'s, 'v> {
    Wrong {
        schema: &'s Value,
        got: &'v Value,
    },
    Missing {
        name: &'s str,
        schema: &'s Value,
        beside: &'v Map<String, Value>,
        known: &'s Map<String, Value>,
    },
    Tag {
        name: &'s str,
        allowed: Vec<&'s Value>,
        got: Option<&'v Value>,
    },
}

/// The first thing that contradicts the schema, or nothing if the schema is more lenient than the type.
pub(super) fn by_schema(shape: &Shape, value: &Value, at: &str) -> Option<String> {
    let mut search = Search { shape, place: Place::new(at), steps_left: MAX_STEPS };
    let problem = search.check(&shape.root, value)?;
    Some(describe(shape, search.place, problem))
}

/// What serde says, with the place it stopped at. For rules that only the type knows.
pub(super) fn by_serde<T: DeserializeOwned>(shape: &Shape, value: &Value, at: &str) -> String {
    let Err(error) = serde_path_to_error::deserialize::<_, T>(value) else {
        // Decoding is deterministic, so this is not reached; a wrong claim about a field would be worse.
        return format!("{}: not accepted", Place::new(at).text());
    };
    let mut place = Place::new(at);
    for segment in error.path() {
        match segment {
            serde_path_to_error::Segment::Seq { index } => place.steps.push(Step::Index(*index)),
            serde_path_to_error::Segment::Map { key } => place.steps.push(Step::Key(key)),
            _ => break,
        }
    }
    let text: String = error.inner().to_string().chars().take(MAX_TEXT_CHARS).collect();
    with_example(format!("{}: {text}", place.text()), example::at(shape, &place, None))
}

/// An unknown field, and the field that was probably meant: of the same object, else of another level of the request.
pub(super) fn unknown(shape: &Shape, unknown: &UnknownField) -> String {
    let UnknownField { place, level, name, meant } = unknown;
    let hint = match meant {
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
    format!("{place}: unknown field{hint}")
}

struct Search<'s, 'v> {
    shape: &'s Shape,
    /// Where the search is; after a problem was found, where the problem is.
    place: Place<'v>,
    steps_left: u32,
}

impl<'s, 'v> Search<'s, 'v> {
    fn check(&mut self, schema: &'s Value, value: &'v Value) -> Option<Problem<'s, 'v>> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let part = self.shape.resolve(schema).as_object()?;
        if !admits_kind(part, value) || !admits_literal(part, value) || !in_range(part, value) {
            return Some(Problem::Wrong { schema, got: value });
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
    ) -> Option<Problem<'s, 'v>> {
        let known = part.get("properties")?.as_object()?;
        let required = part.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let schema = known.get(name).unwrap_or(&Value::Null);
                return Some(Problem::Missing { name, schema, beside: members, known });
            }
        }
        members.iter().find_map(|(key, member)| {
            let schema = known.get(key)?;
            self.inside(Step::Key(key), schema, member)
        })
    }

    fn check_items(&mut self, part: &'s Map<String, Value>, items: &'v [Value]) -> Option<Problem<'s, 'v>> {
        let schema = part.get("items").filter(|s| s.is_object())?;
        items.iter().enumerate().find_map(|(i, item)| self.inside(Step::Index(i), schema, item))
    }

    fn inside(&mut self, step: Step<'v>, schema: &'s Value, value: &'v Value) -> Option<Problem<'s, 'v>> {
        self.place.steps.push(step);
        let problem = self.check(schema, value);
        if problem.is_none() {
            self.place.steps.pop();
        }
        problem
    }

    /// A complaint about the branch that was meant; about the union itself only if none was.
    fn check_union(
        &mut self,
        schema: &'s Value,
        branches: &'s [Value],
        value: &'v Value,
    ) -> Option<Problem<'s, 'v>> {
        let meant: Vec<&Value> = branches.iter().filter(|b| self.shape.fits(b, value)).collect();
        let depth = self.place.steps.len();
        for branch in meant.iter().skip(1) {
            let contradicts = self.check(branch, value).is_some();
            self.place.steps.truncate(depth);
            if !contradicts {
                return None;
            }
        }
        match meant.first() {
            Some(branch) => self.check(branch, value),
            None => Some(self.no_branch(schema, branches, value)),
        }
    }

    fn no_branch(&self, schema: &'s Value, branches: &'s [Value], value: &'v Value) -> Problem<'s, 'v> {
        let parts = || branches.iter().filter_map(|b| self.shape.resolve(b).as_object());
        match (value, parts().find_map(|part| tags(part).next())) {
            (Value::Object(members), Some((name, _))) => {
                let allowed =
                    parts().flat_map(tags).filter(|(n, _)| *n == name).map(|(_, tag)| tag).collect();
                Problem::Tag { name, allowed, got: members.get(name) }
            }
            _ => Problem::Wrong { schema, got: value },
        }
    }
}

fn in_range(part: &Map<String, Value>, value: &Value) -> bool {
    let Some(n) = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)) else {
        return true;
    };
    let (low, high) = bounds(part);
    low.is_none_or(|low| n >= low) && high.is_none_or(|high| n <= high)
}

fn describe(shape: &Shape, place: Place<'_>, problem: Problem<'_, '_>) -> String {
    match problem {
        Problem::Wrong { schema, got } => {
            let (expected, guess) = (expected(shape, schema), meant_literal(shape, schema, got));
            let text = format!("{}: expected {expected}, got {}{guess}", place.text(), given(got));
            with_example(text, example::at(shape, &place, Some(schema)))
        }
        Problem::Missing { name, schema, beside, known } => {
            let misspelt = beside.keys().find(|key| {
                !known.contains_key(*key) && nearest(key, known.keys().map(String::as_str)) == Some(name)
            });
            let guess = misspelt.map(|key| format!(" ({} is not a field; did you mean {name}?)", shown(key)));
            let mut place = place.clone();
            place.steps.push(Step::Key(name));
            let text = format!(
                "{}: missing; expected {}{}",
                place.text(),
                expected(shape, schema),
                guess.unwrap_or_default()
            );
            with_example(text, example::at(shape, &place, Some(schema)))
        }
        Problem::Tag { name, allowed, got } => {
            let mut place = place.clone();
            place.steps.push(Step::Key(name));
            let got =
                got.map_or("nothing".to_owned(), |got| format!("{}{}", given(got), near(&allowed, got)));
            let text = format!("{}: expected {}, got {got}", place.text(), one_of(&allowed));
            let example = allowed.first().map(|tag| example::under(&place, (*tag).clone()));
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
