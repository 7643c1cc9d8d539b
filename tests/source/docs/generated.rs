//! The parts of docs/PROTOCOL.md that follow from the types: functions, error codes, limits.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Map, Value};
use stockade::internals::wire::{Code, schema};

/// The document with everything between `<!-- begin NAME -->` and `<!-- end NAME -->` made anew.
pub fn renewed(document: &str) -> String {
    let mut text = document.to_owned();
    for (name, part) in [("functions", functions()), ("codes", codes()), ("limits", limits())] {
        let begin = format!("<!-- begin {name} -->\n");
        let end = format!("<!-- end {name} -->");
        let from = text.find(&begin).unwrap_or_else(|| panic!("{begin} is missing")) + begin.len();
        let to = text.find(&end).unwrap_or_else(|| panic!("{end} is missing"));
        text.replace_range(from..to, &part);
    }
    text
}

fn functions() -> String {
    let mut text = String::new();
    for doc in schema::catalogue() {
        let class = serde_json::to_value(doc.class).unwrap();
        writeln!(text, "\n### `{}` ({})", doc.function_id, class.as_str().unwrap()).unwrap();
        writeln!(text, "\n{}", doc.description).unwrap();
        let mut shown = BTreeSet::new();
        for (title, schema) in [("request", doc.request_schema), ("result", doc.response_schema)] {
            let schema = schema.to_value();
            fields(&mut text, title, &schema);
            for (name, part) in schema["definitions"].as_object().into_iter().flatten() {
                if shown.insert(name.clone()) {
                    fields(&mut text, name, part);
                }
            }
            let examples = schema["examples"].as_array().map(Vec::as_slice).unwrap_or_default();
            let examples: Vec<String> = examples.iter().map(|example| format!("`{example}`")).collect();
            if !examples.is_empty() {
                writeln!(text, "\nFor example {}", examples.join(" · ")).unwrap();
            }
        }
    }
    text + "\n"
}

/// One table per object; what has no fields (a choice of words) is one line.
fn fields(text: &mut String, title: &str, schema: &Value) {
    for form in schema["oneOf"].as_array().into_iter().flatten().filter(|form| form["properties"].is_object()) {
        let words = form["properties"].as_object().into_iter().flatten();
        let tag = words.filter_map(|(_, field)| field["const"].as_str()).next().unwrap_or_default();
        fields(text, &format!("{title} {tag}"), form);
    }
    let Some(properties) = schema["properties"].as_object() else {
        let words: Vec<String> = alternatives(schema).into_iter().map(|word| format!("`{word}`")).collect();
        if !words.is_empty() {
            writeln!(text, "\n*{title}*: {}", words.join(", ")).unwrap();
        }
        return;
    };
    if properties.is_empty() {
        return writeln!(text, "\n*{title}*: no fields").unwrap();
    }
    writeln!(text, "\n| {title} | type | |\n|---|---|---|").unwrap();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (limits, own): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| defaults().contains_key(name.as_str()));
    // `coder::info` has them all, and they have a table of their own.
    let has_all = limits.len() == defaults().len();
    for (name, field) in if has_all { own } else { properties.iter().collect() } {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let about = field["const"].as_str().map(|word| format!("always `{word}`"));
        let about = about
            .as_deref()
            .or(field["description"].as_str())
            .unwrap_or_default()
            .replace('\n', " ")
            .replace('|', "\\|");
        writeln!(text, "| `{name}`{mark} | {} | {about} |", kind(field)).unwrap();
    }
    if has_all {
        writeln!(text, "| every limit | integer | by its name, see above |").unwrap();
    }
}

/// The words of a choice, with or without a description of their own.
fn alternatives(schema: &Value) -> Vec<String> {
    let mut words: Vec<String> = schema["const"].as_str().map(Into::into).into_iter().collect();
    words.extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into));
    words.extend(schema["oneOf"].as_array().into_iter().flatten().flat_map(alternatives));
    words
}

fn kind(field: &Value) -> String {
    if let Some(reference) = field["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap().into();
    }
    for several in ["anyOf", "allOf", "oneOf"] {
        if let Some(choices) = field[several].as_array() {
            let kinds: Vec<String> = choices.iter().map(kind).filter(|kind| kind != "null").collect();
            return kinds.join(" or ");
        }
    }
    let name = match &field["type"] {
        Value::Array(several) => several.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        one => one.as_str(),
    };
    match name {
        Some("array") => format!("[{}]", kind(&field["items"])),
        Some(name) => name.into(),
        None => "any".into(),
    }
}

fn schema_of<T: schemars::JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value()
}

pub fn codes() -> String {
    let mut text = "\n| code | means |\n|---|---|\n".to_owned();
    for code in schema_of::<Code>()["oneOf"].as_array().expect("every code has its meaning") {
        let (name, means) = (code["const"].as_str().unwrap(), code["description"].as_str().unwrap());
        writeln!(text, "| {name} | {means} |").unwrap();
    }
    text + "\n"
}

fn defaults() -> Map<String, Value> {
    match default_limits() {
        Ok(Value::Object(defaults)) => defaults,
        other => panic!("limits are an object: {other:?}"),
    }
}

/// Values from the code, words from the policy that spells them out for operators; the two must agree.
fn limits() -> String {
    let policy = super::read("policy/default.toml");
    let mut text = "\n| limit | default | |\n|---|---:|---|\n".to_owned();
    for (name, value) in defaults() {
        let begins = format!("{name} = {value} ");
        let line = policy.lines().find(|line| line.starts_with(&begins));
        let line = line.unwrap_or_else(|| panic!("policy/default.toml has no line `{begins}`"));
        let (_, about) = line.split_once("# ").expect("every line of the policy has its reason");
        writeln!(text, "| `{name}` | {value} | {about} |").unwrap();
    }
    text + "\n"
}

/// The limits of the default policy.
#[cfg(feature = "policy")]
fn default_limits() -> serde_json::Result<Value> {
    serde_json::to_value(stockade::internals::policy::Policy::embedded(&[]).limits)
}

/// The worker alone cannot read a policy. Its build is only linted.
#[cfg(not(feature = "policy"))]
fn default_limits() -> serde_json::Result<Value> {
    unreachable!("tests run in the default build")
}
