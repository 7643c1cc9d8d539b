//! Checks docs/escape-ledger.md: every row has its five columns, and every test that it names exists.

use std::collections::BTreeSet;

/// A ledger with fewer reports has lost rows by mistake.
const FEWEST_ROWS: usize = 35;
/// `| id | what happened | class | what stops it here | test |`
const COLUMNS: usize = 5;

struct Row {
    id: String,
    class: String,
    tests: Vec<String>,
}

fn rows(ledger: &str) -> Vec<Row> {
    let lines = ledger.lines().filter(|line| line.starts_with("| CVE-"));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(columns.len(), COLUMNS, "{line}");
            let tests = columns[4].split('`').skip(1).step_by(2).map(Into::into).collect();
            Row { id: columns[0].into(), class: columns[2].into(), tests }
        })
        .collect()
}

/// The names of all tests: functions with `#[test]`, claims of the attack suite, and claims of `tests/impostor`.
fn tests(sources: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in sources.lines() {
        let line = line.trim_start();
        if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            names.extend(rest.split('(').next().filter(|_| is_test));
            is_test = false;
        } else if let Some((name, _)) = line.split_once(": Attack::on(") {
            names.insert(name);
        } else if let Some((name, _)) = line.strip_prefix("(\"").and_then(|rest| rest.split_once("\", ")) {
            names.insert(name);
        }
    }
    names
}

#[test]
fn every_test_that_the_ledger_names_exists() {
    let (ledger, sources) = (super::read("docs/escape-ledger.md"), super::rust_sources());
    let (rows, tests) = (rows(&ledger), tests(&sources));
    assert!(rows.len() >= FEWEST_ROWS, "{} rows", rows.len());
    for row in &rows {
        assert!(!row.tests.is_empty(), "{}: names no test", row.id);
        for test in &row.tests {
            assert!(tests.contains(test.as_str()), "{}: no test is called {test}", row.id);
        }
    }
}

#[test]
fn the_ledger_has_each_report_once_and_explains_each_class() {
    let ledger = super::read("docs/escape-ledger.md");
    let rows = rows(&ledger);
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids.len(), rows.len(), "an id is listed twice");
    for row in &rows {
        let numbers: Vec<&str> = row.id.split('-').skip(1).collect();
        let is_id = matches!(numbers[..], [year, number] if year.len() == 4 && number.len() >= 4);
        assert!(is_id && numbers.concat().bytes().all(|b| b.is_ascii_digit()), "{}", row.id);
        assert!(ledger.contains(&format!("\n| {} | ", row.class)), "{}: class {}", row.id, row.class);
    }
}
