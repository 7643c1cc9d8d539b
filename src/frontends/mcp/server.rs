//! Runs in `stockade mcp`: the one dispatcher. Each line of the host is answered at once, or becomes a task that answers it.
//! Does not trust the host. Takes lines in their order: a cancellation never meets a request that was sent after it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::{
    handler::Bridge,
    host_roots::HostRoots,
    input::{InFlightGuard, InFlightRequests},
    message::{self, HostMessage, METHOD_NOT_FOUND, McpError, MessageParams, decode, parse_id},
    outbox::HostOutbox,
    request::HostRequest,
    session::McpSession,
};
use crate::wire::envelope::Id;

pub(super) struct McpServer {
    bridge: Bridge,
    session: McpSession,
    host_roots: Arc<HostRoots>,
    outbox: Arc<HostOutbox>,
    in_flight: Arc<InFlightRequests>,
    running: RunningRequests,
}

impl McpServer {
    pub(super) fn new(
        bridge: Bridge,
        host_roots: Arc<HostRoots>,
        outbox: Arc<HostOutbox>,
        desk: Arc<InFlightRequests>,
    ) -> Self {
        Self {
            bridge,
            session: McpSession::default(),
            host_roots,
            outbox,
            in_flight: desk,
            running: RunningRequests::default(),
        }
    }

    /// Has to be called inside a runtime.
    pub(super) fn handle_line(&mut self, line: &[u8]) {
        match message::parse_message(line) {
            HostMessage::Request { id, method, params, malformed } => {
                self.handle_request(id, &method, params, malformed);
            }
            HostMessage::Notification { .. } | HostMessage::Response { .. } if self.session.is_undecided() => {}
            HostMessage::Notification { method, params } => self.handle_notification(&method, params),
            HostMessage::Response { id, result } => self.host_roots.handle_answer(&id, result),
            HostMessage::Invalid { id, error } => self.outbox.reply_error(id.as_ref(), &error),
            HostMessage::Ignored => {}
        }
    }

    fn handle_request(&mut self, id: Id, method: &str, params: MessageParams<'_>, malformed: Option<String>) {
        let answered = match method {
            "initialize" => self.initialize(&params).map(Some),
            "server/discover" => self.session.discover(&params).map(Some),
            "ping" if self.session.answers_ping(&params) => Ok(Some(json!({}))),
            _ => self.session.admit(&params).and_then(|sender| {
                let request = HostRequest::new(id.clone(), sender, method, params);
                match (request, malformed) {
                    (Err(error), None) => return Err(error),
                    (Err(error), _) if error.code == METHOD_NOT_FOUND => return Err(error),
                    (_, Some(why)) => return Err(McpError::malformed_params(method, &why)),
                    (Ok(request), None) => self.start_request(request),
                }
                Ok(None)
            }),
        };
        match answered {
            Ok(Some(result)) => self.outbox.reply(&id, &result),
            Ok(None) => {}
            Err(error) => self.outbox.reply_error(Some(&id), &error),
        }
    }

    fn initialize(&mut self, params: &MessageParams<'_>) -> Result<Value, McpError> {
        let (reply, has_roots) = self.session.initialize(params)?;
        if has_roots {
            self.host_roots.declare();
        }
        Ok(reply)
    }

    fn handle_notification(&mut self, method: &str, params: MessageParams<'_>) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = decode(params.request_id).and_then(|id| parse_id(&id)) {
                    self.running.cancel(&id);
                }
            }
            "notifications/initialized" | "notifications/roots/list_changed" => self.host_roots.refresh(),
            _ => {}
        }
    }

    fn start_request(&self, request: HostRequest) {
        let place =
            RunningEntry { running: self.running.clone(), id: request.id.clone(), _in_flight: self.in_flight.begin() };
        let (id, bridge) = (request.id.clone(), self.bridge.clone());
        // Locked until the task is in the table, or it could end before it is.
        let mut tasks = self.running.lock();
        let task = tokio::spawn(async move {
            let _place = place;
            bridge.answer(request).await;
        });
        tasks.insert(id, task.abort_handle());
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.running.lock().drain().for_each(|(_, task)| task.abort());
    }
}

/// Requests that are being worked on, by the ids that a cancellation names.
#[derive(Debug, Clone, Default)]
struct RunningRequests(Arc<Mutex<HashMap<Id, AbortHandle>>>);

impl RunningRequests {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts the task, which cancels its call in the service. The request gets no reply.
    fn cancel(&self, id: &Id) {
        let task = self.lock().remove(id);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// The entry of one request in the table, as long as its task lives.
struct RunningEntry {
    running: RunningRequests,
    id: Id,
    _in_flight: InFlightGuard,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        let mut tasks = self.running.lock();
        // A host may use an id again too early; then the entry is the later request's.
        if tasks.get(&self.id).is_some_and(|task| Some(task.id()) == tokio::task::try_id()) {
            tasks.remove(&self.id);
        }
    }
}
