//! Runs in `stockade mcp`: a JSON object whose members stay in the text that the host sent. Pure.
//! A content of megabytes goes to the service as it came: nothing here decodes it and encodes it again.
//! Never accepts what the service's parser would refuse (duplicate keys, lone surrogates, numbers out of range, too deep, too
//! many values): the service cannot name the call that such a line belongs to, so it would end the connection of all calls.

use std::{collections::BTreeMap, fmt};

use memchr::memmem;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::wire::json;

/// Levels that the request adds around an argument: the frame, its params, a list and an entry of it.
const LEVELS_ABOVE: u8 = 4;

/// Values in the arguments of one call. The request may hold three values for each path in a list, and the frame has a limit.
const MAX_VALUES: u32 = json::MAX_VALUES / 4;

/// Values in a JSON text that an argument spells out.
const MAX_SPELLED_VALUES: u32 = 4096;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(super) struct JsonObject(BTreeMap<String, Box<RawValue>>);

impl JsonObject {
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(|value| &**value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The text of a member that is a JSON string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(decode_string)
    }

    /// Decodes a member. `None` if it is absent or has another type.
    pub(super) fn decode<'o, T: Deserialize<'o>>(&'o self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) {
        // Strings, numbers and objects of them always have a JSON form.
        if let Ok(value) = to_raw_value(value) {
            self.0.insert(name.into(), value);
        }
    }

    pub(super) fn set_default(&mut self, name: &str, value: &impl Serialize) {
        if !self.has(name) {
            self.set(name, value);
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.0.remove(name)
    }

    pub(super) fn set_raw(&mut self, name: &str, value: Box<RawValue>) {
        self.0.insert(name.into(), value);
    }

    /// Moves the members that `moves` accepts into a separate object.
    pub(super) fn split(&mut self, moves: impl Fn(&str) -> bool) -> Self {
        let (moved, kept) = std::mem::take(&mut self.0).into_iter().partition(|(name, _)| moves(name));
        self.0 = kept;
        Self(moved)
    }

    pub(super) fn clone_without(&self, names: &[&str]) -> Self {
        let kept = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// The text of a JSON string. None if the value is no string.
pub(super) fn decode_string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A JSON value that the caller has put into a text, if the service's parser accepts it. Few values: its text counted as one.
pub(super) fn parse_checked(text: &str) -> Option<Box<RawValue>> {
    let value: Box<RawValue> = serde_json::from_str(text).ok()?;
    let mut values_left = MAX_SPELLED_VALUES;
    check_value(value.get(), &mut values_left).ok()?;
    Some(value)
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonObjectVisitor)
    }
}

struct JsonObjectVisitor;

impl<'de> Visitor<'de> for JsonObjectVisitor {
    type Value = JsonObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
        let mut members: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
        let mut values_left = MAX_VALUES;
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value::<&RawValue>()?;
            check_value(value.get(), &mut values_left).map_err(A::Error::custom)?;
            if members.contains_key(&name) {
                return Err(A::Error::custom(json::JsonError::DuplicateKey(json::excerpt(&name))));
            }
            members.insert(name, value.to_owned());
        }
        Ok(JsonObject(members))
    }
}

/// Checks that the service's parser accepts the value. serde_json has checked its syntax.
fn check_value(value: &str, values_left: &mut u32) -> Result<(), json::JsonError> {
    let is_text = value.starts_with('"');
    // Only the two halves of a character above U+FFFF are written so, and a half alone is no character.
    let has_surrogates =
        |value: &str| [&b"\\ud"[..], b"\\uD"].iter().any(|half| memmem::find(value.as_bytes(), half).is_some());
    if is_text && !has_surrogates(value) {
        *values_left = values_left.checked_sub(1).ok_or(json::JsonError::TooManyValues)?;
        return Ok(());
    }
    json::check(value.as_bytes(), json::MAX_DEPTH - LEVELS_ABOVE, values_left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<JsonObject, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn members_stay_as_they_were_written() {
        let object = read(r#"{"b":"x\u0041\n","a":[1, 2.50,{"k":1e3}]}"#).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"a":[1, 2.50,{"k":1e3}],"b":"x\u0041\n"}"#);
        assert_eq!(object.text("b").unwrap(), "xA\n");
        assert_eq!(object.text("a"), None);
    }

    /// The service parses what passes here, inside a frame that adds levels and values.
    #[test]
    fn what_the_service_would_refuse_is_refused() {
        let deep = |levels: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let many = |values: usize| format!(r#"{{"a":[{}]}}"#, vec!["0"; values].join(","));
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\uDC00x"}"#,
            r#"{"a":["\ud800"]}"#,
            r#"{"a":1e999}"#,
            &deep(json::MAX_DEPTH as usize - LEVELS_ABOVE as usize + 1),
            &many(MAX_VALUES as usize),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for good in [
            r#"{"a":"\ud83d\ude42 \\ud800"}"#.to_owned(),
            deep(json::MAX_DEPTH as usize - LEVELS_ABOVE as usize),
            many(MAX_VALUES as usize - 1),
        ] {
            let object = read(&good).unwrap();
            let entry = serde_json::json!({"jsonrpc": "2.0", "id": 1, "params": {"files": ["at"]}}).to_string();
            let frame = entry.replace("\"at\"", &serde_json::to_string(&object).unwrap());
            json::parse(frame.as_bytes()).unwrap();
        }
    }
}
