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
    input::{Desk, Working},
    message::{self, METHOD_NOT_FOUND, Message, Params, RpcError, decode, id_of},
    outbox::Outbox,
    request::Request,
    session::Session,
};
use crate::wire::envelope::Id;

pub(super) struct Server {
    bridge: Bridge,
    session: Session,
    host_roots: Arc<HostRoots>,
    outbox: Arc<Outbox>,
    desk: Arc<Desk>,
    running: Running,
}

impl Server {
    pub(super) fn new(
        bridge: Bridge,
        host_roots: Arc<HostRoots>,
        outbox: Arc<Outbox>,
        desk: Arc<Desk>,
    ) -> Self {
        Self { bridge, session: Session::default(), host_roots, outbox, desk, running: Running::default() }
    }

    /// Has to be called inside a runtime.
    pub(super) fn take(&mut self, line: &[u8]) {
        match message::read(line) {
            Message::Request { id, method, params, malformed } => {
                self.take_request(id, &method, params, malformed);
            }
            Message::Notification { .. } | Message::Response { .. } if self.session.is_undecided() => {}
            Message::Notification { method, params } => self.take_notification(&method, params),
            Message::Response { id, result } => self.host_roots.answer(&id, result),
            Message::Invalid { id, error } => self.outbox.refuse(id.as_ref(), &error),
            Message::Nothing => {}
        }
    }

    fn take_request(&mut self, id: Id, method: &str, params: Params<'_>, malformed: Option<String>) {
        let answered = match method {
            "initialize" => self.initialize(&params).map(Some),
            "server/discover" => self.session.discover(&params).map(Some),
            "ping" if self.session.answers_ping(&params) => Ok(Some(json!({}))),
            _ => self.session.admit(&params).and_then(|sender| {
                let request = Request::new(id.clone(), sender, method, params);
                match (request, malformed) {
                    (Err(error), None) => return Err(error),
                    (Err(error), _) if error.code == METHOD_NOT_FOUND => return Err(error),
                    (_, Some(why)) => return Err(RpcError::malformed_params(method, &why)),
                    (Ok(request), None) => self.start(request),
                }
                Ok(None)
            }),
        };
        match answered {
            Ok(Some(result)) => self.outbox.reply(&id, &result),
            Ok(None) => {}
            Err(error) => self.outbox.refuse(Some(&id), &error),
        }
    }

    fn initialize(&mut self, params: &Params<'_>) -> Result<Value, RpcError> {
        let (reply, has_roots) = self.session.initialize(params)?;
        if has_roots {
            self.host_roots.declare();
        }
        Ok(reply)
    }

    fn take_notification(&mut self, method: &str, params: Params<'_>) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = decode(params.request_id).and_then(|id| id_of(&id)) {
                    self.running.cancel(&id);
                }
            }
            "notifications/initialized" | "notifications/roots/list_changed" => self.host_roots.ask(),
            _ => {}
        }
    }

    fn start(&self, request: Request) {
        let place =
            Place { running: self.running.clone(), id: request.id.clone(), _working: self.desk.begin() };
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

impl Drop for Server {
    fn drop(&mut self) {
        self.running.lock().drain().for_each(|(_, task)| task.abort());
    }
}

/// Requests that are being worked on, by the ids that a cancellation names.
#[derive(Debug, Clone, Default)]
struct Running(Arc<Mutex<HashMap<Id, AbortHandle>>>);

impl Running {
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
struct Place {
    running: Running,
    id: Id,
    _working: Working,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut tasks = self.running.lock();
        // A host may use an id again too early; then the entry is the later request's.
        if tasks.get(&self.id).is_some_and(|task| Some(task.id()) == tokio::task::try_id()) {
            tasks.remove(&self.id);
        }
    }
}
