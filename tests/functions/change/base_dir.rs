//! `base_dir` on every function, and C218.

use super::*;

fn call(jail: &TestJail, function: &str, path: &str, base_dir: &str) -> Value {
    let entry = match function {
        CREATE => json!({"files": [{"path": path, "content": "x"}], "base_dir": base_dir}),
        DELETE | MKDIR => json!({"paths": [path], "base_dir": base_dir}),
        _ => json!({"files": [{"from": "f", "to": path}], "base_dir": base_dir}),
    };
    one(jail.call(function, entry))
}

const ALL: [&str; 5] = [CREATE, DELETE, MKDIR, MOVE, COPY];

#[test]
fn relative_paths_begin_there() {
    for function in ALL {
        let jail = jail();
        jail.write("base/f", "x");
        let result = call(&jail, function, if function == DELETE { "f" } else { "new" }, "base");
        assert_success(&result);
        let shown = result.get("to").or(result.get("path")).unwrap().as_str().unwrap();
        assert!(shown.starts_with(jail.root.join("base").to_str().unwrap()), "{shown}");
    }
}

#[test]
fn inside_a_root_but_outside_base_dir_is_c218_and_names_it() {
    let jail = jail();
    jail.write("base/f", "x");
    jail.write("other", "x");
    let absolute = jail.root.join("other").to_str().unwrap().to_owned();
    for function in ALL {
        for path in ["../other", "../new", &absolute] {
            let text = changes_nothing(&jail, || assert_refused(&call(&jail, function, path, "base"), "C218"));
            assert!(text.contains("base") && text.contains("inside an allowed root"), "{text}");
        }
    }
}

#[test]
fn outside_every_root_is_c215_and_a_bad_base_dir_fails_each_entry() {
    let jail = jail();
    jail.write("base/f", "x");
    for function in ALL {
        changes_nothing(&jail, || {
            assert_refused(&call(&jail, function, "../../outside/new", "base"), "C215");
            let text = assert_refused(&call(&jail, function, "new", "../outside"), "C215");
            assert!(text.contains("base_dir is outside every allowed root"), "{text}");
        });
    }
}

#[test]
fn base_dir_need_not_exist() {
    let jail = jail();
    assert_success(&call(&jail, CREATE, "f", "new/base"));
    assert_eq!(read(&jail, "new/base/f"), "x");
}

#[test]
fn no_link_leads_out_of_base_dir() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n");
    jail.write("base/f", "x");
    jail.write("base/inner/g", "x");
    jail.write("other/secret", "hidden");
    std::os::unix::fs::symlink("../other", jail.root.join("base/out")).unwrap();
    std::os::unix::fs::symlink("../other/secret", jail.root.join("base/leaf")).unwrap();
    std::os::unix::fs::symlink("inner", jail.root.join("base/in")).unwrap();
    std::os::unix::fs::symlink("base", jail.root.join("alias")).unwrap();
    let failure = jail.call("coder::read-file", json!({"path": "f", "base_dir": "alias"})).expect_err("a link");
    assert_eq!(failure.code(), "C218", "{failure:?}");
    {
        let base = "base";
        for (function, request) in [
            ("coder::read-file", json!({"path": "out/secret"})),
            ("coder::read-file", json!({"path": "leaf"})),
            ("coder::list-folder", json!({"path": "out"})),
            ("coder::tree", json!({"path": "out"})),
        ] {
            let mut request = request;
            request["base_dir"] = json!(base);
            let failure = jail.call(function, request).expect_err("leads out");
            assert_eq!(failure.code(), "C218", "{failure:?}");
        }
        let edit = json!({"files": [{"path": "leaf", "ops": [{"op": "str_replace", "old": "hidden", "new": "x"}]}],
                          "base_dir": base});
        changes_nothing(&jail, || {
            assert_refused(&one(jail.call("coder::update-file", edit)), "C218");
            for path in ["out/secret", "out/new"] {
                for function in ALL {
                    if (function, path) != (DELETE, "out/new") {
                        assert_refused(&call(&jail, function, path, base), "C218");
                    }
                }
            }
        });
        let read = jail.call("coder::read-file", json!({"path": "in/g", "base_dir": base})).unwrap();
        assert_eq!(read["content"], "x", "a link that stays inside is followed");
    }
}
