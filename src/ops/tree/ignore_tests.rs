use serde_json::{Value, json};

use super::*;
use crate::jail::testing::{TestJail, TestJailOptions};

/// Names below the root, and how many entries ignore files hid.
fn tree(test: &TestJail, request: Value) -> (Vec<String>, Value) {
    fn add(folder: &Value, path: &str, names: &mut Vec<String>) {
        for child in folder["children"].as_array().into_iter().flatten() {
            let path = format!("{path}{}", child["name"].as_str().unwrap());
            names.push(path.clone());
            add(child, &format!("{path}/"), names);
        }
    }
    let mut request = request;
    request["max_depth"] = 20.into();
    let reply = test.run::<Tree>(request).unwrap();
    let mut names = Vec::new();
    add(&reply["root"], "", &mut names);
    (names, reply["ignored"].clone())
}

fn project(list_denied: crate::jail::DeniedInListings) -> TestJail {
    let test = TestJail::with(TestJailOptions { deny: &["**/.env"], list_denied, ..TestJailOptions::default() });
    test.write(".gitignore", "*.log\n/out/\n.env\n");
    for name in ["a.log", "a.rs", "out/x", "src/out/y", "src/b.log", "src/deep/keep.log", "src/deep/z", ".env"] {
        test.write(name, "");
    }
    test.write("src/deep/.gitignore", "!keep.log\nz\n");
    test
}

#[test]
fn ignore_files_hide_entries_of_a_tree_on_request() {
    let test = project(crate::jail::DeniedInListings::Show);
    let (all, ignored) = tree(&test, json!({}));
    assert!(ignored.is_null() && all.contains(&"out/x".to_owned()) && all.contains(&".env".to_owned()), "{all:?}");
    let (names, ignored) = tree(&test, json!({"gitignore": true}));
    let expected =
        [".gitignore", "a.rs", "src", "src/deep", "src/out", "src/deep/.gitignore", "src/deep/keep.log", "src/out/y"];
    let mut sorted = names.clone();
    sorted.sort();
    let mut expected: Vec<String> = expected.map(str::to_owned).into();
    expected.sort();
    assert_eq!((sorted, ignored), (expected, json!(5)));
    let (below, ignored) = tree(&test, json!({"path": "src/deep", "gitignore": true}));
    assert_eq!(
        (below, ignored),
        (vec![".gitignore".to_owned(), "keep.log".to_owned()], json!(1)),
        "rules above it hold"
    );
}

#[test]
fn a_denied_name_is_not_counted_where_it_is_not_shown() {
    let test = project(crate::jail::DeniedInListings::Hide);
    assert_eq!(tree(&test, json!({"gitignore": true})).1, 4);
}

#[test]
fn limits_and_totals_are_about_what_ignore_files_leave() {
    let test = TestJail::new();
    test.write(".gitignore", "a*\n");
    (0..30).for_each(|at| test.write(&format!("a{at:02}"), ""));
    (0..3).for_each(|at| test.write(&format!("b{at}"), ""));
    let reply = test.run::<Tree>(json!({"gitignore": true, "per_folder_limit": 3})).unwrap();
    let names: Vec<_> =
        reply["root"]["children"].as_array().unwrap().iter().map(|child| child["name"].clone()).collect();
    assert_eq!(names, [".gitignore", "b0", "b1"]);
    assert_eq!((&reply["root"]["truncated"]["shown"], &reply["root"]["truncated"]["total"]), (&json!(3), &json!(4)));
    assert_eq!(reply["ignored"], 30);
}
