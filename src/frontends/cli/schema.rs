//! `stockade schema`: the functions of this build. Needs no service, because the table is compiled in.

use serde::Serialize;

use super::{
    CommandResult,
    args::SchemaArgs,
    failure::{CliFailure, unexpected_result},
    output::Output,
};
use crate::wire::{
    function::{FUNCTIONS, find_function},
    nearest::nearest_function,
    schema::catalogue,
};

pub(super) fn run(args: &SchemaArgs, out: &mut Output<'_>) -> CommandResult {
    match &args.function {
        None => print(&catalogue(), args.display.json, out),
        Some(name) => {
            check_function_name(name)?;
            let wanted = |doc: &crate::wire::schema::FunctionDoc| doc.function_id == name;
            print(&catalogue().into_iter().find(wanted), args.display.json, out)
        }
    }
}

fn print(documents: &impl Serialize, on_one_line: bool, out: &mut Output<'_>) -> CommandResult {
    let json = serde_json::value::to_raw_value(documents).map_err(unexpected_result)?;
    out.write_raw_result(&json, on_one_line).map(|()| 0)
}

/// Refuses a function that this build does not have, and suggests the nearest name.
pub(super) fn check_function_name(function: &str) -> Result<(), CliFailure> {
    if find_function(function).is_some() {
        return Ok(());
    }
    let advice = match nearest_function(function, FUNCTIONS.iter().map(|entry| entry.name)) {
        Some(name) => format!("did you mean {name}?"),
        None => "`stockade schema` lists them".into(),
    };
    Err(CliFailure::Usage(format!("unknown function `{function}`; {advice}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::cli::output::OutputStyle;

    fn printed(function: Option<&str>) -> serde_json::Value {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output {
            stdout: &mut out,
            stderr: &mut err,
            style: OutputStyle::PLAIN,
            error_style: OutputStyle::PLAIN,
            terminal_columns: None,
            json: false,
            hidden_prefix: None,
        };
        let args = SchemaArgs { function: function.map(Into::into), display: Default::default() };
        assert_eq!(run(&args, &mut output).unwrap(), 0);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_function_is_listed_with_both_schemas() {
        let all = printed(None);
        let names: Vec<_> = all.as_array().unwrap().iter().map(|doc| doc["function_id"].as_str().unwrap()).collect();
        for name in ["coder::info", "coder::read-file", "coder::list-folder"] {
            assert!(names.contains(&name), "{name}");
        }
        for document in all.as_array().unwrap() {
            for key in ["description", "request_schema", "response_schema"] {
                assert!(!document[key].is_null(), "{key} of {}", document["function_id"]);
            }
        }
    }

    #[test]
    fn one_function_is_one_object() {
        assert_eq!(printed(Some("coder::info"))["function_id"], "coder::info");
    }

    #[test]
    fn unknown_functions_are_usage_errors_with_the_nearest_name() {
        for slip in ["coder::read_file", "read-file", "coder::raed-file"] {
            let failure = check_function_name(slip).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.message().unwrap().contains("did you mean coder::read-file?"), "{slip}");
        }
        assert!(check_function_name("zzz").unwrap_err().message().unwrap().contains("stockade schema"));
    }
}
