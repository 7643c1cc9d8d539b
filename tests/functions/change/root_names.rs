//! The names of roots, present or absent, are nobody's to make, move, replace or delete: the next start opens what lies
//! there as a root.

use std::os::unix::fs::symlink;

use super::*;

/// `nest/in` is a root of its own that does not exist; `theirs` one that only another peer has.
const POLICY: &str =
    "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT/nest/in\"\nallow_nested = true\noptional = true\n";

#[test]
fn the_name_of_an_absent_root_is_no_operand_and_no_destination() {
    let jail = jail_with(POLICY);
    jail.write("d/f", "x");
    jail.write("nest/other", "x");
    jail.write("e/in/f", "x");
    symlink("../outside", jail.root.join("link")).unwrap();
    let tries: &[(&str, Value)] = &[
        (CREATE, json!({"files": [{"path": "nest/in", "content": "x"}]})),
        (CREATE, json!({"files": [{"path": "nest/in/f", "content": "x", "parents": true}]})),
        (MKDIR, json!({"paths": ["nest/in"]})),
        (MKDIR, json!({"paths": ["nest/in/deep"]})),
        (MOVE, json!({"files": [{"from": "link", "to": "nest/in"}]})),
        (MOVE, json!({"files": [{"from": "d", "to": "nest/in"}]})),
        (MOVE, json!({"files": [{"from": "d/f", "to": "nest/in/f"}]})),
        (MOVE, json!({"files": [{"from": "nest", "to": "elsewhere"}]})),
        (COPY, json!({"files": [{"from": "d", "to": "nest/in", "recursive": true}]})),
        (COPY, json!({"files": [{"from": "d/f", "to": "nest/in"}]})),
        (DELETE, json!({"paths": ["nest"], "recursive": true})),
        (DELETE, json!({"paths": ["nest"], "recursive": true, "trash": true})),
    ];
    for (function, request) in tries {
        for atomic in [false, true] {
            let mut request = request.clone();
            request["atomic"] = json!(atomic);
            changes_nothing(&jail, || assert_refused(&one(jail.call(function, request)), "C211"));
        }
    }
    // A folder that brings the name along cannot take the place of the one around it.
    fs::remove_file(jail.root.join("nest/other")).unwrap();
    let onto = json!({"from": "e", "to": "nest", "overwrite": true});
    changes_nothing(&jail, || assert_refused(&relocate(&jail, MOVE, onto), "C211"));
    assert_success(&create(&jail, json!({"path": "nest/beside", "content": "x"})));
}

#[test]
fn a_link_moved_by_a_client_never_becomes_a_root() {
    let mut jail = jail_with(POLICY);
    jail.write("nest/other", "x");
    symlink(jail.dir.path().join("outside"), jail.root.join("link")).unwrap();
    relocate(&jail, MOVE, json!({"from": "link", "to": "nest/in"}));
    jail.restart(&Options { policy: Some(POLICY.into()), ..Options::default() });
    let secret = jail.root.join("nest/in/secret.txt");
    assert!(jail.read(secret.to_str().unwrap()).is_err());
    jail.assert_intact();
}

#[test]
fn a_present_root_is_no_operand_for_a_peer_that_does_not_have_it() {
    // The only peer is the user who runs this test; it has the outer root alone.
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let policy = format!(
        "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT/in\"\nallow_nested = true\n[[peer]]\nuid = {uid}\nroots = [\"ROOT\"]\n"
    );
    let options = Options { in_memory: true, policy: Some(policy), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| fs::create_dir_all(root.join("in/d")).unwrap());
    jail.write("f", "x");
    changes_nothing(&jail, || {
        assert_refused(&delete_tree(&jail, "in"), "C211");
        assert_refused(&relocate(&jail, MOVE, json!({"from": "in", "to": "out"})), "C211");
        assert_refused(&relocate(&jail, MOVE, json!({"from": "f", "to": "in", "overwrite": true})), "C211");
    });
    assert_success(&create(&jail, json!({"path": "in/d/f", "content": "x"})));
}
