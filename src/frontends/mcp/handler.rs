//! Runs in `stockade mcp`: answers one request of the host with one or more calls of the service.
//! Does not trust the host. Never returns a protocol error for a failure that a model can correct: a failed call is a tool result
//! with an error text.

use std::{convert::Infallible, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    arguments,
    backend::Backend,
    host_roots::{self, HostRoots, SentRoots},
    message::{INVALID_PARAMS, INVALID_REQUEST, McpError, RESOURCE_NOT_FOUND},
    object::JsonObject,
    outbox::HostOutbox,
    render::{self, RenderContext, RenderedReply},
    request::{HostCall, HostRequest},
    resources,
    scope::{HostScope, ScopeRefusal},
    session::{Dialect, RequestSender},
    tools::{OfferedTool, ToolSelection},
};
use crate::{
    frontends::{client::CallError, escape},
    wire::{envelope::Id, function::Cost},
};

/// How often a long call reports progress, where the host wants to know.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(super) struct Bridge {
    pub(super) backend: Arc<Backend>,
    pub(super) outbox: Arc<HostOutbox>,
    pub(super) selection: Arc<ToolSelection>,
    /// Results of tools carry `structuredContent`.
    pub(super) structured: bool,
    pub(super) host_roots: Arc<HostRoots>,
}

/// The result of a tool call as the host gets it.
#[derive(Debug)]
pub(super) struct ToolReply<'r> {
    pub(super) rendered: RenderedReply,
    pub(super) structured: Option<&'r RawValue>,
}

impl Bridge {
    pub(super) async fn answer(&self, request: HostRequest) {
        let HostRequest { id, sender, progress_token: progress, input_responses: inputs, call } = request;
        let inputs = inputs.as_deref();
        let result = match call {
            HostCall::Tool { name, arguments } => {
                let sent = self.host_roots.read_sent_roots(sender, inputs).await;
                if !matches!(sent, SentRoots::Missing) {
                    return self.answer_tool_call(&id, sender, progress, sent, &name, arguments).await;
                }
                request_roots(sender)
            }
            HostCall::ListTools => {
                self.list_tools().await.map_err(McpError::from).map(|tools| mark_complete(tools, sender))
            }
            HostCall::ListResources { cursor } => {
                self.list_resources(sender, cursor).await.map(|listed| mark_complete(listed, sender))
            }
            HostCall::ListTemplates => {
                let offered = self.is_offered("read").await.map_err(McpError::from);
                offered.map(|is_offered| mark_complete(resources::list_templates(is_offered), sender))
            }
            HostCall::ReadResource { uri } => self.read_resource(sender, inputs, &uri).await,
            HostCall::ListPrompts => Ok(mark_complete(json!({"prompts": []}), sender)),
        };
        match result {
            Ok(result) => self.outbox.reply(&id, &result),
            Err(error) => self.outbox.reply_error(Some(&id), &adapt_error(error, sender)),
        }
    }

    async fn answer_tool_call(
        &self,
        id: &Id,
        sender: RequestSender,
        progress: Option<Box<RawValue>>,
        sent: SentRoots,
        name: &str,
        arguments: JsonObject,
    ) {
        let told = self.call_tool(name, arguments, progress.as_deref(), sent).await;
        self.outbox.reply_to_tool_call(id, &self.build_tool_reply(&told), sender.dialect);
    }

    async fn current_scope(&self, sent: SentRoots) -> Result<HostScope, RequestFailure> {
        let info = self.backend.info().await?;
        let host_roots = self.host_roots.current_roots(sent).await?;
        Ok(HostScope::new(info, host_roots.as_deref())?)
    }

    /// Calls a tool. An `Err` is the text of a failed result.
    async fn call_tool(
        &self,
        name: &str,
        arguments: JsonObject,
        progress: Option<&RawValue>,
        sent: SentRoots,
    ) -> Result<ToolCallResult, String> {
        let info = self.backend.info().await.map_err(|lost| lost_call_text(&lost))?;
        let offer = self.selection.find_tool(name, Some(info))?;
        let kept = arguments.clone_without(&CONTENT_ARGUMENTS);
        let scope = self.current_scope(sent).await.map_err(|failure| failure.error_text(None))?;
        match self.call_function(&offer, arguments, progress, &scope).await {
            Ok(result) => Ok(ToolCallResult { tool: offer.tool.name, arguments: kept, scope, result }),
            Err(failure) if failure.is_bad_input() => {
                Err(add_unknown_arguments(failure.error_text(Some(&scope)), &offer, &kept))
            }
            Err(failure) => Err(failure.error_text(Some(&scope))),
        }
    }

    async fn call_function(
        &self,
        offer: &OfferedTool,
        arguments: JsonObject,
        progress: Option<&RawValue>,
        scope: &HostScope,
    ) -> Result<Box<RawValue>, RequestFailure> {
        let request = arguments::build_request(offer, arguments).map_err(RequestFailure::Arguments)?;
        let request = scope.confine(offer.function.name, request)?;
        let call = self.backend.call(&request);
        Ok(match progress.filter(|_| offer.function.cost == Cost::Long) {
            None => call.await?,
            Some(token) => {
                tokio::select! {
                    result = call => result?,
                    never = Box::pin(self.report_progress(token, offer.tool.name)) => match never {},
                }
            }
        })
    }

    fn build_tool_reply<'t>(&self, told: &'t Result<ToolCallResult, String>) -> ToolReply<'t> {
        let told = match told {
            Ok(told) => told,
            Err(why) => return ToolReply { rendered: RenderedReply::failure(why), structured: None },
        };
        let asked = RenderContext { tool: told.tool, arguments: &told.arguments, scope: &told.scope };
        if self.structured {
            let said = render::render_summary(&asked, &told.result);
            // No schema describes a failure, so it is text alone.
            if !said.is_error {
                return ToolReply { rendered: said, structured: Some(&told.result) };
            }
        }
        ToolReply { rendered: render::render_reply(&asked, &told.result), structured: None }
    }

    /// Sends progress notifications without a percentage, which the service does not report: a host needs them to keep waiting for
    /// a long call.
    async fn report_progress(&self, token: &RawValue, tool: &str) -> Infallible {
        let mut seconds = 0;
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            seconds += PROGRESS_EVERY.as_secs();
            if !self.outbox.backlog().is_full() {
                self.outbox.push(&ProgressNotification::new(token, seconds, tool));
            }
        }
    }

    async fn list_tools(&self) -> Result<Value, RequestFailure> {
        let info = self.backend.info().await?;
        let offers = self.selection.offered_tools(Some(info));
        let tools: Vec<Value> = offers.map(|offer| offer.describe(self.structured)).collect();
        Ok(json!({ "tools": tools }))
    }

    async fn list_resources(&self, sender: RequestSender, cursor: Option<String>) -> Result<Value, McpError> {
        // Files are resources only if `read` is offered, and listed only if `find` is, too.
        if !(self.is_offered("read").await? && self.is_offered("find").await?) {
            return Ok(resources::list_skill());
        }
        let sent = self.host_roots.read_sent_roots(sender, None).await;
        let scope = self.current_scope(sent).await?;
        resources::list_files(&self.backend, &scope, cursor).await
    }

    async fn read_resource(
        &self,
        sender: RequestSender,
        inputs: Option<&RawValue>,
        uri: &str,
    ) -> Result<Value, McpError> {
        if let Some(skill) = resources::read_skill(uri) {
            return Ok(mark_complete(skill, sender));
        }
        let sent = self.host_roots.read_sent_roots(sender, inputs).await;
        if matches!(sent, SentRoots::Missing) {
            return request_roots(sender);
        }
        if !self.is_offered("read").await? {
            return Err(resources::not_offered(uri));
        }
        let scope = self.current_scope(sent).await?;
        resources::read_file(&self.backend, &scope, uri).await.map(|read| mark_complete(read, sender))
    }

    /// Whether `tool` is offered. Resources obey the same selection as tools.
    async fn is_offered(&self, tool: &str) -> Result<bool, RequestFailure> {
        let info = self.backend.info().await?;
        Ok(self.selection.find_tool(tool, Some(info)).is_ok())
    }
}

/// Marks a result as complete and not to be cached or shared, as newer revisions require.
fn mark_complete(mut result: Value, sender: RequestSender) -> Value {
    if sender.dialect == Dialect::Inline {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

fn request_roots(sender: RequestSender) -> Result<Value, McpError> {
    match sender.dialect {
        Dialect::Inline => Ok(host_roots::roots_input_request()),
        Dialect::Handshake => {
            let why = "the client's roots can only be requested in protocol version 2026-07-28 or newer";
            Err(McpError::new(INVALID_REQUEST, why))
        }
    }
}

/// From 2026-07-28 on a resource that does not exist is an invalid param.
fn adapt_error(error: McpError, sender: RequestSender) -> McpError {
    match (sender.dialect, error.code) {
        (Dialect::Inline, RESOURCE_NOT_FOUND) => McpError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

#[derive(Serialize)]
struct ProgressNotification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: ProgressParams<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    progress_token: &'a RawValue,
    progress: u64,
    message: String,
}

impl<'a> ProgressNotification<'a> {
    fn new(progress_token: &'a RawValue, seconds: u64, tool: &str) -> Self {
        let message = format!("{tool}: at work for {seconds} s");
        let params = ProgressParams { progress_token, progress: seconds, message };
        Self { jsonrpc: "2.0", method: "notifications/progress", params }
    }
}

/// The reply of the service, and what the text about it needs.
struct ToolCallResult {
    tool: &'static str,
    arguments: JsonObject,
    scope: HostScope,
    result: Box<RawValue>,
}

/// Arguments that hold what is written, which no reply repeats.
const CONTENT_ARGUMENTS: [&str; 5] = ["content", "old", "new", "ops", "files"];

/// Why a request has no result.
pub(super) enum RequestFailure {
    /// Invalid arguments for this tool; the text includes the code.
    Arguments(String),
    /// The host's roots do not allow it.
    Refused(ScopeRefusal),
    Call(CallError),
}

impl From<CallError> for RequestFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<ScopeRefusal> for RequestFailure {
    fn from(refused: ScopeRefusal) -> Self {
        Self::Refused(refused)
    }
}

impl RequestFailure {
    /// C210: probably caused by an unknown argument.
    fn is_bad_input(&self) -> bool {
        match self {
            Self::Arguments(_) => true,
            Self::Refused(_) => false,
            Self::Call(error) => matches!(error, CallError::Remote(error) if error.code == "C210"),
        }
    }

    pub(super) fn error_text(&self, scope: Option<&HostScope>) -> String {
        match self {
            Self::Arguments(why) => why.clone(),
            Self::Refused(ScopeRefusal { code, message }) => {
                format!("{code} {}", escape::escape_text(message))
            }
            Self::Call(CallError::Remote(error)) => {
                format!("{} {}", error.code, render::translate_to_tools(scope, &error.message))
            }
            Self::Call(lost) => lost_call_text(lost),
        }
    }
}

fn add_unknown_arguments(why: String, offer: &OfferedTool, arguments: &JsonObject) -> String {
    match offer.unknown_arguments(arguments) {
        Some(unknown) => format!("{why} ({unknown})"),
        None => why,
    }
}

/// A call without an answer, with a code like every other failure.
fn lost_call_text(lost: &CallError) -> String {
    let code = if *lost == CallError::TimedOut { "C220" } else { "C216" };
    format!("{code} {lost}; look what is there before you repeat a change")
}
