//! Runs in `stockade mcp`: the requests that take time, each with what is known about its sender. Pure.

use serde_json::value::RawValue;

use super::{
    message::{Params, RpcError, decode},
    object::Object,
    session::Sender,
};
use crate::wire::envelope::Id;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Id,
    pub(super) sender: Sender,
    /// Where the host wants to be told that a long call is still at work: a number or a string.
    pub(super) progress: Option<Box<RawValue>>,
    /// Answers to the input requests of an earlier reply.
    pub(super) inputs: Option<Box<RawValue>>,
    pub(super) call: Call,
}

#[derive(Debug)]
pub(super) enum Call {
    ListTools,
    Tool {
        name: String,
        arguments: Object,
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

impl Request {
    pub(super) fn new(id: Id, sender: Sender, method: &str, params: Params<'_>) -> Result<Self, RpcError> {
        let progress = params.meta.as_ref().and_then(|meta| meta.progress_token);
        let is_token =
            |token: &&RawValue| token.get().starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9'));
        Ok(Self {
            id,
            sender,
            progress: progress.filter(is_token).map(ToOwned::to_owned),
            inputs: params.input_responses.map(ToOwned::to_owned),
            call: Call::new(method, params)?,
        })
    }
}

impl Call {
    fn new(method: &str, params: Params<'_>) -> Result<Self, RpcError> {
        let invalid = || RpcError::invalid_params(method);
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
            _ => return Err(RpcError::method_not_found(method)),
        })
    }
}
