//! Runs in the worker (explaining bad input) and in frontends (documentation, tool lists). Pure.
//! Schemas are draft-07, generated from the very types that decode and encode, so they cannot disagree with them.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::function::{FUNCTIONS, Function, FunctionClass};

/// One function in the form that documentation, schema listings and registrations show.
#[derive(Debug, Clone, Serialize)]
pub struct FunctionDoc {
    pub function_id: &'static str,
    pub description: &'static str,
    pub class: FunctionClass,
    pub request_schema: Schema,
    pub response_schema: Schema,
}

/// Every function, in the order of the table.
pub fn catalogue() -> Vec<FunctionDoc> {
    let doc = |entry: &super::function::FunctionEntry| FunctionDoc {
        function_id: entry.name,
        description: entry.description,
        class: entry.class,
        request_schema: (entry.request_schema)(),
        response_schema: (entry.response_schema)(),
    };
    FUNCTIONS.iter().map(doc).collect()
}

pub fn request_schema<F: Function>() -> Schema {
    accepted_schema::<F::Request>()
}

/// The schema of a complete result: the result of the function, and the warnings that the envelope may add.
pub fn response_schema<F: Function>() -> Schema {
    let mut schema = SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<F::Response>();
    let warnings = json_schema!({
        "type": "array",
        "items": { "type": "string" },
        "description": "What was odd about the request, each with its place; absent when nothing was."
    });
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Default::default()));
    if let Value::Object(properties) = properties {
        properties.insert("warnings".into(), warnings.into());
    }
    schema
}

/// The schema of a request, or of one entry of its batch.
pub fn accepted_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft07().for_deserialize().into_generator().into_root_schema_for::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Warnings, decode::decode, types};

    #[test]
    fn every_function_is_documented_once_under_its_own_name() {
        let catalogue = catalogue();
        let mut names: Vec<_> = catalogue.iter().map(|doc| doc.function_id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTIONS.len());
        for doc in &catalogue {
            assert!(doc.function_id.starts_with("coder::") && !doc.description.is_empty());
            for schema in [&doc.request_schema, &doc.response_schema] {
                assert_eq!(schema.get("$schema").unwrap(), "http://json-schema.org/draft-07/schema#");
            }
            assert_eq!(doc.response_schema.get("properties").unwrap()["warnings"]["type"], "array");
        }
    }

    #[test]
    fn no_result_type_has_warnings_of_its_own() {
        macro_rules! check {
            ($($function:ident),*) => { $({
                type Response = <types::$function as Function>::Response;
                let schema = SchemaSettings::draft07().for_serialize().into_generator()
                    .into_root_schema_for::<Response>();
                let properties = schema.get("properties");
                assert!(properties.is_none_or(|p| p.get("warnings").is_none()), stringify!($function));
            })* };
        }
        crate::functions!(check);
    }

    #[test]
    fn every_request_has_examples_and_they_decode_without_warnings() {
        macro_rules! check {
            ($($function:ident),*) => { $({
                type Request = <types::$function as Function>::Request;
                let schema = accepted_schema::<Request>();
                let examples = schema.get("examples").and_then(Value::as_array).expect(stringify!($function));
                assert!(!examples.is_empty());
                for example in examples {
                    let mut warnings = Warnings::default();
                    decode::<Request>(example.clone(), "", &mut warnings).unwrap();
                    assert_eq!(warnings, Warnings::default(), "{example}");
                }
            })* };
        }
        crate::functions!(check);
    }
}
