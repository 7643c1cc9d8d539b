//! The step tables of docs/ARCHITECTURE.md: every file and every function that a row names exists.

use std::fs;

use regex::Regex;

use super::{package, read};

/// The header of a step table. Tables with another header are not examined.
const HEADER: &str = "| step | file | function |";
/// What all requests share, and four requests.
const TABLES: usize = 5;

/// The rows of all step tables.
fn rows(document: &str) -> Vec<&str> {
    let mut lines = document.lines();
    let mut rows = Vec::new();
    while lines.any(|line| line == HEADER) {
        // The line below the header separates it from the rows.
        rows.extend(lines.by_ref().skip(1).take_while(|line| line.starts_with('|')));
    }
    rows
}

/// What is wrong with a row: `None` if its file exists and has all of its functions.
fn wrong_step(row: &str) -> Option<String> {
    let link = Regex::new(r"\[(src/[\w/]+\.rs)\]\(\.\./(src/[\w/]+\.rs)\)").unwrap();
    let name = Regex::new(r"`(?:(\w+)::)?(\w+)`").unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [_, _, file, functions, _] = cells[..] else { return Some(format!("not three columns: {row}")) };
    let Some(file) = link.captures(file).filter(|file| file[1] == file[2]).map(|file| file[1].to_owned()) else {
        return Some(format!("no link to a file: {row}"));
    };
    let Ok(source) = fs::read_to_string(package().join(&file)) else {
        return Some(format!("{file}: no such file"));
    };
    let has = |pattern: String| Regex::new(&pattern).unwrap().is_match(&source);
    let mut functions = name.captures_iter(functions).peekable();
    if functions.peek().is_none() {
        return Some(format!("no function: {row}"));
    }
    functions.find_map(|names| {
        let (owner, function) = (names.get(1).map(|owner| owner.as_str()), &names[2]);
        let is_owned = owner.is_none_or(|owner| has(format!(r"(impl|trait)\b[^\n{{]*\b{owner}\b")));
        let is_there = is_owned && has(format!(r"\bfn {function}\b"));
        (!is_there).then(|| format!("{file}: no {}", &names[0]))
    })
}

#[test]
fn step_tables_name_files_and_functions_that_exist() {
    let document = read("docs/ARCHITECTURE.md");
    assert_eq!(document.lines().filter(|line| *line == HEADER).count(), TABLES);
    let rows = rows(&document);
    assert!(rows.len() >= TABLES * 8, "{} rows", rows.len());
    let wrong: Vec<String> = rows.iter().filter_map(|row| wrong_step(row)).collect();
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

#[test]
fn a_step_with_a_name_that_is_gone_is_found() {
    let row = |file: &str, function: &str| format!("| 1. It acts. | [{file}](../{file}) | {function} |");
    let file = "src/jail/mod.rs";
    assert_eq!(wrong_step(&row(file, "`Jail::locate`, `open`")), None);
    for (file, function) in [
        ("src/jail/gone.rs", "`locate`"),
        (file, "`Jail::locate`, `no_such_function`"),
        (file, "`Warden::locate`"),
        (file, "locate"),
    ] {
        assert!(wrong_step(&row(file, function)).is_some(), "{file} {function}");
    }
    assert!(wrong_step("| 1. It acts. | src/jail/mod.rs | `locate` |").is_some(), "a file is a link");
}
