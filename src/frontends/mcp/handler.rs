//! Runs in `stockade mcp`: answers one request of the host with one or more calls of the service.
//! Does not trust the host. Never returns a protocol error for a failure that a model can correct: a failed call is a tool result
//! with an error text.

use std::{convert::Infallible, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    arguments::{self, PreparedCall},
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

/// Interval of the progress reports of a long call, if the host asked for them.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(super) struct Bridge {
    pub(super) backend: Arc<Backend>,
    pub(super) outbox: Arc<HostOutbox>,
    pub(super) selection: Arc<ToolSelection>,
    /// Results of tools carry `structuredContent`.
    pub(super) structured: bool,
    /// Bytes of text in one reply of a tool.
    pub(super) max_reply: usize,
    pub(super) host_roots: Arc<HostRoots>,
}

/// The result of a tool call in the form that the host gets.
#[derive(Debug)]
pub(super) struct ToolReply {
    pub(super) rendered: RenderedReply,
    pub(super) structured: Option<Box<RawValue>>,
}

/// A call of a tool on its way through the bridge.
pub(super) struct ToolCall<'c> {
    offer: &'c OfferedTool,
    prepared: &'c PreparedCall,
    scope: &'c HostScope,
    progress_token: Option<&'c RawValue>,
    max_reply: usize,
}

impl ToolCall<'_> {
    pub(super) fn context(&self) -> RenderContext<'_> {
        RenderContext {
            tool: self.offer.tool.name,
            arguments: &self.prepared.shown,
            listed_paths: &self.prepared.listed_paths,
            is_abridged: self.prepared.is_abridged,
            is_repeatable: self.prepared.is_repeatable,
            is_flat: self.prepared.is_flat,
            scope: self.scope,
            cursor: &self.prepared.cursor,
            max_reply: self.max_reply,
        }
    }

    /// Arguments as the caller may name them in an error.
    pub(super) fn shown(&self) -> &JsonObject {
        &self.prepared.shown
    }
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
        let reply = self.call_tool(name, arguments, progress.as_deref(), sent).await.unwrap_or_else(|why| ToolReply {
            rendered: RenderedReply::failure(&why, self.max_reply),
            structured: None,
        });
        self.outbox.reply_to_tool_call(id, &reply, sender.dialect);
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
        mut arguments: JsonObject,
        progress_token: Option<&RawValue>,
        sent: SentRoots,
    ) -> Result<ToolReply, String> {
        let info = self.backend.info().await.map_err(|lost| lost_call_text(&lost))?;
        let offer = self.selection.find_tool(name, Some(info))?;
        let scope = self.current_scope(sent).await.map_err(|failure| failure.error_text(None, None))?;
        arguments::normalise(&offer, &mut arguments).map_err(|why| add_unknown_arguments(why, &offer, &arguments))?;
        let mut prepared = arguments::prepare_call(&offer, arguments);
        let request = std::mem::take(&mut prepared.request);
        let call =
            ToolCall { offer: &offer, prepared: &prepared, scope: &scope, progress_token, max_reply: self.max_reply };
        let replied = match offer.tool.name {
            "read" => self.read(&call, request).await,
            _ => self.call_once(&call, request).await,
        };
        replied.map_err(|failure| {
            let why = failure.error_text(Some(&scope), Some(&call.context()));
            if failure.is_bad_input() { add_unknown_arguments(why, &offer, &prepared.shown) } else { why }
        })
    }

    async fn call_once(&self, call: &ToolCall<'_>, request: JsonObject) -> Result<ToolReply, RequestFailure> {
        let result = self.call_function(call, request).await?;
        Ok(self.reply(render::render_reply(&call.context(), &result), result))
    }

    /// No schema describes a failure, so it is text alone.
    pub(super) fn reply(&self, rendered: RenderedReply, result: Box<RawValue>) -> ToolReply {
        let structured = (self.structured && !rendered.is_error).then_some(result);
        ToolReply { rendered, structured }
    }

    pub(super) async fn call_function(
        &self,
        call: &ToolCall<'_>,
        request: JsonObject,
    ) -> Result<Box<RawValue>, RequestFailure> {
        let function = call.offer.function;
        let request = call.scope.confine(function.name, request)?;
        let answer = self.backend.call(&request);
        Ok(match call.progress_token.filter(|_| function.cost == Cost::Long) {
            None => answer.await?,
            Some(token) => {
                tokio::select! {
                    result = answer => result?,
                    never = Box::pin(self.report_progress(token, call.offer.tool.name)) => match never {},
                }
            }
        })
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

    /// True if `tool` is offered. Resources obey the same selection as tools.
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

    /// Adds the scope and the call if they are known.
    pub(super) fn error_text(&self, scope: Option<&HostScope>, context: Option<&RenderContext<'_>>) -> String {
        match self {
            Self::Arguments(why) => why.clone(),
            Self::Refused(ScopeRefusal { code, message }) => {
                format!("{code} {}", escape::escape_text(message))
            }
            Self::Call(CallError::Remote(error)) => {
                let message = match context {
                    Some(context) => context.translate(&error.message),
                    None => render::translate_to_tools(scope, &error.message, &[], false),
                };
                format!("{} {message}", error.code)
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
