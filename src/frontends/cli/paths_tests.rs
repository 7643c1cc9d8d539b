use super::*;

const ROOTS: [&str; 3] = ["/srv/a", "/srv/b", "/srv/a/inner"];

fn base(folder: &str) -> PathBase {
    PathBase::new("/srv/a", &ROOTS, Some(Path::new(folder)))
}

fn sent(base: &PathBase, typed: &str) -> String {
    base.sent(OsStr::new(typed)).into_string().unwrap()
}

#[test]
fn typed_paths_begin_at_the_folder_of_the_shell_if_a_root_holds_it() {
    for (folder, typed, expected) in [
        ("/srv/a/src", "main.rs", "/srv/a/src/main.rs"),
        ("/srv/a/src", ".", "/srv/a/src"),
        ("/srv/a/src", "../x", "/srv/a/src/../x"),
        ("/srv/a/src", "/srv/b/x", "/srv/b/x"),
        ("/srv/a/src", "", ""),
        ("/srv/b", "x", "/srv/b/x"),
        // The service begins there by itself.
        ("/srv/a", "x", "x"),
        // No root, although it begins like one.
        ("/srv/ab", "x", "x"),
        ("/", "x", "x"),
    ] {
        assert_eq!(sent(&base(folder), typed), expected, "{typed} in {folder}");
    }
    assert_eq!(sent(&PathBase::new("/srv/a", &ROOTS, None), "x"), "x");
}

#[test]
fn paths_of_replies_are_shown_as_one_would_type_them() {
    for (folder, path, expected) in [
        ("/srv/a/src", "/srv/a/src/main.rs", "main.rs"),
        ("/srv/a/src", "/srv/a/src", "."),
        ("/srv/a/src", "/srv/a/docs/x", "../docs/x"),
        ("/srv/a/src/deep", "/srv/a/src/x", "../x"),
        ("/srv/a/src/deep", "/srv/a", "/srv/a"),
        ("/srv/a/src", "/srv/b/x", "/srv/b/x"),
        ("/srv/a", "/srv/a/src/x", "src/x"),
        ("/elsewhere", "/srv/a/src/x", "src/x"),
        ("/elsewhere", "/srv/b/x", "/srv/b/x"),
        // Another root, although it is inside this one.
        ("/srv/a/inner/d", "/srv/a/x", "/srv/a/x"),
    ] {
        assert_eq!(base(folder).shorten(path, None), expected.as_bytes(), "{path} in {folder}");
    }
    let bytes = BASE64.encode(b"/srv/a/src/caf\xe9");
    assert_eq!(base("/srv/a/src").shorten("?", Some(&bytes)), b"caf\xe9");
}

#[test]
fn entries_are_placed_in_every_form_and_keep_their_other_fields() {
    let mut entry = json!({"from": "x", "to_bytes": BASE64.encode(b"caf\xe9"), "overwrite": true});
    base("/srv/a/src").place(&mut entry);
    let to = BASE64.encode(b"/srv/a/src/caf\xe9");
    assert_eq!(entry, json!({"from": "/srv/a/src/x", "to_bytes": to, "overwrite": true}));
}

fn scope(folder: &str, typed: &[&str]) -> Value {
    let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
    let mut request = json!({});
    base(folder).scope(&typed).write_to(&mut request);
    request
}

#[test]
fn a_search_begins_at_the_folder_of_the_shell_and_may_leave_it() {
    assert_eq!(scope("/srv/a", &[]), json!({"paths": [{"path": "."}]}));
    assert_eq!(scope("/srv/a/src", &[]), json!({"paths": [{"path": "."}], "base_dir": "/srv/a/src"}));
    assert_eq!(scope("/srv/a/src", &["*.rs"]), json!({"paths": [{"path": "*.rs"}], "base_dir": "/srv/a/src"}));
    assert_eq!(
        scope("/srv/a/[id]", &["*.rs", "../docs", "x"]),
        json!({"paths": [{"path": "/srv/a/[[]id[]]/**/*.rs"}, {"path": "/srv/a/[id]/../docs"}, {"path": "/srv/a/[id]/x"}]})
    );
}

#[test]
fn globs_with_a_folder_begin_at_the_folder_of_the_shell() {
    let base = base("/srv/a/[x]/src");
    for (typed, sent) in [("*.rs", "*.rs"), ("gen/*.rs", "[[]x[]]/src/gen/*.rs"), ("./gen/**", "[[]x[]]/src/gen/**")] {
        assert_eq!(base.place_glob(typed), sent);
    }
    assert_eq!(PathBase::new("/srv/a", &ROOTS, None).place_glob("gen/*.rs"), "gen/*.rs");
}
