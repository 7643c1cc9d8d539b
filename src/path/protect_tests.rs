//! Which names the default list protects, and how exceptions work.

use super::*;

fn globs(patterns: &[&str], except: &[&str]) -> ProtectGlobs {
    let strings = |globs: &[&str]| globs.iter().map(|glob| glob.to_string()).collect::<Vec<_>>();
    ProtectGlobs::new(&strings(patterns), &strings(except)).expect("valid patterns")
}

/// The list that the shipped policy writes out.
fn defaults() -> ProtectGlobs {
    let policy: toml::Table = include_str!("../../policy/default.toml").parse().expect("TOML");
    let list = |key: &str| {
        let globs = policy["protect"][key].as_array().expect("a list");
        globs.iter().map(|glob| glob.as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    ProtectGlobs::new(&list("read_only_globs"), &list("except_globs")).expect("valid")
}

#[test]
fn default_globs_protect_names_at_any_depth_with_all_below_in_any_case() {
    let globs = defaults();
    let names = [
        ".git",
        ".githooks",
        ".husky",
        ".claude",
        ".codex",
        ".cursor",
        ".gemini",
        ".agents",
        ".mcp.json",
        ".vscode",
        ".idea",
        ".zed",
        ".devcontainer",
        ".cargo/config",
        ".cargo/config.toml",
        ".yarnrc",
        ".yarnrc.yml",
        ".dir-locals.el",
        ".exrc",
    ];
    for name in names {
        for path in [name.to_owned(), format!("a/b/{name}"), format!("a/{name}/x/y"), name.to_uppercase()] {
            let rule = globs.rule(path.as_bytes()).unwrap_or_else(|| panic!("{path} is not protected"));
            let pattern = &globs.patterns()[rule as usize];
            assert!(name.starts_with(pattern.trim_start_matches("**/").trim_end_matches('*')), "{path}: {pattern}");
        }
    }
    for free in ["", "git", ".gitignore", ".github/workflows/ci.yml", ".cargo", ".cargo/registry", "a/mcp.json", "src"]
    {
        assert_eq!(globs.rule(free.as_bytes()), None, "{free}");
        assert_eq!(globs.rule_of_folder(free.as_bytes()), None, "{free}");
    }
}

#[test]
fn an_exception_frees_a_name_in_a_protected_folder_and_not_the_folder() {
    let globs = globs(&["**/.vscode", "all/**"], &["**/.vscode/settings.json", "**/.VSCODE/open"]);
    for free in [".vscode/settings.json", "a/.VSCode/Settings.JSON", ".vscode/open", ".vscode/open/x/y"] {
        assert_eq!(globs.rule(free.as_bytes()), None, "{free}");
        assert_eq!(globs.rule_of_folder(free.as_bytes()), None, "{free}");
    }
    for held in [".vscode", ".vscode/tasks.json", ".vscode/settings.json2", ".vscode/x/settings.json"] {
        assert_eq!(globs.rule(held.as_bytes()), Some(0), "{held}");
    }
    assert_eq!((globs.rule(b"all"), globs.rule_of_folder(b"all"), globs.rule(b"all/x")), (None, Some(1), Some(1)));
}

#[test]
fn globs_cross_to_the_worker_as_their_patterns() {
    let json = serde_json::to_string(&globs(&["a"], &["a/b"])).expect("serialises");
    let back: ProtectGlobs = serde_json::from_str(&json).expect("deserialises");
    assert_eq!((back.patterns(), back.exceptions()), (&["a".to_string()][..], &["a/b".to_string()][..]));
    assert_eq!((back.rule(b"a/x"), back.rule(b"a/b")), (Some(0), None));
}

#[test]
fn a_path_of_two_thousand_components_costs_few_passes() {
    let globs = globs(&["**/a"], &["**/b"]);
    let path = [vec!["a"; 2040].join("/"), "/b".into()].concat();
    let start = std::time::Instant::now();
    for _ in 0..50 {
        assert_eq!(globs.rule(path.as_bytes()), None);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn a_link_gets_no_name_below_which_something_is_protected() {
    let globs = globs(&["**/.cargo/config*", "a/{b,c}/d/**/e", "**/x", "{p/q,r}/s"], &["free/.cargo"]);
    for (path, rule) in [
        (".cargo", Some(0)),
        ("deep/.CARGO", Some(0)),
        ("a", Some(1)),
        ("a/c", Some(1)),
        ("a/b/d", Some(1)),
        ("a/b/d/any", Some(1)),
        ("x", Some(2)),
        ("r", Some(3)),
        ("p/q", Some(3)),
        ("free/.cargo", None),
        (".cargo/registry", None),
        ("a/z", None),
        ("b", None),
        ("", None),
    ] {
        assert_eq!(globs.rule_of_link(path.as_bytes()), rule, "{path}");
    }
    let defaults = defaults();
    assert!(defaults.rule_of_link(b"current").is_none() && defaults.rule_of_link(b"sub/.cargo").is_some());
}
