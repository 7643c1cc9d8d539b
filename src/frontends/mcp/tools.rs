//! Runs in `stockade mcp`: the functions as tools. All texts come from the one table (`wire::function`). A tool that is not offered
//! cannot be called either.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{backend::ServiceInfo, object::JsonObject};
use crate::wire::{
    function::{FUNCTIONS, FunctionClass, FunctionEntry, Tool},
    nearest::nearest,
};

/// A function that has a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfferedTool {
    pub(super) function: &'static FunctionEntry,
    pub(super) tool: Tool,
}

/// All tools there are, in the order of the table.
fn all_tools() -> impl Iterator<Item = OfferedTool> {
    FUNCTIONS.iter().filter_map(|function| Some(OfferedTool { function, tool: function.tool? }))
}

pub(super) fn tool_names() -> impl Iterator<Item = &'static str> {
    all_tools().map(|offer| offer.tool.name)
}

/// The names of the selected tools, or of all if none is selected: those that only read, then those that change something.
pub(super) fn names_by_class(selected: &[String]) -> (Vec<&'static str>, Vec<&'static str>) {
    let selection = ToolSelection { selected: selected.to_vec() };
    let (reading, changing): (Vec<OfferedTool>, _) = selection.offered_tools(None).partition(OfferedTool::is_read_only);
    let names = |tools: Vec<OfferedTool>| tools.iter().map(|offer| offer.tool.name).collect();
    (names(reading), names(changing))
}

/// Names that no tool has, with what was probably meant.
pub(super) fn check_tool_names(wanted: &[String]) -> Result<(), String> {
    let Some(unknown) = wanted.iter().find(|name| !tool_names().any(|known| known == **name)) else {
        return Ok(());
    };
    let known: Vec<&str> = tool_names().collect();
    let near = nearest(unknown, known.iter().copied()).map(|name| format!(" (did you mean {name}?)"));
    Err(format!("no tool is named {unknown}{}; there are {}", near.unwrap_or_default(), known.join(", ")))
}

/// The tools that this host is offered: of the functions that the service offers, those that the operator selected.
#[derive(Debug, Default)]
pub(super) struct ToolSelection {
    /// Empty: all.
    pub(super) selected: Vec<String>,
}

impl ToolSelection {
    fn is_selected(&self, offer: &OfferedTool) -> bool {
        self.selected.is_empty() || self.selected.iter().any(|name| name == offer.tool.name)
    }

    /// Without `info` the service has not spoken yet; it will refuse by itself what it does not offer.
    pub(super) fn offered_tools(&self, info: Option<&ServiceInfo>) -> impl Iterator<Item = OfferedTool> {
        let served = move |offer: &OfferedTool| {
            info.is_none_or(|info| info.functions.iter().any(|name| name == offer.function.name))
        };
        all_tools().filter(move |offer| self.is_selected(offer) && served(offer))
    }

    pub(super) fn find_tool(&self, name: &str, info: Option<&ServiceInfo>) -> Result<OfferedTool, String> {
        if let Some(offer) = self.offered_tools(info).find(|offer| offer.tool.name == name) {
            return Ok(offer);
        }
        let known: Vec<&str> = self.offered_tools(info).map(|offer| offer.tool.name).collect();
        let near = nearest(name, known.iter().copied()).map(|name| format!("did you mean {name}? "));
        Err(format!("C210 no tool is named {name:?} here; {}there are {}", near.unwrap_or_default(), known.join(", ")))
    }
}

impl OfferedTool {
    pub(super) fn is_read_only(&self) -> bool {
        self.function.class == FunctionClass::Read
    }

    /// The tool as `tools/list` shows it.
    pub(super) fn describe(&self, structured: bool) -> Value {
        let hints = json!({
            "readOnlyHint": self.is_read_only(), "destructiveHint": self.tool.destroys,
            "idempotentHint": self.tool.idempotent, "openWorldHint": false,
        });
        let mut listed = json!({
            "name": self.tool.name, "title": self.tool.title, "description": self.tool.description,
            "inputSchema": parse_object(self.tool.input_schema), "annotations": hints,
        });
        if structured {
            listed["outputSchema"] = Value::Object(self.output_schema());
        }
        listed
    }

    /// The schema of the response without descriptions, which would be part of the prompt.
    fn output_schema(&self) -> Map<String, Value> {
        let mut schema = serde_json::to_value((self.function.response_schema)()).unwrap_or_default();
        strip_descriptions(&mut schema, true);
        match schema {
            Value::Object(mut object) => {
                object.insert("type".into(), "object".into());
                object
            }
            _ => Map::new(),
        }
    }

    /// Fields of the request and of its entries, by the names that a call may use.
    fn known_arguments(&self) -> Vec<String> {
        let mut known: Vec<String> = property_names(&parse_object(self.tool.input_schema)).collect();
        let request = serde_json::to_value((self.function.request_schema)()).unwrap_or_default();
        let definitions = request.get("definitions").and_then(Value::as_object);
        let parts = definitions.into_iter().flat_map(|all| all.values()).chain([&request]);
        for part in parts.filter_map(Value::as_object) {
            known.extend(property_names(part));
        }
        known
    }

    /// A note for an error: unknown arguments are its most likely reason.
    pub(super) fn unknown_arguments(&self, arguments: &JsonObject) -> Option<String> {
        let known = self.known_arguments();
        let shown: Vec<String> = property_names(&parse_object(self.tool.input_schema)).collect();
        let unknown: Vec<String> = arguments
            .names()
            .filter(|name| !known.contains(name))
            .take(4)
            .map(|name| {
                let short: Cow<'_, str> = name.chars().take(64).collect();
                match nearest(name, shown.iter().map(String::as_str)) {
                    Some(near) => {
                        format!("{short} is not an argument of {}, did you mean {near}?", self.tool.name)
                    }
                    None => format!("{short} is not an argument of {}", self.tool.name),
                }
            })
            .collect();
        let arguments = format!("it takes {}", shown.join(", "));
        (!unknown.is_empty()).then(|| format!("{}; {arguments}", unknown.join("; ")))
    }
}

fn property_names(schema: &Map<String, Value>) -> impl Iterator<Item = String> {
    let names = schema.get("properties").and_then(Value::as_object).map(|all| all.keys().cloned().collect());
    let names: Vec<String> = names.unwrap_or_default();
    names.into_iter()
}

/// Text of the table, which a test has parsed.
fn parse_object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Removes descriptions, and converts tuples from draft-07, which the schemas use, to the revision of JSON Schema that MCP
/// assumes (2020-12).
fn strip_descriptions(schema: &mut Value, is_schema: bool) {
    match schema {
        Value::Object(members) => {
            if is_schema {
                members.retain(|key, _| !DESCRIPTIVE_KEYWORDS.contains(&key.as_str()));
                if members.get("items").is_some_and(Value::is_array)
                    && let Some(tuple) = members.remove("items")
                {
                    members.insert("prefixItems".into(), tuple);
                }
            }
            for (key, member) in members {
                // Below these, keys are names and not keywords.
                strip_descriptions(member, !is_schema || !matches!(key.as_str(), "properties" | "definitions"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip_descriptions(item, true)),
        _ => {}
    }
}

const DESCRIPTIVE_KEYWORDS: [&str; 5] = ["$schema", "title", "description", "examples", "format"];

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
