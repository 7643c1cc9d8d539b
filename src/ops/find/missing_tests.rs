use serde_json::{Value, json};

use super::{
    tests::{find, found},
    *,
};
use crate::jail::testing::{TestJail, TestJailOptions};

fn project() -> TestJail {
    let test = TestJail::with(TestJailOptions { deny: &["**/secret.rs"], ..TestJailOptions::default() });
    for name in
        ["src/main.rs", "src/deep/main.rs", "src/secret.rs", "docs/a]b.md", "docs/main", "out/main.rs", "gen/only.rs"]
    {
        test.write(name, "");
    }
    test.write(".gitignore", "out/\ngen/\n");
    test
}

#[test]
fn a_name_that_does_not_exist_is_looked_for_at_any_depth() {
    let test = project();
    assert_eq!(found(&test, json!({"paths": ["main.rs"]})), ["src/deep/main.rs", "src/main.rs"]);
    assert_eq!(found(&test, json!({"paths": ["main.rs"], "gitignore": false})).len(), 3);
    assert_eq!(
        found(&test, json!({"paths": ["main.rs"], "base_dir": "src/deep"})),
        ["src/deep/main.rs"],
        "it exists there"
    );
    assert_eq!(found(&test, json!({"paths": ["deep"]})), ["src/deep"]);
    assert_eq!(found(&test, json!({"paths": ["a]b.md"]})), ["docs/a]b.md"]);
    assert_eq!(found(&test, json!({"paths": ["main.rs"], "kind": "dir"})), [""; 0], "it exists, but is no folder");
    assert_eq!(found(&test, json!({"paths": ["main.rs", "docs"]})).len(), 4);
    let pages = find(&test, json!({"paths": ["main.rs"], "sort": "path", "limit": 1})).unwrap();
    let next = json!({"paths": ["main.rs"], "limit": 1, "cursor": pages["next_cursor"]});
    assert_eq!(found(&test, next), ["src/main.rs"]);
}

#[test]
fn a_path_that_does_not_exist_is_not_looked_for_elsewhere() {
    let test = project();
    for request in [json!({"paths": ["deep/main.rs"]}), json!({"paths": [{"path_bytes": "bWFpbi5ycw=="}]})] {
        assert_eq!(find(&test, request.clone()).unwrap_err().code, Code::NotFound, "{request}");
    }
}

#[test]
fn a_miss_offers_near_names_that_the_caller_may_see() {
    let test = project();
    let message = |request: Value| find(&test, request).unwrap_err().message;
    let near = message(json!({"paths": ["mian.rs"]}));
    assert!(near.contains("names near it: \"src/deep/main.rs\", \"src/main.rs\""), "{near}");
    let denied = message(json!({"paths": ["secret.rs"]}));
    let missing = message(json!({"paths": ["sicret.rs"]}));
    assert_eq!(denied.replace("secret", "sicret"), missing, "a denied name answers like a missing one");
    assert!(!missing.contains("src/secret.rs"), "{missing}");
    assert!(message(json!({"paths": ["src/mian.rs"]})).contains("\"src/main.rs\""));
    let ignored = message(json!({"paths": ["only.rs"]}));
    assert!(ignored.ends_with("; ignore files hid 2 entries, gitignore: false also looks there"), "{ignored}");
    let partly = find(&test, json!({"paths": ["main.rs", "zzz"]})).unwrap();
    assert_eq!((&partly["missing_paths"], &partly["file_count"]), (&json!(["zzz"]), &json!(2)));
}

#[test]
fn hidden_entries_are_counted() {
    let test = project();
    let reply = find(&test, json!({"paths": ["**/only.rs"]})).unwrap();
    assert_eq!((&reply["file_count"], &reply["skipped"]["ignored"]), (&json!(0), &json!(2)));
    let all = find(&test, json!({"paths": ["**/only.rs"], "gitignore": false})).unwrap();
    assert!(all["file_count"] == 1 && all["skipped"].get("ignored").is_none(), "{all}");
}
