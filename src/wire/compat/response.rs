//! Translates results to the form of wire 0.2.

use serde_json::Value;

use super::{SentPaths, Wire02Function};

/// The folder of a request that names none.
const CURRENT_FOLDER: &str = ".";

pub(super) fn adapt(function: Wire02Function, sent_paths: SentPaths, result: &mut Value) {
    match function.name {
        "coder::tree" => {
            let top =
                relative_to_base(sent_paths.base_folder.as_deref(), result["path"].as_str().unwrap_or(CURRENT_FOLDER));
            add_node_paths(&mut result["root"], top);
        }
        "coder::search" => return adapt_matches(&sent_paths, result),
        "coder::read-file" | "coder::list-folder" => {}
        _ => return adapt_entries(sent_paths, result),
    }
    result["path"] = Value::from(sent_paths.path.unwrap_or_else(|| CURRENT_FOLDER.into()));
}

/// Turns a path of a result, which is relative to the root, into a path relative to the folder of `base_dir`, as the request
/// would name it.
fn relative_to_base(base: Option<&str>, path: &str) -> String {
    let rest = base.and_then(|base| path.strip_prefix(base));
    match rest {
        None => path.to_owned(),
        Some("") => CURRENT_FOLDER.to_owned(),
        Some(rest) => rest.strip_prefix('/').unwrap_or(path).to_owned(),
    }
}

fn adapt_matches(sent_paths: &SentPaths, result: &mut Value) {
    for list in ["content_matches", "path_matches"] {
        for found in result.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(path) = found.get("path").and_then(Value::as_str) {
                found["path"] = relative_to_base(sent_paths.base_folder.as_deref(), path).into();
            }
        }
    }
}

/// Adds the path as sent to each entry, and turns the error of an entry into a text that holds JSON.
fn adapt_entries(sent_paths: SentPaths, result: &mut Value) {
    let results = result.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten();
    for (entry, sent) in results.zip(sent_paths.entries) {
        if let Some(sent) = sent {
            entry["path"] = sent.into();
        }
        if let Some(error) = entry.get_mut("error").filter(|error| error.is_object()) {
            *error = Value::from(error.to_string());
        }
    }
}

/// Adds its path, and whether it may be read, to every node. The recursion is as deep as the tree, at most `tree_max_depth`.
fn add_node_paths(node: &mut Value, path: String) {
    let children = node.get_mut("children").and_then(Value::as_array_mut).into_iter().flatten();
    for child in children {
        let name = child["name"].as_str().unwrap_or_default();
        let below = if path == CURRENT_FOLDER { name.to_owned() } else { format!("{path}/{name}") };
        add_node_paths(child, below);
    }
    let is_denied = node["non_accessible"] == true;
    node["non_accessible"] = is_denied.into();
    node["path"] = path.into();
}
