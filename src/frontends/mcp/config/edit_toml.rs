//! Runs in `stockade mcp install`: the server's table in the `config.toml` of Codex. Whole lines are put in or taken out and every
//! other byte stays. Pure. Never trusts its own edit: both texts are parsed and compared.

use serde_json::Value;
use toml::Table;

use super::{NAME, NotEdited, StartCommand};

const SERVERS: &str = "mcp_servers";

pub(super) fn block(start: &StartCommand) -> String {
    let arguments: Vec<String> = start.arguments.iter().map(|argument| string(argument)).collect();
    format!("[{SERVERS}.{NAME}]\ncommand = {}\nargs = [{}]\n", string(&start.command), arguments.join(", "))
}

/// A JSON string is a TOML basic string, except for one character.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

pub(super) fn set(text: &str, start: &StartCommand) -> Result<String, NotEdited> {
    let before = parse(text)?;
    let ours = parse(&block(start))?;
    let expected = merged(&before, &ours)?;
    let found = before.get(SERVERS).and_then(|servers| servers.get(NAME));
    let edited = match found {
        None => appended(text, &block(start)),
        Some(found) => replaced(text, &block(start), found)?,
    };
    match parse(&edited) {
        Ok(after) if after == expected => Ok(edited),
        _ => Err(NotEdited(format!(
            "its table {SERVERS}.{NAME} is written in a way that cannot be changed line by line"
        ))),
    }
}

fn parse(text: &str) -> Result<Table, NotEdited> {
    toml::from_str(text).map_err(|error| NotEdited(format!("it is not TOML: {}", error.message())))
}

/// Keys of the table that this program does not write stay.
fn merged(before: &Table, ours: &Table) -> Result<Table, NotEdited> {
    let mut merged = before.clone();
    let wrong = || NotEdited(format!("{SERVERS} is not a table of tables in it"));
    let servers = merged.entry(SERVERS).or_insert_with(|| Table::new().into());
    let server = servers.as_table_mut().ok_or_else(wrong)?.entry(NAME).or_insert_with(|| Table::new().into());
    let server = server.as_table_mut().ok_or_else(wrong)?;
    let ours = ours.get(SERVERS).and_then(|servers| servers.get(NAME)).and_then(toml::Value::as_table);
    server.extend(ours.cloned().unwrap_or_default());
    Ok(merged)
}

fn appended(text: &str, block: &str) -> String {
    let end = if text.ends_with('\n') { "\n" } else { "\n\n" };
    format!("{text}{end}{block}")
}

/// Replaces the lines of the table itself with the block. Tables below it and its other keys stay.
fn replaced(text: &str, block: &str, found: &toml::Value) -> Result<String, NotEdited> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(first) = lines.iter().position(|line| header(line).is_some_and(|header| is_ours(&header))) else {
        // There are only tables below it, or it is an inline table, which the comparison finds.
        return Ok(appended(text, block));
    };
    let rest = &lines[first + 1..];
    let length = rest.iter().position(|line| header(line).is_some()).unwrap_or(rest.len());
    // Comments in front of the next table are that table's.
    let is_kept = |line: &&&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let length = length - rest[..length].iter().rev().take_while(is_kept).count();
    let others: Table = found
        .as_table()
        .into_iter()
        .flatten()
        .filter(|(key, value)| !["command", "args"].contains(&key.as_str()) && !value.is_table())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let others = toml::to_string(&others).map_err(|error| NotEdited(error.to_string()))?;
    Ok([lines[..first].concat(), block.to_owned(), others, rest[length..].concat()].concat())
}

/// The table that a line begins, if TOML reads the line alone.
fn header(line: &str) -> Option<Table> {
    line.trim_start().starts_with('[').then(|| toml::from_str(line).ok()).flatten()
}

fn is_ours(header: &Table) -> bool {
    let server = header.get(SERVERS).and_then(|servers| servers.get(NAME)).and_then(toml::Value::as_table);
    server.is_some_and(Table::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> StartCommand {
        StartCommand { command: "/bin/stockade".into(), arguments: vec!["mcp".into(), "--root".into(), "/srv".into()] }
    }

    const BLOCK: &str = "[mcp_servers.stockade]\ncommand = \"/bin/stockade\"\nargs = [\"mcp\", \"--root\", \"/srv\"]\n";

    #[test]
    fn a_new_table_goes_to_the_end() {
        let text = "model = \"x\" # mine\n[mcp_servers.other]\ncommand = \"y\"";
        assert_eq!(set(text, &start()).unwrap(), format!("{text}\n\n{BLOCK}"));
    }

    #[test]
    fn an_old_table_gives_way_and_its_neighbours_stay() {
        let text = "a = 1\n[ mcp_servers . \"stockade\" ] # old\ncommand = \"/old\"\nargs = [\n  \"x\",\n]\nenabled = false\n\n# of the tool\n[mcp_servers.stockade.tools.read]\napproval_mode = \"approve\"\n";
        let edited = set(text, &start()).unwrap();
        assert_eq!(
            edited,
            format!(
                "a = 1\n{BLOCK}enabled = false\n\n# of the tool\n[mcp_servers.stockade.tools.read]\napproval_mode = \"approve\"\n"
            )
        );
        assert_eq!(set(&edited, &start()).unwrap(), edited, "a second time changes nothing");
    }

    #[test]
    fn rules_for_tools_alone_are_kept() {
        let text = "[mcp_servers.stockade.tools.read]\napproval_mode = \"approve\"\n";
        assert_eq!(set(text, &start()).unwrap(), format!("{text}\n{BLOCK}"));
    }

    #[test]
    fn what_cannot_be_changed_line_by_line_is_refused() {
        for (text, why) in [
            ("a = ", "not TOML"),
            ("mcp_servers = 1", "not a table"),
            ("mcp_servers = { stockade = { command = \"x\" } }", "line by line"),
            ("mcp_servers.stockade.command = \"x\"", "line by line"),
            ("[mcp_servers]\nstockade = { command = \"x\" }", "line by line"),
            ("s = '''\n[mcp_servers.stockade]\n'''\n[mcp_servers.stockade]\ncommand = \"x\"\n", "line by line"),
        ] {
            let refused = set(text, &start()).unwrap_err().0;
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn odd_names_survive() {
        let odd = "/srv/\"quoted\"\\ \u{7f}ä";
        let start = StartCommand { command: odd.into(), arguments: vec![odd.into()] };
        let table = parse(&block(&start)).unwrap();
        assert_eq!(table[SERVERS][NAME]["command"].as_str(), Some(odd));
        assert_eq!(table[SERVERS][NAME]["args"][0].as_str(), Some(odd));
    }
}
