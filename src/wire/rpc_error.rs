//! Errors of JSON-RPC. Runs in the worker (to write them) and in frontends (to read them). Pure. Texts are for an agent: what
//! is wrong, then the next useful call. Quotes of the client's text are cut.

use serde::{Deserialize, Serialize};

use super::{
    envelope::Id,
    error::{Code, Error},
    json::{JsonError, excerpt},
    nearest::nearest_function,
    warnings::Warnings,
};

pub const PARSE_ERROR: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
/// A function refused the call; the C-code in `data` gives the reason.
pub const FUNCTION_ERROR: i32 = -32000;

/// The `error` member of a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<ErrorData>>,
}

/// The error of a function, and the warnings about the request: a misspelt field is often the reason for the error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    #[serde(flatten)]
    pub error: Error,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer to a call whose function failed. A request that cannot be decoded gets `RpcError::invalid_params` instead.
impl From<Error> for RpcError {
    fn from(error: Error) -> Self {
        Self {
            code: FUNCTION_ERROR,
            message: error.to_string(),
            data: Some(Box::new(ErrorData { error, warnings: Vec::new() })),
        }
    }
}

impl From<JsonError> for RpcError {
    fn from(error: JsonError) -> Self {
        let code = if matches!(error, JsonError::Syntax(_)) { PARSE_ERROR } else { INVALID_REQUEST };
        Self::plain(code, format!("{error}; send one JSON-RPC 2.0 object per line"))
    }
}

impl RpcError {
    /// Adds the warnings to the error data of a function. An error without data gets none: its request was not parsed far
    /// enough to have warnings.
    pub fn with_warnings(mut self, warnings: &Warnings) -> Self {
        if let Some(data) = &mut self.data {
            data.warnings = warnings.as_slice().to_vec();
        }
        self
    }

    fn plain(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::plain(INVALID_REQUEST, message)
    }

    /// Wrong type or missing field; `error` is C210 and names the place.
    pub fn invalid_params(error: Error) -> Self {
        Self { code: INVALID_PARAMS, ..error.into() }
    }

    pub fn duplicate_id(id: &Id) -> Self {
        let id = excerpt(&id.to_string());
        Self::invalid_request(format!("id {id} belongs to a call that is still running; give each call its own id"))
    }

    /// `offered`: the functions of this connection, which may be fewer than exist.
    pub fn unknown_method<'a>(method: &str, offered: impl IntoIterator<Item = &'a str>) -> Self {
        let hint = match nearest_function(method, offered) {
            Some(name) => format!("did you mean {name}?"),
            None => "coder::info lists the functions".into(),
        };
        Self::plain(METHOD_NOT_FOUND, format!("unknown method {:?}; {hint}", excerpt(method)))
    }

    /// The connection closes after this answer: where the next frame begins is unknown.
    pub fn frame_too_large(max_frame_bytes: usize) -> Self {
        Error::new(
            Code::TooLarge,
            format!(
                "a line is longer than max_frame_bytes ({max_frame_bytes}); the connection closes; \
                 split the call into smaller ones"
            ),
        )
        .into()
    }

    /// The connection closes after this answer.
    pub fn frame_overdue(limit_ms: u128) -> Self {
        Error::new(
            Code::Deadline,
            format!(
                "a line was not finished within {limit_ms} ms (call_timeout_ms plus one second for each MiB); \
                 the connection closes; reconnect and send the whole line"
            ),
        )
        .into()
    }

    /// The connection closes after this answer: the rest of the line is not read.
    pub fn frame_refused(max_frame_bytes_per_uid: u64) -> Self {
        Error::new(
            Code::Busy,
            format!(
                "no memory for this line: lines of one user beyond 1 MiB share max_frame_bytes_per_uid ({max_frame_bytes_per_uid}); \
                 the connection closes; reconnect and send the line again later"
            ),
        )
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_undecodable_params_are_minus_32602() {
        let bad = Error::bad_input("path: expected a string");
        assert_eq!(RpcError::from(bad.clone()).code, -32000);
        let invalid = RpcError::invalid_params(bad.clone());
        assert_eq!((invalid.code, invalid.data.map(|data| data.error)), (-32602, Some(bad)));
        assert_eq!(invalid.message, "C210 path: expected a string");
    }

    #[test]
    fn syntax_and_ambiguity_have_their_own_codes() {
        assert_eq!(RpcError::from(JsonError::Syntax("x".into())).code, -32700);
        for ambiguous in [JsonError::DuplicateKey("a".into()), JsonError::TooDeep, JsonError::TooManyValues] {
            assert_eq!(RpcError::from(ambiguous).code, -32600);
        }
    }

    #[test]
    fn an_unknown_method_names_the_nearest_offered_one() {
        let offered = ["coder::info", "coder::read-file", "coder::list-folder"];
        for sent in ["coder::read_file", "read-file", "coder_read_file", "coder::readFile", "coder::raed-file"] {
            let error = RpcError::unknown_method(sent, offered);
            assert_eq!(error.code, -32601);
            assert!(error.message.ends_with("did you mean coder::read-file?"), "{}", error.message);
        }
        let error = RpcError::unknown_method(&"x".repeat(1 << 20), offered);
        assert!(error.message.len() < 300 && error.message.ends_with("coder::info lists the functions"));
    }

    #[test]
    fn a_frame_over_the_limit_is_c213() {
        let error = RpcError::frame_too_large(64 << 20);
        assert_eq!((error.code, error.data.map(|data| data.error.code)), (-32000, Some(Code::TooLarge)));
        let codes = [RpcError::frame_overdue(30_000), RpcError::frame_refused(256 << 20)]
            .map(|error| error.data.map(|data| data.error.code));
        assert_eq!(codes, [Some(Code::Deadline), Some(Code::Busy)]);
    }
}
