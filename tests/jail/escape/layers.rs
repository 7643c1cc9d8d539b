//! Which layer does not hold a case alone: read from `layers.toml`.

use serde::Deserialize;

use crate::support::Build;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    pub case: String,
    pub build: String,
    pub reason: String,
}

pub fn exceptions() -> Vec<Exception> {
    let layers: Layers = toml::from_str(include_str!("layers.toml")).expect("layers.toml is well formed");
    layers.exception
}

pub fn build_name(build: Build) -> &'static str {
    match build {
        Build::Normal => "normal",
        Build::Userspace => "userspace",
        Build::ChecksOff => "checks-off",
        Build::LandlockOff => "landlock-off",
    }
}

pub fn is_excepted(case: &str, build: Build) -> bool {
    exceptions().iter().any(|known| known.case == case && known.build == build_name(build))
}

/// What was seen to leave the root, against what the data says: an escape that is not listed fails, and so does a
/// listed one that did not happen.
pub fn judge(case: &str, build: Build, escapes: &[String]) {
    let build_name = build_name(build);
    match (is_excepted(case, build), escapes.is_empty()) {
        (false, false) => panic!("{case}: escaped in build {build_name}:\n{}", escapes.join("\n")),
        (true, true) => {
            panic!("{case}: holds in build {build_name} after all; remove its exception from layers.toml")
        }
        _ => {}
    }
}

#[test]
fn every_exception_names_a_case_a_build_and_a_reason() {
    let sources = [
        include_str!("brought_about.rs"),
        include_str!("changes.rs"),
        include_str!("names.rs"),
        include_str!("links.rs"),
        include_str!("objects.rs"),
        include_str!("paused.rs"),
        include_str!("races.rs"),
        include_str!("steps.rs"),
        include_str!("storm.rs"),
    ];
    for Exception { case, build, reason } in exceptions() {
        let is_known =
            |source: &&str| source.contains(&format!("{case}: Attack")) || source.contains(&format!("\"{case}\""));
        assert!(sources.iter().any(is_known), "{case}: no such case");
        assert!(Build::ALL.map(build_name).contains(&build.as_str()), "{case}: no such build: {build}");
        assert!(reason.len() > 5, "{case}: no reason");
    }
}
