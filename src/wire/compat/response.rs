//! Results as the older line wrote them.

use serde_json::Value;

use super::{Echo, Older};

/// The folder that a request means when it names none.
const HERE: &str = ".";

pub(super) fn adapt(older: Older, echo: Echo, result: &mut Value) {
    match older.name {
        "coder::tree" => {
            let top = below(echo.base.as_deref(), result["path"].as_str().unwrap_or(HERE));
            name_nodes(&mut result["root"], top);
        }
        "coder::search" => return matches(&echo, result),
        "coder::read-file" | "coder::list-folder" => {}
        _ => return entries(echo, result),
    }
    result["path"] = Value::from(echo.path.unwrap_or_else(|| HERE.into()));
}

/// A path of a result, which is relative to the root, as the request would have named it.
fn below(base: Option<&str>, path: &str) -> String {
    let rest = base.and_then(|base| path.strip_prefix(base));
    match rest {
        None => path.to_owned(),
        Some("") => HERE.to_owned(),
        Some(rest) => rest.strip_prefix('/').unwrap_or(path).to_owned(),
    }
}

fn matches(echo: &Echo, result: &mut Value) {
    for list in ["content_matches", "path_matches"] {
        for found in result.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(path) = found.get("path").and_then(Value::as_str) {
                found["path"] = below(echo.base.as_deref(), path).into();
            }
        }
    }
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
