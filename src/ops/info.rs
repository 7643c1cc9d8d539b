//! `coder::info`. Never fails, never touches the disk.

use super::Handler;
use crate::{
    VERSION,
    broker::Question,
    jail::{Call, Jail},
    path::Mode,
    wire::{
        Result,
        function::{FUNCTIONS, FunctionClass},
        types::info::{Audit, Info, InfoRequest, InfoResponse, RootInfo, Server},
    },
};

const SERVER_NAME: &str = "stockade";

impl Handler for Info {
    fn questions(_: &Jail, _: &InfoRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, _: InfoRequest) -> Result<InfoResponse> {
        let settings = jail.settings();
        let roots: Vec<RootInfo> = jail
            .roots()
            .roots()
            .iter()
            .map(|root| RootInfo {
                path: root.path.to_string_lossy().into_owned(),
                mode: root.mode,
                symlinks: root.symlinks,
                cross_mounts: root.cross_mounts,
                access_times: root.access_times,
            })
            .collect();
        let writable = roots.iter().any(|root| root.mode == Mode::Rw);
        Ok(InfoResponse {
            base_paths: roots.iter().map(|root| root.path.clone()).collect(),
            primary_root: jail.roots().primary().path.to_string_lossy().into_owned(),
            roots,
            non_accessible_globs: settings.non_accessible_globs.clone(),
            non_accessible_except_globs: settings.non_accessible_except_globs.clone(),
            read_only_globs: settings.read_only_globs.clone(),
            read_only_except_globs: settings.read_only_except_globs.clone(),
            default_exclude_globs: settings.default_exclude_globs.clone(),
            functions: offered_functions(writable),
            confinement: settings.confinement.clone(),
            trash: settings.trash.clone(),
            audit: if settings.audited { Audit::On } else { Audit::Off },
            server: Server { name: SERVER_NAME.to_owned(), version: VERSION.to_owned() },
            version: VERSION.to_owned(),
            limits: (*call.limits).clone(),
        })
    }
}

/// A profile without a writable root is not even offered functions that write.
fn offered_functions(writable: bool) -> Vec<String> {
    FUNCTIONS
        .iter()
        .filter(|function| writable || function.class == FunctionClass::Read)
        .map(|function| function.name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jail::testing::TestJail;

    /// Output fields of the contract: all always present.
    const REQUIRED: [&str; 16] = [
        "base_paths",
        "primary_root",
        "non_accessible_globs",
        "default_exclude_globs",
        "max_read_bytes",
        "max_write_bytes",
        "tree_default_depth",
        "tree_per_folder_limit",
        "list_default_page_size",
        "list_max_page_size",
        "search_default_max_matches",
        "search_default_max_line_bytes",
        "search_response_budget_bytes",
        "batch_read_budget_bytes",
        "max_output_bytes",
        "version",
    ];

    fn info(test: &TestJail) -> serde_json::Value {
        let response = Info::run(&test.jail, &mut test.call(), InfoRequest {}).unwrap();
        serde_json::to_value(response).unwrap()
    }

    #[test]
    fn every_field_of_the_contract_is_there() {
        let value = info(&TestJail::new());
        for field in REQUIRED.into_iter().chain(["confinement", "roots", "functions", "server"]) {
            assert!(value.get(field).is_some_and(|field| !field.is_null()), "{field}");
        }
    }

    #[test]
    fn roots_are_shown_with_their_rules() {
        let test = TestJail::new();
        let value = info(&test);
        let root = test.root().to_str().unwrap();
        assert_eq!(value["primary_root"], root);
        assert_eq!(value["base_paths"], serde_json::json!([root]));
        let rules = serde_json::json!([
            {"path": root, "mode": "ro", "symlinks": "refuse", "cross_mounts": false, "access_times": "owner_only"}
        ]);
        assert_eq!(value["roots"], rules);
    }

    #[test]
    fn limits_are_those_of_the_call() {
        let mut test = TestJail::new();
        test.limits.max_read_bytes = 17;
        test.limits.max_connections_per_uid = 3;
        let value = info(&test);
        assert_eq!((&value["max_read_bytes"], &value["max_connections_per_uid"]), (&17.into(), &3.into()));
    }

    #[test]
    fn confinement_is_told_as_measured() {
        let value = info(&TestJail::new());
        let told = &value["confinement"];
        assert_eq!((&told["level"], &told["landlock_abi"]), (&"kernel".into(), &7.into()));
        assert_eq!((&told["resolver"], &told["layers"][0]["by"][0]), (&"openat2".into(), &"landlock".into()));
    }

    #[test]
    fn functions_are_listed_by_name() {
        let names = offered_functions(false);
        for name in ["coder::info", "coder::read-file", "coder::list-folder"] {
            assert!(names.iter().any(|offered| offered == name), "{name}");
        }
    }
}
