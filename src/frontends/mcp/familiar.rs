//! Renames the arguments of the best-known file tools to those of the tools of stockade. Runs in `stockade mcp`. Pure. No
//! description mentions these names, so they cost nothing, and a model that is used to them needs no second try. Never
//! guesses between two values: two names for one argument with different values are C210. Never lets a tool do what another
//! tool does, because hosts allow tools by their names.

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::object::JsonObject;

/// Tools, a familiar name, and the name of the argument here.
const SAME_ARGUMENTS: &[(&[&str], &str, &str)] = &[
    (&["read", "list", "tree", "create", "edit", "delete"], "file_path", "path"),
    (&["edit"], "old_string", "old"),
    (&["edit"], "old_str", "old"),
    (&["edit"], "oldText", "old"),
    (&["edit"], "new_string", "new"),
    (&["edit"], "new_str", "new"),
    (&["edit"], "newText", "new"),
    (&["edit"], "edits", "ops"),
    (&["create"], "file_text", "content"),
    (&["move", "copy"], "old_path", "from"),
    (&["move", "copy"], "source", "from"),
    (&["move", "copy"], "new_path", "to"),
    (&["move", "copy"], "destination", "to"),
    (&["search"], "glob", "include_globs"),
    (&["search"], "-i", "ignore_case"),
    (&["search"], "-A", "context_lines_after"),
    (&["search"], "-B", "context_lines_before"),
    (&["search"], "-C", "context"),
    (&["search"], "head_limit", "max_matches"),
    (&["find"], "glob", "paths"),
    (&["find"], "pattern", "paths"),
];

/// The values of `command`, and the tool that does each.
const COMMANDS: [(&str, &str); 6] = [
    ("view", "read"),
    ("create", "create"),
    ("str_replace", "edit"),
    ("insert", "edit"),
    ("delete", "delete"),
    ("rename", "move"),
];

/// The most context lines of a search.
const MAX_CONTEXT_LINES: u64 = 10;

/// Renames the familiar arguments of a call. An error is the text of the refusal.
pub(super) fn rename(tool: &str, arguments: &mut JsonObject) -> Result<(), String> {
    take_command(tool, arguments)?;
    rename_same(tool, arguments)?;
    match tool {
        "read" => rename_window(arguments),
        "search" => rename_search(arguments),
        "find" => rename_folder(arguments),
        "edit" => {
            rename_edit(arguments)?;
            rename_entries("files", arguments, |entry| {
                rename_same("edit", entry)?;
                rename_edit(entry)
            })
        }
        "create" | "move" | "copy" => rename_entries("files", arguments, |entry| rename_same(tool, entry)),
        _ => Ok(()),
    }
}

fn rename_same(tool: &str, arguments: &mut JsonObject) -> Result<(), String> {
    for (_, familiar, own) in SAME_ARGUMENTS.iter().filter(|(tools, ..)| tools.contains(&tool)) {
        if let Some(value) = take(familiar, arguments) {
            put(tool, arguments, familiar, own, value)?;
        }
    }
    Ok(())
}

/// Removes an argument. None if it is absent or null.
fn take(name: &str, arguments: &mut JsonObject) -> Option<Box<RawValue>> {
    arguments.take(name).filter(|value| value.get() != "null")
}

/// Sets the tool's own argument to the value of a familiar one. Refuses two different values for one argument.
fn put(tool: &str, arguments: &mut JsonObject, familiar: &str, own: &str, value: Box<RawValue>) -> Result<(), String> {
    match arguments.get(own) {
        Some(other) if other.get() != "null" && !is_same(other, &value) => Err(format!(
            "C210 {tool}: {familiar} and {own} are two names for one thing, and their values differ; send one of them"
        )),
        _ => {
            arguments.set_raw(own, value);
            Ok(())
        }
    }
}

/// A list of one and its only element are the same: either may be sent.
fn is_same(one: &RawValue, other: &RawValue) -> bool {
    let read = |value: &RawValue| -> Value { serde_json::from_str(value.get()).unwrap_or_default() };
    let only = |value: Value| match value {
        Value::Array(mut list) if list.len() == 1 => list.swap_remove(0),
        other => other,
    };
    one.get() == other.get() || only(read(one)) == only(read(other))
}

/// A number, which may be written as a text.
fn number(tool: &str, name: &str, value: &RawValue) -> Result<i64, String> {
    let text: Option<String> = super::object::decode_string(value);
    let text = text.as_deref().unwrap_or(value.get()).trim();
    text.parse().map_err(|_| format!("C210 {tool}: {name}: expected a number, for example 40"))
}

/// `command` of the tools that know several. It has to be one that this tool does.
fn take_command(tool: &str, arguments: &mut JsonObject) -> Result<(), String> {
    let Some(command) = take("command", arguments) else { return Ok(()) };
    let command = super::object::decode_string(&command).unwrap_or_default();
    match COMMANDS.iter().find(|(known, _)| *known == command) {
        Some((_, owner)) if *owner == tool => Ok(()),
        Some((_, owner)) => {
            Err(format!("C210 {tool}: the command {command} is the tool {owner}; call {owner} with the same arguments"))
        }
        None => {
            let known: Vec<String> = COMMANDS.iter().map(|(known, owner)| format!("{known} (tool {owner})")).collect();
            Err(format!("C210 {tool}: command: expected one of {}", known.join(", ")))
        }
    }
}

/// `view_range`, or `offset` and `limit`: a first line, and a last one or a number of lines.
fn rename_window(arguments: &mut JsonObject) -> Result<(), String> {
    if let Some(range) = take("view_range", arguments) {
        let range: Vec<i64> = serde_json::from_str(range.get())
            .map_err(|_| "C210 read: view_range: expected two line numbers, for example [1, 40]".to_owned())?;
        let [first, last] = range[..] else {
            return Err(
                "C210 read: view_range: expected two line numbers, for example [1, 40]; -1 is the last line".into()
            );
        };
        put_number(arguments, "view_range", "line_from", first.max(1))?;
        if last != -1 {
            put_number(arguments, "view_range", "line_to", last)?;
        }
    }
    let offset = take("offset", arguments).map(|value| number("read", "offset", &value)).transpose()?;
    let limit = take("limit", arguments).map(|value| number("read", "limit", &value)).transpose()?;
    let head = take("head", arguments).map(|value| number("read", "head", &value)).transpose()?;
    if offset.is_some_and(|offset| offset < 0) {
        return Err("C210 read: offset: lines are 1-based; for the last lines use tail".into());
    }
    let first = offset.map(|offset| offset.max(1));
    if let Some(first) = first {
        put_number(arguments, "offset", "line_from", first)?;
    }
    for (name, count) in [("limit", limit), ("head", head)] {
        let Some(count) = count else { continue };
        if count < 1 {
            return Err(format!("C210 read: {name}: expected at least 1 line"));
        }
        let from = first.or_else(|| arguments.decode("line_from")).unwrap_or(1);
        put_number(arguments, name, "line_to", from.saturating_add(count - 1))?;
    }
    Ok(())
}

fn put_number(arguments: &mut JsonObject, familiar: &str, own: &str, number: i64) -> Result<(), String> {
    let value = to_raw_value(&number).map_err(|error| error.to_string())?;
    put("read", arguments, familiar, own, value)
}

fn rename_search(arguments: &mut JsonObject) -> Result<(), String> {
    if let Some(pattern) = take("pattern", arguments) {
        put("search", arguments, "pattern", "query", pattern)?;
        arguments.set_default("regex", &true);
    }
    // Matches always have their line numbers.
    arguments.take("-n");
    match take("output_mode", arguments).as_ref().map(|mode| mode.get()) {
        Some("\"files_with_matches\"") => arguments.set_default("files_only", &true),
        Some("\"count\"") => arguments.set_default("count_only", &true),
        _ => {}
    }
    if let Some(context) = take("context", arguments) {
        let lines = number("search", "context", &context)?.clamp(0, MAX_CONTEXT_LINES as i64);
        arguments.set_default("context_lines_before", &lines);
        arguments.set_default("context_lines_after", &lines);
    }
    Ok(())
}

/// A folder beside patterns is where the patterns begin; alone it is the folder to list.
fn rename_folder(arguments: &mut JsonObject) -> Result<(), String> {
    let Some(folder) = take("path", arguments) else { return Ok(()) };
    let own = if arguments.has("paths") { "base_dir" } else { "paths" };
    put("find", arguments, "path", own, folder)
}

/// `replace_all`, and the insertion behind a line, of a call or of an entry.
fn rename_edit(arguments: &mut JsonObject) -> Result<(), String> {
    rename_entries("ops", arguments, |op| {
        rename_same("edit", op)?;
        rename_all(op);
        // The op may be left out where there is only one that takes these fields.
        if op.has("old") {
            op.set_default("op", &"str_replace");
        }
        Ok(())
    })?;
    rename_all(arguments);
    let Some(line) = take("insert_line", arguments) else { return Ok(()) };
    let line = number("edit", "insert_line", &line)?;
    let text = take("insert_text", arguments).or_else(|| take("new", arguments));
    let Some(text) = text else {
        return Err("C210 edit: insert_text is missing beside insert_line".into());
    };
    let mut op = JsonObject::default();
    op.set("op", &"insert");
    op.set("at_line", &line.saturating_add(1));
    op.set_raw("content", text);
    let op = to_raw_value(&[op]).map_err(|error| error.to_string())?;
    put("edit", arguments, "insert_line", "ops", op)
}

fn rename_all(arguments: &mut JsonObject) {
    if let Some(all) = take("replace_all", arguments)
        && !matches!(all.get(), "false" | "\"false\"")
    {
        arguments.set_raw("all", all);
    }
}

/// Renames in each object of a list. Whatever else is in it stays for the service to refuse.
fn rename_entries(
    list: &str,
    arguments: &mut JsonObject,
    rename: impl Fn(&mut JsonObject) -> Result<(), String>,
) -> Result<(), String> {
    let Some(entries) = arguments.decode::<Vec<Box<RawValue>>>(list) else { return Ok(()) };
    let mut renamed = Vec::with_capacity(entries.len());
    for entry in entries {
        renamed.push(match serde_json::from_str::<JsonObject>(entry.get()) {
            Ok(mut object) => {
                rename(&mut object)?;
                to_raw_value(&object).unwrap_or(entry)
            }
            Err(_) => entry,
        });
    }
    arguments.set(list, &renamed);
    Ok(())
}
