//! Documents that stay true: their examples are run, their tables are generated, what they name exists.
//! `UPDATE_DOCS=1 cargo test --test source docs` rewrites the generated parts.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod examples;
mod generated;
mod ledger;
mod session;
mod steps;
use crate::support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use stockade::internals::wire::function::FUNCTIONS;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(package().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn generated_parts_are_up_to_date() {
    let current = read("docs/PROTOCOL.md");
    let fresh = generated::renewed(&current);
    if current != fresh && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(package().join("docs/PROTOCOL.md"), fresh).unwrap();
    } else {
        let differs = current.lines().zip(fresh.lines()).find(|(old, new)| old != new);
        assert!(current == fresh, "run UPDATE_DOCS=1 cargo test --test source docs; first difference: {differs:?}");
    }
}

#[test]
fn examples_print_what_they_say() {
    let has_examples = |name: &String| !["README.md", "compat-0.2.md"].iter().any(|none| name.ends_with(none));
    let contract = fs::read_dir(package().join("docs/contract")).unwrap();
    let contract = contract.map(|page| format!("docs/contract/{}", page.unwrap().file_name().display()));
    let others = ["docs/PROTOCOL.md", "docs/skill.md"].map(Into::into);
    for name in contract.filter(has_examples).chain(others) {
        // Its own, because some of them change files.
        let jail = examples::project();
        let blocks = examples::blocks(&read(&name));
        let ran = blocks.iter().filter(|block| examples::run(&jail, &name, block)).count();
        assert!(ran > 0, "{name}: no example was run");
        jail.assert_intact();
    }
}

#[test]
fn the_skill_card_is_one_page_about_functions_that_exist() {
    let card = read("docs/skill.md");
    assert!(card.lines().count() <= 100 && card.len() <= 8 << 10, "{} bytes are no page", card.len());
    for name in card.split("coder::").skip(1) {
        let name = name.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
        assert!(
            stockade::internals::wire::function::find_function(&format!("coder::{name}")).is_some(),
            "no coder::{name}"
        );
    }
    for entry in FUNCTIONS {
        let row = card.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{}", entry.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", entry.name));
        let tool = entry.tool.map(|tool| format!("`{}`", tool.name));
        assert!(tool.is_none_or(|tool| row.contains(&tool)), "the tool of {row}");
    }
    for line in generated::codes().lines().filter(|line| line.starts_with("| C")) {
        let code = &line[2..6];
        assert!(card.contains(code), "{code} is missing");
    }
}

#[test]
fn the_readme_names_every_function_and_no_other() {
    let readme = read("README.md");
    for entry in FUNCTIONS {
        assert!(readme.contains(&format!("| `{}` |", entry.name)), "{} is missing", entry.name);
    }
    let rows = readme.lines().filter(|line| line.starts_with("| `coder::")).count();
    assert_eq!(rows, FUNCTIONS.len());
}

#[test]
fn the_readme_names_every_command() {
    let readme = read("README.md");
    let program = support::bin_dir(false).join("stockade");
    let help = std::process::Command::new(program).arg("help").env_clear().output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("\nOptions:\n").next().unwrap();
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(readme.contains(&format!("`{name}`")), "{name} is missing");
    }
}

#[test]
fn the_numbers_of_the_readme_are_those_of_the_measurements() {
    let (readme, measured) = (read("README.md"), read("docs/BENCH.md"));
    let section = readme.split("## What it costs").nth(1).unwrap().split("\n## ").next().unwrap();
    let number = regex::Regex::new(r"\d+\.\d+").unwrap();
    let numbers: Vec<&str> = number.find_iter(section).map(|found| found.as_str()).collect();
    assert!(numbers.len() > 20, "{numbers:?}");
    let is_measured = |wanted: &&&str| number.find_iter(&measured).any(|found| found.as_str() == **wanted);
    let invented: Vec<&&str> = numbers.iter().filter(|number| !is_measured(number)).collect();
    assert!(invented.is_empty(), "docs/BENCH.md does not have {invented:?}");
}

#[test]
fn files_and_headings_that_documents_link_to_are_there() {
    let documents = documents();
    assert!(documents.len() > 20, "{documents:?}");
    for document in &documents {
        let text = fs::read_to_string(document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = match target {
                "" => document.clone(),
                target => document.parent().unwrap().join(target),
            };
            assert!(file.exists(), "{}: {link}", document.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let has_heading = text.lines().filter_map(anchor).any(|anchor| anchor == heading);
                assert!(has_heading, "{}: no heading for {link}", document.display());
            }
        }
    }
}

/// Every Markdown file at the top of the package, in `docs`, in `docs/contract` and in `tests`.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/contract", "tests"].map(|folder| package().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// What a link to this line names, if the line is a heading: lower case, without punctuation, hyphens for spaces.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[test]
fn what_the_promises_name_as_proof_is_there() {
    let security = read("SECURITY.md");
    let table = security.split("## What is promised").nth(1).unwrap().split("## What is not").next().unwrap();
    let sources = rust_sources();
    for word in table.split('`').skip(1).step_by(2) {
        let is_file = word.contains('/');
        let is_name = word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if is_file {
            assert!(package().join(word).is_file(), "{word} is gone");
        } else if is_name {
            assert!(sources.contains(word), "no test or attempt is called {word}");
        }
    }
}

#[test]
fn files_that_contributors_are_sent_to_are_there() {
    let text = read("CONTRIBUTING.md");
    let words = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| ["src/", "tests/", "docs/", "policy/"].iter().any(|folder| word.starts_with(folder));
    let paths: Vec<&str> = words.filter(is_path).collect();
    assert!(paths.len() > 40, "{paths:?}");
    for path in paths {
        assert!(package().join(path).exists(), "CONTRIBUTING.md: {path} is gone");
    }
}

#[test]
fn every_single_layer_case_is_told() {
    let security = read("SECURITY.md");
    for line in read("tests/jail/escape/layers.toml").lines() {
        if let Some(case) = line.strip_prefix("case = ") {
            assert!(security.contains(&case.replace('"', "`")), "{case} is missing from SECURITY.md");
        }
    }
}

fn rust_sources() -> String {
    let mut text = String::new();
    let mut open = vec![package().join("src"), package().join("tests")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    text
}
