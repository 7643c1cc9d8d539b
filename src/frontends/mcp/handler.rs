//! Runs in `stockade mcp`: answers one request of the host with one or more calls of the service.
//! Does not trust the host. Never returns a protocol error for a failure that a model can correct: a failed call is a tool result
//! with an error text.

use std::{convert::Infallible, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    arguments,
    backend::Backend,
    host_roots::{self, HostRoots, Sent},
    message::{INVALID_PARAMS, INVALID_REQUEST, RESOURCE_NOT_FOUND, RpcError},
    object::Object,
    outbox::Outbox,
    render::{self, Asked, Rendered},
    request::{Call, Request},
    resources,
    scope::{Refused, Scope},
    session::{Dialect, Sender},
    tools::{Offer, Selection},
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
    pub(super) outbox: Arc<Outbox>,
    pub(super) selection: Arc<Selection>,
    /// Results of tools carry `structuredContent`.
    pub(super) structured: bool,
    pub(super) host_roots: Arc<HostRoots>,
}

/// The result of a tool call as the host gets it.
#[derive(Debug)]
pub(super) struct ToolReply<'r> {
    pub(super) said: Rendered,
    pub(super) structured: Option<&'r RawValue>,
}

impl Bridge {
    pub(super) async fn answer(&self, request: Request) {
        let Request { id, sender, progress, inputs, call } = request;
        let inputs = inputs.as_deref();
        let result = match call {
            Call::Tool { name, arguments } => {
                let sent = self.host_roots.sent_with(sender, inputs).await;
                if !matches!(sent, Sent::Missing) {
                    return self.answer_tool(&id, sender, progress, sent, &name, arguments).await;
                }
                input_request(sender)
            }
            Call::ListTools => {
                self.list_tools().await.map_err(RpcError::from).map(|tools| cacheable(tools, sender))
            }
            Call::ListResources { cursor } => {
                self.list_resources(sender, cursor).await.map(|listed| cacheable(listed, sender))
            }
            Call::ListTemplates => {
                let offered = self.offers("read").await.map_err(RpcError::from);
                offered.map(|is_offered| cacheable(resources::templates(is_offered), sender))
            }
            Call::ReadResource { uri } => self.read_resource(sender, inputs, &uri).await,
            Call::ListPrompts => Ok(cacheable(json!({"prompts": []}), sender)),
        };
        match result {
            Ok(result) => self.outbox.reply(&id, &result),
            Err(error) => self.outbox.refuse(Some(&id), &in_dialect(error, sender)),
        }
    }

    async fn answer_tool(
        &self,
        id: &Id,
        sender: Sender,
        progress: Option<Box<RawValue>>,
        sent: Sent,
        name: &str,
        arguments: Object,
    ) {
        let told = self.ask(name, arguments, progress.as_deref(), sent).await;
        self.outbox.reply_of_tool(id, &self.reply_of(&told), sender.dialect);
    }

    async fn scope(&self, sent: Sent) -> Result<Scope, Failure> {
        let info = self.backend.info().await?;
        let host_roots = self.host_roots.current(sent).await?;
        Ok(Scope::new(info, host_roots.as_deref())?)
    }

    /// Calls a tool. An `Err` is the text of a failed result.
    async fn ask(
        &self,
        name: &str,
        arguments: Object,
        progress: Option<&RawValue>,
        sent: Sent,
    ) -> Result<Told, String> {
        let info = self.backend.info().await.map_err(|lost| lost_words(&lost))?;
        let offer = self.selection.find(name, Some(info))?;
        let kept = arguments.without(&BULKY);
        let scope = self.scope(sent).await.map_err(|failure| failure.words(None))?;
        match self.call(&offer, arguments, progress, &scope).await {
            Ok(result) => Ok(Told { tool: offer.tool.name, arguments: kept, scope, result }),
            Err(failure) if failure.is_misunderstood() => {
                Err(with_unknown(failure.words(Some(&scope)), &offer, &kept))
            }
            Err(failure) => Err(failure.words(Some(&scope))),
        }
    }

    async fn call(
        &self,
        offer: &Offer,
        arguments: Object,
        progress: Option<&RawValue>,
        scope: &Scope,
    ) -> Result<Box<RawValue>, Failure> {
        let request = arguments::build(offer, arguments).map_err(Failure::Arguments)?;
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

    fn reply_of<'t>(&self, told: &'t Result<Told, String>) -> ToolReply<'t> {
        let told = match told {
            Ok(told) => told,
            Err(why) => return ToolReply { said: Rendered::refused(why), structured: None },
        };
        let asked = Asked { tool: told.tool, arguments: &told.arguments, scope: &told.scope };
        if self.structured {
            let said = render::summary(&asked, &told.result);
            // No schema describes a failure, so it is text alone.
            if !said.is_error {
                return ToolReply { said, structured: Some(&told.result) };
            }
        }
        ToolReply { said: render::render(&asked, &told.result), structured: None }
    }

    /// Sends progress notifications without a percentage, which the service does not report: a host needs them to keep waiting for
    /// a long call.
    async fn report_progress(&self, token: &RawValue, tool: &str) -> Infallible {
        let mut seconds = 0;
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            seconds += PROGRESS_EVERY.as_secs();
            if !self.outbox.backlog().is_full() {
                self.outbox.push(&Progress::new(token, seconds, tool));
            }
        }
    }

    async fn list_tools(&self) -> Result<Value, Failure> {
        let info = self.backend.info().await?;
        let offers = self.selection.offers(Some(info));
        let tools: Vec<Value> = offers.map(|offer| offer.listed(self.structured)).collect();
        Ok(json!({ "tools": tools }))
    }

    async fn list_resources(&self, sender: Sender, cursor: Option<String>) -> Result<Value, RpcError> {
        // Files are resources only if `read` is offered, and listed only if `find` is, too.
        if !(self.offers("read").await? && self.offers("find").await?) {
            return Ok(resources::list_skill());
        }
        let sent = self.host_roots.sent_with(sender, None).await;
        let scope = self.scope(sent).await?;
        resources::list(&self.backend, &scope, cursor).await
    }

    async fn read_resource(
        &self,
        sender: Sender,
        inputs: Option<&RawValue>,
        uri: &str,
    ) -> Result<Value, RpcError> {
        if let Some(skill) = resources::read_skill(uri) {
            return Ok(cacheable(skill, sender));
        }
        let sent = self.host_roots.sent_with(sender, inputs).await;
        if matches!(sent, Sent::Missing) {
            return input_request(sender);
        }
        if !self.offers("read").await? {
            return Err(resources::not_offered(uri));
        }
        let scope = self.scope(sent).await?;
        resources::read(&self.backend, &scope, uri).await.map(|read| cacheable(read, sender))
    }

    /// Whether `tool` is offered. Resources obey the same selection as tools.
    async fn offers(&self, tool: &str) -> Result<bool, Failure> {
        let info = self.backend.info().await?;
        Ok(self.selection.find(tool, Some(info)).is_ok())
    }
}

/// Marks a result as complete and not to be cached or shared, as newer revisions require.
fn cacheable(mut result: Value, sender: Sender) -> Value {
    if sender.dialect == Dialect::Inline {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

fn input_request(sender: Sender) -> Result<Value, RpcError> {
    match sender.dialect {
        Dialect::Inline => Ok(host_roots::input_request()),
        Dialect::Handshake => {
            let why = "the client's roots can only be requested in protocol version 2026-07-28 or newer";
            Err(RpcError::new(INVALID_REQUEST, why))
        }
    }
}

/// From 2026-07-28 on a resource that does not exist is an invalid param.
fn in_dialect(error: RpcError, sender: Sender) -> RpcError {
    match (sender.dialect, error.code) {
        (Dialect::Inline, RESOURCE_NOT_FOUND) => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

#[derive(Serialize)]
struct Progress<'a> {
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

impl<'a> Progress<'a> {
    fn new(progress_token: &'a RawValue, seconds: u64, tool: &str) -> Self {
        let message = format!("{tool}: at work for {seconds} s");
        let params = ProgressParams { progress_token, progress: seconds, message };
        Self { jsonrpc: "2.0", method: "notifications/progress", params }
    }
}

/// The reply of the service, and what the text about it needs.
struct Told {
    tool: &'static str,
    arguments: Object,
    scope: Scope,
    result: Box<RawValue>,
}

/// Arguments that hold what is written, which no reply repeats.
const BULKY: [&str; 5] = ["content", "old", "new", "ops", "files"];

/// Why a request has no result.
pub(super) enum Failure {
    /// Invalid arguments for this tool; the text includes the code.
    Arguments(String),
    /// The host's roots do not allow it.
    Refused(Refused),
    Call(CallError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Failure {
    /// C210: probably caused by an unknown argument.
    fn is_misunderstood(&self) -> bool {
        match self {
            Self::Arguments(_) => true,
            Self::Refused(_) => false,
            Self::Call(error) => matches!(error, CallError::Remote(error) if error.code == "C210"),
        }
    }

    pub(super) fn words(&self, scope: Option<&Scope>) -> String {
        match self {
            Self::Arguments(why) => why.clone(),
            Self::Refused(Refused { code, message }) => format!("{code} {}", escape::one_line(message)),
            Self::Call(CallError::Remote(error)) => {
                format!("{} {}", error.code, render::in_tool_words(scope, &error.message))
            }
            Self::Call(lost) => lost_words(lost),
        }
    }
}

fn with_unknown(why: String, offer: &Offer, arguments: &Object) -> String {
    match offer.unknown_arguments(arguments) {
        Some(unknown) => format!("{why} ({unknown})"),
        None => why,
    }
}

/// A call without an answer, with a code like every other failure.
fn lost_words(lost: &CallError) -> String {
    let code = if *lost == CallError::TimedOut { "C220" } else { "C216" };
    format!("{code} {lost}; look what is there before you repeat a change")
}
