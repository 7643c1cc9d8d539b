//! Runs in `stockade mcp`: the requests that take time, each with what is known about its sender. Pure.

use serde_json::value::RawValue;

use super::{
    message::{McpError, MessageParams, decode},
    object::JsonObject,
    session::RequestSender,
};
use crate::wire::envelope::Id;

#[derive(Debug)]
pub(super) struct HostRequest {
    pub(super) id: Id,
    pub(super) sender: RequestSender,
    /// The token for progress notifications of a long call, if the host wants them: a number or a string.
    pub(super) progress_token: Option<Box<RawValue>>,
    /// Answers to the input requests of an earlier reply.
    pub(super) input_responses: Option<Box<RawValue>>,
    pub(super) call: HostCall,
}

#[derive(Debug)]
pub(super) enum HostCall {
    ListTools,
    Tool {
        name: String,
        arguments: JsonObject,
    },
    ListResources {
        cursor: Option<String>,
    },
    ListTemplates,
    ReadResource {
        uri: String,
    },
    /// There are none, but some hosts ask without looking at the capabilities, and take an error for a broken server.
    ListPrompts,
}

impl HostRequest {
    pub(super) fn new(
        id: Id,
        sender: RequestSender,
        method: &str,
        params: MessageParams<'_>,
    ) -> Result<Self, McpError> {
        let progress = params.meta.as_ref().and_then(|meta| meta.progress_token);
        let is_token = |token: &&RawValue| token.get().starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9'));
        Ok(Self {
            id,
            sender,
            progress_token: progress.filter(is_token).map(ToOwned::to_owned),
            input_responses: params.input_responses.map(ToOwned::to_owned),
            call: HostCall::new(method, params)?,
        })
    }
}

impl HostCall {
    fn new(method: &str, params: MessageParams<'_>) -> Result<Self, McpError> {
        let invalid = || McpError::invalid_params(method);
        let text = |value: &RawValue| decode::<String>(Some(value)).ok_or_else(invalid);
        Ok(match method {
            "tools/call" => Self::Tool {
                name: params.name.ok_or_else(invalid).and_then(text)?,
                arguments: params.arguments.unwrap_or_default(),
            },
            "tools/list" => Self::ListTools,
            "resources/list" => Self::ListResources { cursor: params.cursor.map(text).transpose()? },
            "resources/templates/list" => Self::ListTemplates,
            "resources/read" => Self::ReadResource { uri: params.uri.ok_or_else(invalid).and_then(text)? },
            "prompts/list" => Self::ListPrompts,
            _ => return Err(McpError::method_not_found(method)),
        })
    }
}
