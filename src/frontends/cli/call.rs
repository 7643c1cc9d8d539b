//! `stockade call`: one raw call, for scripts and for functions or fields that have no command.

use serde_json::value::RawValue;

use super::{CallSession, CommandResult, args::CallArgs, failure::CliFailure, output::Output, schema, user_input};

/// A call whose arguments were checked.
#[derive(Debug)]
pub(super) struct CallCommand {
    method: String,
    params: String,
    as_received: bool,
}

impl CallCommand {
    pub(super) fn prepare(args: &CallArgs) -> Result<Self, CliFailure> {
        schema::check_function_name(&args.function)?;
        let params = check_object(user_input::read_argument("the request", &args.request)?)?;
        Ok(Self { method: args.function.clone(), params, as_received: args.display.json })
    }

    pub(super) fn run(&self, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
        let result = session.call(&self.method, &self.params)?;
        out.write_raw_result(&result, self.as_received)?;
        Ok(0)
    }
}

/// Checks only that the frame is well formed. The service checks the fields of the object.
fn check_object(bytes: Vec<u8>) -> Result<String, CliFailure> {
    let text = user_input::decode_utf8("the request", bytes)?;
    let request: &RawValue = serde_json::from_str(&text)
        .map_err(|error| CliFailure::Usage(format!("the request is not valid JSON: {error}")))?;
    match request.get().starts_with('{') {
        true => Ok(request.get().to_owned()),
        false => Err(CliFailure::Usage("the request must be a JSON object, such as {\"path\": \"README.md\"}".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<String, String> {
        check_object(text.into()).map_err(|failure| failure.message().unwrap())
    }

    #[test]
    fn requests_are_passed_on_as_written() {
        assert_eq!(checked(" {\"b\": 1.0, \"a\": 2}\n").unwrap(), "{\"b\": 1.0, \"a\": 2}");
    }

    #[test]
    fn what_is_not_one_json_object_is_a_usage_error() {
        for bad in ["", "[]", "null", "{", "{} {}", "{\"a\":1}x"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
        assert!(check_object(vec![b'"', 0xff, b'"']).is_err());
    }
}
