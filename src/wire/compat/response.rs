//! Results as the older line wrote them.

use serde_json::Value;

use super::{Echo, Older};

/// The folder that a request means when it names none.
const HERE: &str = ".";

pub(super) fn adapt(older: Older, echo: Echo, result: &mut Value) {
    match older.name {
        "coder::tree" => {
            let top = result["path"].as_str().unwrap_or(HERE).to_owned();
            name_nodes(&mut result["root"], top);
        }
        "coder::read-file" | "coder::list-folder" => {}
        _ => return entries(echo, result),
    }
    result["path"] = Value::from(echo.path.unwrap_or_else(|| HERE.into()));
}

/// Each entry repeats its path, and its error is a text that holds JSON.
fn entries(echo: Echo, result: &mut Value) {
    let results = result.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten();
    for (entry, sent) in results.zip(echo.entries) {
        if let Some(sent) = sent {
            entry["path"] = sent.into();
        }
        if let Some(error) = entry.get_mut("error").filter(|error| error.is_object()) {
            *error = Value::from(error.to_string());
        }
    }
}

/// Every node says where it is and whether it may be read. As deep as `tree_max_depth` at most.
fn name_nodes(node: &mut Value, path: String) {
    let children = node.get_mut("children").and_then(Value::as_array_mut).into_iter().flatten();
    for child in children {
        let name = child["name"].as_str().unwrap_or_default();
        let below = if path == HERE { name.to_owned() } else { format!("{path}/{name}") };
        name_nodes(child, below);
    }
    let is_denied = node["non_accessible"] == true;
    node["non_accessible"] = is_denied.into();
    node["path"] = path.into();
}
