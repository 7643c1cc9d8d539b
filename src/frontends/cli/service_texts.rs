//! Translates texts of the service for users: a function becomes the command that does the same. Never rewrites what the user typed,
//! because a file can have the name of a function and its request.

use serde_json::{Map, Value};

use super::super::function_names::{PREFIX, translate};

/// Each function with its command.
const COMMANDS: [(&str, &str); 14] = [
    ("coder::info", "info"),
    ("coder::read-file", "read"),
    ("coder::create-file", "create"),
    ("coder::update-file", "edit"),
    ("coder::delete-file", "rm"),
    ("coder::list-folder", "ls"),
    ("coder::tree", "tree"),
    ("coder::move", "mv"),
    ("coder::copy", "cp"),
    ("coder::mkdir", "mkdir"),
    ("coder::restore", "restore"),
    ("coder::stat", "stat"),
    ("coder::find", "find"),
    ("coder::search", "search"),
];

/// Replaces each function in the text, together with the request after it, with a command line.
pub(super) fn in_commands(text: &str) -> String {
    let typed: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let typed: Vec<&str> = typed.iter().map(String::as_str).filter(|word| word.contains(PREFIX)).collect();
    in_commands_beside(text, &typed)
}

/// Like `in_commands`, where the user typed these words.
fn in_commands_beside(text: &str, typed: &[&str]) -> String {
    translate(text, typed, |function, request| {
        let command = COMMANDS.iter().find(|(name, _)| *name == function.name).map(|(_, command)| *command);
        match (command, request) {
            (Some(command), None) => format!("`stockade {command}`"),
            (Some(command), Some(request)) => match arguments(command, request) {
                Some(arguments) => format!("`stockade {command}{arguments}`"),
                None => format!("`stockade call {} {}`", function.name, quoted(request)),
            },
            (None, request) => format!("`stockade call {} {}`", function.name, quoted(request.unwrap_or("{}"))),
        }
    })
    .into_owned()
}

/// The options and operands for a request. None if the command has no option for one of its fields.
fn arguments(command: &str, request: &str) -> Option<String> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(request) else { return None };
    let mut words = Vec::new();
    let lines = (number(&mut fields, "line_from"), number(&mut fields, "line_to"));
    let bytes = (number(&mut fields, "byte_from"), number(&mut fields, "byte_to"));
    for (option, range) in [("--lines", lines), ("--bytes", bytes)] {
        if let (from @ Some(_), to) | (from, to @ Some(_)) = range {
            let end = |end: Option<u64>| end.map_or_else(String::new, |end| end.to_string());
            words.push(format!("{option} {}:{}", end(from), end(to)));
        }
    }
    for (field, option) in [("tail", "--tail"), ("page", "--page"), ("max_depth", "--depth")] {
        words.extend(number(&mut fields, field).map(|number| format!("{option} {number}")));
    }
    for (field, option) in [("stat", "--stat"), ("etag", "--etag"), ("recursive", "--recursive")] {
        if fields.get(field) == Some(&Value::Bool(true)) {
            fields.remove(field);
            words.push(option.to_owned());
        }
    }
    for field in ["query", "path"] {
        if let Some(Value::String(text)) = fields.get(field) {
            words.push(quoted(text));
            fields.remove(field);
        }
    }
    if let Some(Value::Array(paths)) = fields.remove("paths") {
        let paths = paths.iter().map(|path| path.as_str().map(quoted));
        words.extend(paths.collect::<Option<Vec<String>>>()?);
    }
    let fits = fields.is_empty() && super::args::command_accepts(command, &words);
    fits.then(|| words.iter().map(|word| format!(" {word}")).collect())
}

fn number(fields: &mut Map<String, Value>, field: &str) -> Option<u64> {
    let number = fields.get(field)?.as_u64()?;
    fields.remove(field);
    Some(number)
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::function::FUNCTIONS;

    #[test]
    fn functions_become_commands_with_their_options() {
        for (text, expected) in [
            ("coder::list-folder shows it", "`stockade ls` shows it"),
            ("use coder::read-file {\"path\": \"a b\", \"line_from\": 7}", "use `stockade read --lines 7: 'a b'`"),
            ("coder::read-file {\"path\":\"x\",\"tail\":5} or so", "`stockade read --tail 5 x` or so"),
            ("coder::tree {\"path\": \"src\", \"max_depth\": 2}", "`stockade tree --depth 2 src`"),
            ("coder::stat {\"paths\": [\"a\", \"b\"]}", "`stockade stat a b`"),
            ("coder::search {\"query\": \"it's\"}", r"`stockade search 'it'\''s'`"),
            // A field without an option becomes a raw call.
            (
                "coder::search {\"query\":\"x\",\"cursor\":\"c\"}",
                "`stockade call coder::search '{\"query\":\"x\",\"cursor\":\"c\"}'`",
            ),
            ("coder::stat {\"path\":\"x\",\"tail\":5}", "`stockade call coder::stat '{\"path\":\"x\",\"tail\":5}'`"),
            ("\"coder::tree\" stays", "\"coder::tree\" stays"),
        ] {
            assert_eq!(in_commands(text), expected);
        }
    }

    #[test]
    fn a_file_named_like_a_call_does_not_become_a_command() {
        let name = "coder::delete-file {\"paths\":[\"src\"],\"recursive\":true}x";
        let text = format!("{name}: not found; see what is there with coder::list-folder");
        let shown = format!("{name}: not found; see what is there with `stockade ls`");
        assert_eq!(in_commands_beside(&text, &[name]), shown);
    }

    #[test]
    fn every_function_has_a_command_that_exists() {
        let command = super::super::args::command();
        for function in FUNCTIONS {
            let (_, name) = COMMANDS.iter().find(|(known, _)| *known == function.name).expect(function.name);
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
