//! A strict JSON parser. Runs in the worker on the bytes of a client, and in frontends on what they pass on to the worker.
//! Trusts nothing. Never accepts bytes that two parsers could read differently (duplicate keys), never recurses deeper than
//! `MAX_DEPTH`, never lets a frame need many times its size in memory (`MAX_VALUES`).

use std::{cell::Cell, collections::BTreeSet, fmt, marker::PhantomData};

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Nested arrays and objects. Lower than the limit of serde_json (128), so that this limit causes the error.
pub const MAX_DEPTH: u8 = 64;

/// Values in one frame. `{"a":0}` is 8 bytes on the wire and over 600 in memory: without this a frame within its
/// limit could ask for gigabytes. A full batch (1,000 entries) may still hold 262 values per entry.
pub const MAX_VALUES: u32 = 1 << 18;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON (JSON-RPC -32700).
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// JSON that two parsers could read differently (-32600).
    #[error("duplicate key {0:?}")]
    DuplicateKey(String),
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("more than {MAX_VALUES} values in one frame")]
    TooManyValues,
}

/// Parses one JSON text. Only white space may follow it.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_with(bytes, |strict, deserializer| strict.deserialize(deserializer))
}

/// The members of an object, by names that are known beforehand. No name has to be copied to recognise it.
pub trait ObjectMembers<'de>: Default {
    type Key: Deserialize<'de>;

    /// Returns the name as an error if the object has this member already.
    fn add(&mut self, key: Self::Key, value: Value) -> Result<(), String>;
}

/// Like `parse`, for a text that has to be an object.
pub fn parse_object<'de, M: ObjectMembers<'de>>(bytes: &'de [u8]) -> Result<M, JsonError> {
    parse_with(bytes, |strict, deserializer| deserializer.deserialize_map(ObjectParser(strict, PhantomData)))
}

type SliceDeserializer<'de> = serde_json::Deserializer<serde_json::de::SliceRead<'de>>;

fn parse_with<'de, T>(
    bytes: &'de [u8],
    read: impl FnOnce(StrictParser<'_>, &mut SliceDeserializer<'de>) -> serde_json::Result<T>,
) -> Result<T, JsonError> {
    let mut values_left = MAX_VALUES;
    parse_within(bytes, MAX_DEPTH, &mut values_left, read)
}

/// Checks that `parse` accepts a text, without building its value. For a part of a frame: fewer levels, and the values that
/// are left for this part and those after it.
pub fn check(bytes: &[u8], max_depth: u8, values_left: &mut u32) -> Result<(), JsonError> {
    parse_within(bytes, max_depth, values_left, |strict, deserializer| StrictChecker(strict).deserialize(deserializer))
}

fn parse_within<'de, T>(
    bytes: &'de [u8],
    max_depth: u8,
    values_left: &mut u32,
    read: impl FnOnce(StrictParser<'_>, &mut SliceDeserializer<'de>) -> serde_json::Result<T>,
) -> Result<T, JsonError> {
    let budget = ParseBudget { refusal: Cell::new(None), values_left: Cell::new(*values_left) };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = read(StrictParser { depth_left: max_depth, budget: &budget }, &mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    *values_left = budget.values_left.get();
    parsed.map_err(|e| budget.refusal.take().unwrap_or_else(|| JsonError::Syntax(e.to_string())))
}

/// Limits for the whole text, and the reason for a refusal: errors of serde are texts, so the typed reason is kept here until
/// the parser has returned.
struct ParseBudget {
    refusal: Cell<Option<JsonError>>,
    values_left: Cell<u32>,
}

impl ParseBudget {
    fn refuse<E: de::Error>(&self, why: JsonError) -> E {
        let error = E::custom(&why);
        self.refusal.set(Some(why));
        error
    }
}

#[derive(Clone, Copy)]
struct StrictParser<'b> {
    depth_left: u8,
    budget: &'b ParseBudget,
}

impl StrictParser<'_> {
    fn descend<E: de::Error>(self) -> Result<Self, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Self { depth_left, ..self }),
            None => Err(self.budget.refuse(JsonError::TooDeep)),
        }
    }
}

impl StrictParser<'_> {
    fn count_value<E: de::Error>(self) -> Result<(), E> {
        let left = &self.budget.values_left;
        match left.get().checked_sub(1) {
            Some(fewer) => {
                left.set(fewer);
                Ok(())
            }
            None => Err(self.budget.refuse(JsonError::TooManyValues)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictParser<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count_value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictParser<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Value, E> {
        Number::from_f64(n).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.to_owned()))
    }

    fn visit_string<E>(self, s: String) -> Result<Value, E> {
        Ok(Value::String(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inside = self.descend()?;
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(inside)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.descend()?;
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            // Keys arrive unescaped, so `"a"` and `"\u0061"` are one key. A sorted map keeps this n·log n.
            if members.contains_key(&key) {
                return Err(self.budget.refuse(JsonError::DuplicateKey(excerpt(&key))));
            }
            let value = map.next_value_seed(inside)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

/// Walks a text by the rules of `StrictParser` and keeps nothing of it.
#[derive(Clone, Copy)]
struct StrictChecker<'b>(StrictParser<'b>);

impl<'de> DeserializeSeed<'de> for StrictChecker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.count_value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictChecker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<(), E> {
        self.0.visit_f64(n).map(drop)
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inside = Self(self.0.descend()?);
        while seq.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inside = Self(self.0.descend()?);
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(self.0.budget.refuse(JsonError::DuplicateKey(excerpt(&key))));
            }
            map.next_value_seed(inside)?;
            keys.insert(key);
        }
        Ok(())
    }
}

struct ObjectParser<'b, M>(StrictParser<'b>, PhantomData<M>);

impl<'de, M: ObjectMembers<'de>> Visitor<'de> for ObjectParser<'_, M> {
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M, A::Error> {
        let Self(strict, _) = self;
        let inside = strict.descend()?;
        let mut members = M::default();
        while let Some(key) = map.next_key()? {
            let value = map.next_value_seed(inside)?;
            let added = members.add(key, value);
            added.map_err(|key| strict.budget.refuse(JsonError::DuplicateKey(excerpt(&key))))?;
        }
        Ok(members)
    }
}

/// Cuts a text of the client for a message: enough to recognise it, and never enough to make the message long.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 64;
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duplicate_keys_are_refused_at_any_place_and_after_unescaping() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"[{"x":{"k":null,"k":null}}]"#,
            r#"{"":1,"":2}"#,
            r#"{"é":1,"\u00e9":2}"#,
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::DuplicateKey(_))), "{text}");
        }
        assert!(parse(r#"{"a":{"a":{"a":1}},"A":1}"#.as_bytes()).is_ok());
    }

    #[test]
    fn depth_64_passes_and_65_is_refused() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let nested = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
            assert!(parse(nested(64).as_bytes()).is_ok());
            assert_eq!(parse(nested(65).as_bytes()), Err(JsonError::TooDeep));
            assert_eq!(parse(open.repeat(1_000_000).as_bytes()), Err(JsonError::TooDeep));
        }
    }

    #[test]
    fn bytes_that_are_not_one_json_text_are_syntax_errors() {
        let cases: [&[u8]; 14] = [
            b"",
            b" ",
            b"{",
            b"[1,]",
            b"{} {}",
            b"{}x",
            b"\"\xff\"",
            b"\xff",
            b"{\"a\xc3\":1}",
            b"\"\\ud800\"",
            b"01",
            b"1e999",
            b"nul",
            b"\xef\xbb\xbf{}",
        ];
        for bytes in cases {
            assert!(matches!(parse(bytes), Err(JsonError::Syntax(_))), "{bytes:?}");
        }
    }

    #[test]
    fn a_hundred_thousand_keys_take_no_quadratic_time() {
        let members: Vec<String> = (0..100_000).map(|i| format!("\"k{i}\":{i}")).collect();
        let text = format!("{{{}}}", members.join(","));
        assert_eq!(parse(text.as_bytes()).unwrap().as_object().unwrap().len(), 100_000);
        let twice = format!("{{{},\"k0\":0}}", members.join(","));
        assert_eq!(parse(twice.as_bytes()), Err(JsonError::DuplicateKey("k0".into())));
    }

    #[test]
    fn a_frame_of_tiny_objects_is_refused_before_it_fills_the_memory() {
        let text = format!("[{}{{}}]", "{},".repeat(MAX_VALUES as usize));
        assert_eq!(parse(text.as_bytes()), Err(JsonError::TooManyValues));
    }

    #[test]
    fn a_long_duplicate_key_does_not_make_a_long_message() {
        let key = "ä".repeat(100_000);
        let error = parse(format!(r#"{{"{key}":1,"{key}":2}}"#).as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    #[test]
    fn private_keys_of_the_library_are_ordinary_keys() {
        let text = br#"{"$serde_json::private::RawValue":"[1","$serde_json::private::Number":"x"}"#;
        let value = parse(text).unwrap();
        assert_eq!(value["$serde_json::private::RawValue"], "[1");
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..8).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    /// Bytes that are often nearly JSON.
    fn fragments() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"b\"",
            "\"\\u0061\"",
            "1",
            "-0",
            "2.5e3",
            "null",
            "true",
            " ",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\n",
            "\"",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|p| p.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_every_value(value in json()) {
            let text = serde_json::to_vec(&value).unwrap();
            prop_assert_eq!(parse(&text).unwrap(), serde_json::from_slice::<Value>(&text).unwrap());
        }

        #[test]
        fn agrees_with_serde_json_on_any_bytes_but_for_duplicates(
            bytes in prop_oneof![fragments(), prop::collection::vec(any::<u8>(), 0..40)],
        ) {
            let mut values_left = MAX_VALUES;
            prop_assert_eq!(check(&bytes, MAX_DEPTH, &mut values_left), parse(&bytes).map(drop));
            match (parse(&bytes), serde_json::from_slice::<Value>(&bytes)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, theirs),
                (Err(JsonError::Syntax(_)), Err(_)) | (Err(JsonError::DuplicateKey(_)), _) => {}
                (ours, theirs) => prop_assert!(false, "{ours:?} against {theirs:?}"),
            }
        }
    }
}
