use proptest::prelude::*;

use super::*;
use crate::path::{AccessTimes, Hardlinks, Mode, Symlinks};

fn root(path: &str) -> Root {
    Root {
        path: path.into(),
        mode: Mode::Rw,
        symlinks: Symlinks::Refuse,
        cross_mounts: false,
        hardlinks: Hardlinks::Allow,
        access_times: AccessTimes::OwnerOnly,
    }
}

fn table(roots: &[&str]) -> RootTable {
    RootTable::new(roots.iter().map(|path| root(path)).collect())
}

type Outcome = std::result::Result<(u16, String), Code>;

fn outcome(result: Result<JailPath>) -> Outcome {
    result.map(|path| (path.root(), String::from_utf8_lossy(path.rel()).into_owned())).map_err(|error| error.code)
}

fn at(root: u16, rel: &str) -> Outcome {
    Ok((root, rel.into()))
}

#[test]
fn relative_paths_begin_at_the_primary_root() {
    let table = table(&["/srv/a", "/srv/b"]);
    for (raw, expected) in [
        ("", at(0, "")),
        (".", at(0, "")),
        ("x", at(0, "x")),
        ("x/", at(0, "x")),
        ("./x//y/.", at(0, "x/y")),
        ("x/../y", at(0, "y")),
        ("x/..", at(0, "")),
        ("~/x", at(0, "~/x")),
        ("%2e%2e/x", at(0, "%2e%2e/x")),
        ("..\\x", at(0, "..\\x")),
        ("-rf", at(0, "-rf")),
        ("{a,b}*[", at(0, "{a,b}*[")),
        ("..", Err(Code::OutsideRoots)),
        ("../x", Err(Code::OutsideRoots)),
        ("x/../../y", Err(Code::OutsideRoots)),
        ("../a/x", Err(Code::OutsideRoots)),
        ("../b/x", Err(Code::OutsideRoots)),
        ("../../../../../etc/passwd", Err(Code::OutsideRoots)),
    ] {
        assert_eq!(outcome(table.locate(&raw.into(), None)), expected, "{raw:?}");
    }
}

#[test]
fn absolute_paths_lie_in_a_root_by_whole_components() {
    let table = table(&["/srv/a", "/srv/b"]);
    for (raw, expected) in [
        ("/srv/a", at(0, "")),
        ("/srv/a/", at(0, "")),
        ("//srv//b/./x", at(1, "x")),
        ("/srv/b/x/../../a/y", at(0, "y")),
        ("/../srv/a/x", at(0, "x")),
        ("/", Err(Code::OutsideRoots)),
        ("/srv", Err(Code::OutsideRoots)),
        ("/srv/ab", Err(Code::OutsideRoots)),
        ("/srv/a.txt", Err(Code::OutsideRoots)),
        ("/srv/A/x", Err(Code::OutsideRoots)),
        ("/srv/a/../c", Err(Code::OutsideRoots)),
        ("/srv/a/../../etc/passwd", Err(Code::OutsideRoots)),
    ] {
        assert_eq!(outcome(table.locate(&raw.into(), None)), expected, "{raw:?}");
    }
}

#[test]
fn the_deepest_root_takes_a_path_of_nested_roots() {
    for roots in [["/srv/a", "/srv/a/in"], ["/srv/a/in", "/srv/a"]] {
        let table = table(&roots);
        let inner = roots.iter().position(|root| root.ends_with("in")).expect("there") as u16;
        assert_eq!(outcome(table.locate(&"/srv/a/in/x".into(), None)), at(inner, "x"));
        assert_eq!(outcome(table.locate(&"/srv/a/inner".into(), None)), at(1 - inner, "inner"));
    }
    assert_eq!(outcome(table(&["/srv/a", "/srv/a/in"]).locate(&"in/x".into(), None)), at(1, "x"));
}

#[test]
fn base_dir_anchors_and_bounds() {
    let table = table(&["/srv/a", "/srv/b"]);
    for (base, raw, expected) in [
        ("sub", "x", at(0, "sub/x")),
        ("sub", "", at(0, "sub")),
        ("/srv/b/sub", "x", at(1, "sub/x")),
        ("sub", "/srv/a/sub/x", at(0, "sub/x")),
        ("sub", "../sub/x", at(0, "sub/x")),
        (".", "x", at(0, "x")),
        ("sub", "..", Err(Code::OutsideBaseDir)),
        ("sub", "../other", Err(Code::OutsideBaseDir)),
        ("sub", "../subway", Err(Code::OutsideBaseDir)),
        ("sub", "/srv/a/x", Err(Code::OutsideBaseDir)),
        ("sub", "/srv/b/x", Err(Code::OutsideBaseDir)),
        ("sub", "../../b/x", Err(Code::OutsideBaseDir)),
        ("sub", "/etc/passwd", Err(Code::OutsideRoots)),
        ("sub", "../../../etc/passwd", Err(Code::OutsideRoots)),
        ("sub", "../../a/sub/x", Err(Code::OutsideRoots)),
        ("..", "x", Err(Code::OutsideRoots)),
        ("../b", "x", Err(Code::OutsideRoots)),
        ("/etc", "/srv/a/x", Err(Code::OutsideRoots)),
        ("/srv/ab", "x", Err(Code::OutsideRoots)),
    ] {
        let result = table.locate(&raw.into(), Some(&base.into()));
        assert_eq!(outcome(result), expected, "{raw:?} in {base:?}");
    }
}

fn refusal(raw: RawPath, base: Option<&str>) -> Error {
    let base = base.map(RawPath::text);
    table(&["/srv/a", "/srv/b"]).locate(&raw, base.as_ref()).expect_err("refused")
}

#[test]
fn nul_and_lengths_are_bad_input() {
    for raw in ["\0", "a\0b", "a\0", "/srv/a/x\0.txt"] {
        assert_eq!(refusal(raw.into(), None).code, Code::BadInput, "{raw:?}");
    }
    assert!(refusal("a\0b".into(), None).message.contains("NUL"));
    assert_eq!(refusal("x".into(), Some("a\0b")).code, Code::BadInput);

    let table = table(&["/srv/a"]);
    let name = "n".repeat(255);
    assert_eq!(outcome(table.locate(&name.as_str().into(), None)), at(0, &name));
    let long = refusal(format!("{name}n").into(), None);
    assert_eq!(long.code, Code::BadInput);
    assert!(long.message.contains("at most 4096 bytes") && long.message.contains("at most 255"));
    assert_eq!(refusal(format!("{name}n/..").into(), None).code, Code::BadInput);

    let path = "ab/".repeat(1366);
    assert!(table.locate(&RawPath::text(&path[..4096]), None).is_ok());
    let long = refusal(RawPath::text(&path[..4097]), None);
    assert!(long.code == Code::BadInput && long.message.len() < 300, "a refused path is not repeated whole");
    let joined = table.locate(&RawPath::text(&path[..4000]), Some(&"abc".repeat(50).as_str().into()));
    assert_eq!(joined.map_err(|error| error.code), Err(Code::BadInput), "base_dir and path together count");
}

impl From<String> for RawPath {
    fn from(path: String) -> Self {
        Self::text(path)
    }
}

#[test]
fn texts_name_the_path_as_sent_and_only_the_roots() {
    let relative = refusal("../x".into(), None).message;
    assert!(relative.starts_with("../x: ") && relative.contains("/srv/a") && !relative.contains("/srv/b"));
    let absolute = refusal("/etc/passwd".into(), None).message;
    assert!(absolute.starts_with("/etc/passwd: ") && absolute.ends_with("Allowed roots: /srv/a, /srv/b"));
    let base = refusal("x".into(), Some("/etc")).message;
    assert!(base.contains("base_dir is outside every allowed root"));
    let outside = refusal("../x".into(), Some("sub")).message;
    assert!(outside.contains("inside an allowed root") && outside.contains("base_dir sub"));
}

#[test]
fn bytes_that_are_not_utf8_are_a_path() {
    let table = table(&["/srv/a"]);
    let path = table.locate(&RawPath::bytes(b"d/\xff".to_vec()), None).expect("inside");
    assert_eq!((path.rel(), path.file_name()), (&b"d/\xff"[..], Some(&b"\xff"[..])));
    assert_eq!(table.absolute(&path).as_os_str().as_bytes(), b"/srv/a/d/\xff");
}

#[test]
fn a_workers_path_is_checked_again() {
    let table = table(&["/srv/a"]);
    assert!(table.check(0, b"x/y").is_ok() && table.check(0, b"").is_ok());
    assert_eq!(table.check(1, b"x"), Err(BadPath::Root));
    assert_eq!(table.check(0, b"x/../../y"), Err(BadPath::Relative));
}

/// Paths made of what attackers use.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("..".to_string()),
        Just(".".to_string()),
        Just(String::new()),
        Just("srv".to_string()),
        Just("a".to_string()),
        Just("sub".to_string()),
        "[a-zA-Z.\\\\\u{e9}%~]{1,4}",
    ];
    (any::<bool>(), prop::collection::vec(piece, 0..12)).prop_map(|(absolute, pieces)| {
        let path = pieces.join("/");
        if absolute { format!("/{path}") } else { path }
    })
}

proptest! {
    #[test]
    fn what_is_located_is_normalised_and_beneath_its_root(raw in hostile(), base in prop::option::of(hostile())) {
        let table = table(&["/srv/a", "/srv/a/sub", "/srv"]);
        let base = base.map(RawPath::from);
        if let Ok(path) = table.locate(&RawPath::from(raw.clone()), base.as_ref()) {
            prop_assert!(is_normalised(path.rel()));
            prop_assert!(table.absolute(&path).starts_with(&table.root(&path).path));
            // The name we show leads back to the same place.
            let shown = RawPath::bytes(table.absolute(&path).into_os_string().into_vec());
            prop_assert_eq!(table.locate(&shown, None), Ok(path.clone()));
            if let Some(base) = base {
                let base = table.locate(&base, None).expect("a good base_dir");
                prop_assert!(table.absolute(&path).starts_with(table.absolute(&base)));
            }
        }
    }

    #[test]
    fn any_bytes_give_a_normalised_path_or_an_error(raw in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(path) = table(&["/srv/a"]).locate(&RawPath::bytes(raw), None) {
            prop_assert!(is_normalised(path.rel()));
        }
    }

    #[test]
    fn the_check_admits_exactly_what_normalisation_leaves_alone(rel in "[a./]{0,8}") {
        let located = table(&["/srv/a"]).locate(&rel.as_str().into(), None);
        let unchanged = located.is_ok_and(|path| path.rel() == rel.as_bytes());
        prop_assert_eq!(is_normalised(rel.as_bytes()), unchanged);
    }
}
