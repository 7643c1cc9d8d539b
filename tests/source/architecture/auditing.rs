//! Keeps docs/AUDITING.md true: its reading order names every trusted file once, and its numbers are the lines of those files.
//! `UPDATE_DOCS=1 cargo test --test source architecture` writes the numbers anew.

use std::{collections::BTreeMap, fs};

use super::{
    NOT_IN_THE_SUPERVISOR, TRUSTED, pattern,
    source::{PRODUCT, Source, package},
};

/// Trusted, although the supervisor does not run it.
const ALSO_TRUSTED: &[&str] = &[
    "src/worker/start.rs",
    "src/confine/worker.rs",
    "src/confine/linux/seccomp.rs",
    "src/confine/linux/attempt_calls.rs",
    "src/sys/worker.rs",
    "src/sys/linux/worker.rs",
    "policy/seccomp/worker.toml",
    "policy/default.toml",
    "build.rs",
];

/// Every trusted file and its lines.
fn trusted() -> BTreeMap<String, usize> {
    let is_trusted = |source: &&Source| {
        let runs_elsewhere = NOT_IN_THE_SUPERVISOR.iter().any(|(file, _)| *file == source.path);
        TRUSTED.contains(&source.module()) && !runs_elsewhere
    };
    let mut files: BTreeMap<String, usize> =
        PRODUCT.iter().filter(is_trusted).map(|source| (source.path.clone(), source.code_lines())).collect();
    for path in ALSO_TRUSTED {
        let text = fs::read_to_string(package().join(path)).expect("readable");
        let lines = match path.ends_with(".toml") {
            true => text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count(),
            false => Source::new(path, &text).code_lines(),
        };
        files.insert((*path).into(), lines);
    }
    files
}

/// The document with right numbers. Takes the files that it names out of `files`.
fn renewed(text: &str, files: &mut BTreeMap<String, usize>) -> String {
    let (file, row) = (pattern("`([^`]+)`"), pattern(r"^(\| .* \| .*\| )[0-9,]+ \|$"));
    let mut sum = 0;
    let line = |line: &str| match row.captures(line) {
        None => line.to_owned(),
        Some(parts) => {
            let named = file.captures_iter(&parts[1]).map(|name| {
                files.remove(&name[1]).unwrap_or_else(|| panic!("{}: not trusted, or named twice", &name[1]))
            });
            let lines: usize = named.sum();
            sum += lines;
            format!("{}{} |", &parts[1], if lines == 0 { sum } else { lines })
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_reading_order_of_an_audit_names_all_that_is_trusted() {
    let path = package().join("docs/AUDITING.md");
    let current = fs::read_to_string(&path).expect("readable");
    let mut files = trusted();
    let fresh = renewed(&current, &mut files);
    assert!(files.is_empty(), "docs/AUDITING.md does not name {files:?}");
    if current != fresh && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, fresh).expect("writable");
        return;
    }
    let differs = current.lines().zip(fresh.lines()).find(|(old, new)| old != new);
    assert!(current == fresh, "run UPDATE_DOCS=1 cargo test --test source architecture; first difference: {differs:?}");
}

#[test]
fn a_wrong_number_and_an_unknown_file_are_found() {
    let files = || BTreeMap::from([("a.rs".to_owned(), 3), ("b.rs".to_owned(), 4)]);
    let text = "| x | `a.rs` | 9 |\n| y | `b.rs` | 4 |\n| **all** | | 1 |\n";
    let mut left = files();
    assert_eq!(renewed(text, &mut left), "| x | `a.rs` | 3 |\n| y | `b.rs` | 4 |\n| **all** | | 7 |\n");
    assert!(left.is_empty());
    let unknown = || renewed("| x | `c.rs` | 1 |\n", &mut files());
    assert!(std::panic::catch_unwind(unknown).is_err());
}
