//! Runs in `stockade mcp`: what the host asks, request by request. `rmcp` knows the protocol in all its revisions; here is
//! what this server says.
//! Never lets a call go on that the host gave up, and never makes a protocol error of what a model can mend.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
        ErrorCode, Implementation, InitializeRequestParams, InitializeResult, JsonObject,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotification, ProgressNotificationParam, ProgressToken, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, RequestId, ServerCapabilities, ServerConfig,
        ServerJsonRpcMessage, ServerNotification, ServerResult,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, value::RawValue};

use super::{
    backend::Backend,
    calls::ToolCall,
    host_roots::{self, HostRoots, Sent},
    outbox::Outbox,
    render::{self, Asked, Rendered},
    request, resources,
    scope::{Refused, Scope},
    tools::{Offer, Selection},
    transport::{Desk, Working},
};
use crate::{
    frontends::{client::CallError, escape},
    wire::function::Cost,
};

/// How often a long call says that it is still at work, where the host wants to know.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

const INSTRUCTIONS: &str = "Files of the roots that `info` shows, and nothing else. Relative paths begin at the first \
root; paths in results can be sent back as they are; a path in quotes is a JSON string. Look with tree, find and search, read \
with line windows, change with edit (old/new, or ops) and pass the etag of your read as if_match. Names that `info` calls protected (by default .git, .vscode, .claude and the like) can be read, not changed. A failed call names its code and the next step; a reply \
that is cut ends with the call that continues it.";

#[derive(Debug, Clone)]
pub(super) struct Bridge {
    backend: Arc<Backend>,
    desk: Arc<Desk>,
    outbox: Arc<Outbox>,
    selection: Arc<Selection>,
    structured: bool,
    host_roots: Arc<HostRoots>,
}

impl Bridge {
    pub(super) fn new(
        backend: Arc<Backend>,
        desk: Arc<Desk>,
        outbox: Arc<Outbox>,
        selection: Selection,
        structured: bool,
        host_roots: Arc<HostRoots>,
    ) -> Self {
        Self { backend, desk, outbox, selection: Arc::new(selection), structured, host_roots }
    }

    /// Every request but the first ones of a handshake comes by here.
    pub(super) fn enter(&self) -> Working {
        self.desk.open();
        self.desk.begin()
    }

    async fn scope(&self, sent: Sent) -> Result<Scope, Failure> {
        let info = self.backend.info().await?;
        let host_roots = self.host_roots.current(sent).await?;
        Ok(Scope::new(info, host_roots.as_deref())?)
    }

    /// An `Err` is what the host is told instead.
    async fn ask(&self, call: ToolCall, sent: Sent) -> Result<Told, String> {
        let ToolCall { name, arguments, progress } = call;
        let info = self.backend.info().await.map_err(|lost| lost_words(&lost))?;
        let offer = self.selection.find(&name, Some(info))?;
        // What a reply may speak of again; the rest may be megabytes.
        let kept: JsonObject = arguments
            .iter()
            .filter(|(name, _)| !BULKY.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
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
        arguments: JsonObject,
        progress: Option<ProgressToken>,
        scope: &Scope,
    ) -> Result<Box<RawValue>, Failure> {
        let request = request::build(offer, arguments).map_err(Failure::Arguments)?;
        let request = scope.confine(offer.function.name, request)?;
        let call = self.backend.call(&request);
        Ok(match progress.filter(|_| offer.function.cost == Cost::Long) {
            None => call.await?,
            Some(token) => {
                tokio::select! {
                    result = call => result?,
                    never = Box::pin(self.tell_progress(&token, offer.tool.name)) => match never {},
                }
            }
        })
    }

    /// In words, and as the structure that the host may have asked for.
    fn said<'t>(&self, told: &'t Result<Told, String>) -> (Rendered<'t>, Option<Value>) {
        let told = match told {
            Ok(told) => told,
            Err(why) => return (Rendered::refused(why.clone()), None),
        };
        let asked = Asked { tool: told.tool, arguments: &told.arguments, scope: &told.scope };
        let structured = self.structured.then(|| serde_json::from_str(told.result.get()).ok()).flatten();
        if structured.is_some() {
            let summary = render::summary(&asked, &told.result);
            // A failure has no structure that a schema describes: it is words.
            if !summary.is_error {
                return (summary, structured);
            }
        }
        (render::render(&asked, &told.result), None)
    }

    /// Without `rmcp`.
    pub(super) async fn answer(&self, id: &RequestId, call: ToolCall) {
        let told = self.ask(call, Sent::Nothing).await;
        let (said, structured) = self.said(&told);
        // A host that is gone is noticed by whoever writes to it.
        let _ = match structured {
            None => self.outbox.push_said(id, &said),
            Some(_) => {
                let mut result = result_of(said, structured);
                // Hosts that introduce themselves do not know of it.
                result.result_type = None;
                let result = ServerResult::CallToolResult(result);
                self.outbox.push(&ServerJsonRpcMessage::response(result, id.clone()))
            }
        };
    }

    /// The service does not say how far it is; that it is at work is what a host needs to keep waiting.
    async fn tell_progress(&self, token: &ProgressToken, tool: &str) -> Infallible {
        let mut seconds = 0;
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            seconds += PROGRESS_EVERY.as_secs();
            let progress = ProgressNotificationParam::new(token.clone(), seconds as f64)
                .with_message(format!("{tool}: at work for {seconds} s"));
            let progress = ServerNotification::ProgressNotification(ProgressNotification::new(progress));
            if !self.outbox.backlog().is_full() {
                let _ = self.outbox.push(&ServerJsonRpcMessage::notification(progress));
            }
        }
    }

    /// Whether `tool` is offered. Resources obey the same selection as tools.
    async fn offers(&self, tool: &str) -> Result<bool, Failure> {
        let info = self.backend.info().await?;
        Ok(self.selection.find(tool, Some(info)).is_ok())
    }
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

/// What the service has said, and what it speaks of.
struct Told {
    tool: &'static str,
    arguments: JsonObject,
    scope: Scope,
    result: Box<RawValue>,
}

fn result_of(said: Rendered<'_>, structured: Option<Value>) -> CallToolResult {
    let is_error = said.is_error;
    let content = vec![ContentBlock::text(said.whole())];
    let mut result = match is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = structured;
    result
}

fn with_unknown(why: String, offer: &Offer, arguments: &JsonObject) -> String {
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

/// Methods that are known, so that one of them with params that cannot be read is told apart from an unknown one.
const METHODS: [&str; 8] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
];

impl ServerHandler for Bridge {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let server = Implementation::new("stockade", crate::VERSION).with_title("stockade");
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        // `rmcp` knows the host before this only if the conversation begins with it.
        self.desk.greet(context.peer.peer_info().is_some());
        if request.capabilities.roots.is_some() {
            self.host_roots.declare();
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.desk.introduce();
        self.host_roots.ask(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.host_roots.ask(&context.peer).await;
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let _working = self.enter();
        let info = self.backend.info().await.map_err(Failure::from)?;
        let offers = self.selection.offers(Some(info));
        Ok(ListToolsResult::with_all_items(offers.map(|offer| offer.listed(self.structured)).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _working = self.enter();
        let sent = self.host_roots.sent_with(&context, request.input_responses.as_ref()).await;
        if matches!(sent, Sent::Missing) {
            return Ok(host_roots::input_request().into());
        }
        let call = ToolCall {
            name: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            progress: context.meta.get_progress_token(),
        };
        let told = tokio::select! {
            // Apart, like the others: `rmcp` copies what it gets several times, in the size of the largest.
            told = Box::pin(self.ask(call, sent)) => told,
            // Dropping the call cancels it in the service. What is said here reaches nobody.
            () = context.ct.cancelled() => Err("C220 cancelled".into()),
        };
        let (said, structured) = self.said(&told);
        Ok(result_of(said, structured).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _working = self.enter();
        let cursor = request.and_then(|request| request.cursor);
        let listing = async {
            // Files are resources only if `read` is offered, and listed only if `find` is, too.
            if !(self.offers("read").await? && self.offers("find").await?) {
                return Ok(resources::list_skill());
            }
            let sent = self.host_roots.sent_with(&context, None).await;
            let scope = self.scope(sent).await?;
            resources::list(&self.backend, &scope, cursor).await
        };
        until_cancelled(Box::pin(listing), &context).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let _working = self.enter();
        let listing = async { Ok(resources::templates(self.offers("read").await?)) };
        until_cancelled(Box::pin(listing), &context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _working = self.enter();
        if let Some(skill) = resources::read_skill(&request.uri) {
            return Ok(skill.into());
        }
        let sent = self.host_roots.sent_with(&context, request.input_responses.as_ref()).await;
        if matches!(sent, Sent::Missing) {
            return Ok(host_roots::input_request().into());
        }
        let reading = async {
            if !self.offers("read").await? {
                return Err(resources::not_offered(&request.uri));
            }
            let scope = self.scope(sent).await?;
            resources::read(&self.backend, &scope, &request.uri).await
        };
        until_cancelled(Box::pin(reading), &context).await.map(Into::into)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let _working = self.enter();
        let method: Cow<'static, str> = request.method.into();
        Err(match METHODS.contains(&&*method) {
            true => {
                ErrorData::invalid_params(format!("{method}: the params are not those of this method"), None)
            }
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
        })
    }
}

async fn until_cancelled<T>(
    work: impl Future<Output = Result<T, ErrorData>>,
    context: &RequestContext<RoleServer>,
) -> Result<T, ErrorData> {
    tokio::select! {
        result = work => result,
        () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
    }
}
