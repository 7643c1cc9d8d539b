//! Runs in `stockade mcp`: the roots that the host names, and how they are asked for.
//! Trusts the host to narrow, never to widen: an error or silence keeps the last roots that it named, and until a host that
//! declares roots has named some, every call is refused.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    message::decode,
    outbox::HostOutbox,
    scope::{HostRoot, ScopeRefusal},
    session::RequestSender,
    uri::path_of_uri,
};
use crate::wire::envelope::Id;

/// Time that a call waits for `roots/list`.
const ROOTS_WAIT: Duration = Duration::from_secs(2);
/// Timeout of one `roots/list` request. After it, the next call sends another.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Pending `roots/list` requests. One more abandons the oldest.
const MAX_PENDING_REQUESTS: u64 = 8;
/// Timeout for resolving all host roots. A root that is not resolved by then (a dead mount) is compared by its text.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Roots of one answer that are used. Later ones are ignored, so they allow nothing.
const MAX_ROOTS: usize = 1_000;
/// The key of the one input request that a host without a handshake gets.
const INPUT_KEY: &str = "roots";

/// The roots of an answer. `None` if the host narrows nothing.
pub(super) type NamedRoots = Option<Arc<[HostRoot]>>;

#[derive(Debug, Default)]
struct HostRootsState {
    /// The host declared in the handshake that it has roots.
    is_declared: bool,
    /// Requests sent so far.
    requests_sent: u64,
    /// The number of the request whose answer is in `last_roots`.
    answered_request: u64,
    /// The newest request is unanswered. Calls wait for it.
    is_awaited: bool,
    /// A request that may still be answered.
    is_pending: bool,
    /// The host has ended the handshake, so requests may be sent to it.
    may_send_requests: bool,
    /// The last answer; None before the first.
    last_roots: Option<NamedRoots>,
}

/// The URIs of an answer; `None` for an error.
type AnsweredUris = Option<Vec<String>>;

#[derive(Debug)]
pub(super) struct HostRoots {
    is_ignored: bool,
    outbox: Arc<HostOutbox>,
    state: watch::Sender<HostRootsState>,
    /// Requests without an answer, by their ids.
    pending: Mutex<BTreeMap<u64, oneshot::Sender<AnsweredUris>>>,
}

/// The roots in a request of a host without a handshake.
pub(super) enum SentRoots {
    /// Nothing; use the roots of the handshake.
    FromHandshake,
    /// The roots for this request.
    Roots(NamedRoots),
    /// The host has roots but did not send them.
    Missing,
}

impl HostRoots {
    pub(super) fn new(is_ignored: bool, outbox: Arc<HostOutbox>) -> Self {
        Self { is_ignored, outbox, state: watch::Sender::new(HostRootsState::default()), pending: Mutex::default() }
    }

    /// Call this at the handshake. A second handshake does not undo the first.
    pub(super) fn declare(&self) {
        self.state.send_modify(|state| {
            state.is_declared = true;
            state.is_awaited = true;
        });
    }

    /// Call this after the handshake, and when the host notifies that its roots have changed.
    pub(super) fn refresh(self: &Arc<Self>) {
        if !self.is_ignored && self.state.borrow().is_declared {
            self.state.send_modify(|state| state.may_send_requests = true);
            tokio::spawn(self.send_request());
        }
    }

    /// Sends `roots/list`. The future waits for the answer.
    fn send_request(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        self.state.send_modify(|state| {
            state.requests_sent += 1;
            state.is_awaited = true;
            state.is_pending = true;
        });
        let number = self.state.borrow().requests_sent;
        let (sender, answer) = oneshot::channel();
        self.pending().insert(number, sender);
        self.outbox.push(&json!({"jsonrpc": "2.0", "id": number, "method": "roots/list"}));
        let roots = Arc::clone(self);
        async move { roots.wait_for_answer(number, answer).await }
    }

    async fn wait_for_answer(&self, number: u64, answer: oneshot::Receiver<AnsweredUris>) {
        let mut newer = self.state.subscribe();
        let answer = tokio::select! {
            listed = timeout(REQUEST_TIMEOUT, answer) => listed.ok().and_then(Result::ok).flatten(),
            _ = newer.wait_for(|state| state.requests_sent >= number + MAX_PENDING_REQUESTS) => None,
        };
        self.pending().remove(&number);
        let answer = match answer {
            Some(uris) => Some(resolve_roots(uris).await),
            None => None,
        };
        self.state.send_modify(|state| {
            if number == state.requests_sent {
                state.is_awaited = false;
                state.is_pending = false;
            }
            if let Some(roots) = answer.filter(|_| number > state.answered_request) {
                state.answered_request = number;
                state.set_roots(roots);
            }
        });
    }

    /// Handles the host's response to a `roots/list` request; `None` for an error. Some hosts send the id back as a string.
    pub(super) fn handle_answer(&self, id: &Id, result: Option<&RawValue>) {
        let number = match id {
            Id::Integer(number) => u64::try_from(*number).ok(),
            Id::Large(number) => Some(*number),
            Id::Text(text) => text.parse().ok(),
        };
        let waiter = number.and_then(|number| self.pending().remove(&number));
        if let Some(waiter) = waiter {
            let _ = waiter.send(decode::<RootsListResult>(result).map(RootsListResult::uris));
        }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<AnsweredUris>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The roots that apply to a request. `sent`: the roots in the request itself.
    pub(super) async fn current_roots(self: &Arc<Self>, sent: SentRoots) -> Result<NamedRoots, ScopeRefusal> {
        if self.is_ignored {
            return Ok(None);
        }
        match sent {
            SentRoots::FromHandshake => {}
            SentRoots::Roots(roots) => return Ok(roots),
            SentRoots::Missing => return self.last_answer().ok_or_else(roots_unknown),
        }
        {
            let state = self.state.borrow();
            match &state.last_roots {
                // A request without roots does not widen what an earlier one has narrowed.
                named if !state.is_declared => return Ok(named.clone().flatten()),
                Some(named) if !state.is_awaited => return Ok(named.clone()),
                _ => {}
            }
        }
        let deadline = Instant::now() + ROOTS_WAIT;
        self.wait_for_newest(deadline).await;
        let may_ask = {
            let state = self.state.borrow();
            state.last_roots.is_none() && !state.is_pending && state.may_send_requests
        };
        if may_ask {
            // The last request failed: this call sends another.
            let _ = timeout_at(deadline, tokio::spawn(self.send_request())).await;
        }
        self.last_answer().ok_or_else(roots_unknown)
    }

    /// Waits for the answer to the newest request. After one call has timed out, later calls use the previous roots at once.
    async fn wait_for_newest(&self, deadline: Instant) {
        let mut answered = self.state.subscribe();
        let waited = timeout_at(deadline, answered.wait_for(|state| !state.is_awaited)).await.is_ok();
        if !waited && self.last_answer().is_some() {
            self.state.send_modify(|state| state.is_awaited = false);
        }
    }

    fn last_answer(&self) -> Option<NamedRoots> {
        self.state.borrow().last_roots.clone()
    }

    /// Reads the roots that a request carries. Only hosts without a handshake send any.
    pub(super) async fn read_sent_roots(&self, sender: RequestSender, inputs: Option<&RawValue>) -> SentRoots {
        if self.is_ignored || self.state.borrow().is_declared || !sender.has_roots {
            return SentRoots::FromHandshake;
        }
        let inputs: Option<BTreeMap<String, &RawValue>> = decode(inputs);
        let answer = inputs.and_then(|inputs| decode::<RootsListResult>(inputs.get(INPUT_KEY).copied()));
        let Some(answer) = answer else { return SentRoots::Missing };
        let roots = resolve_roots(answer.uris()).await;
        self.state.send_modify(|state| state.set_roots(roots));
        self.last_answer().map_or(SentRoots::Missing, SentRoots::Roots)
    }
}

impl HostRootsState {
    /// An editor without an open folder names no roots, and so narrows nothing. After it has named some, an empty list
    /// allows nothing: it must not give back what the list before took away.
    fn set_roots(&mut self, roots: Vec<HostRoot>) {
        let has_named = matches!(self.last_roots, Some(Some(_)));
        self.last_roots = Some((has_named || !roots.is_empty()).then(|| roots.into()));
    }
}

/// The reply for a host without a handshake, to which no request may be sent: it repeats its call with the roots.
pub(super) fn roots_input_request() -> Value {
    json!({"resultType": "input_required", "inputRequests": {INPUT_KEY: {"method": "roots/list"}}})
}

#[derive(Deserialize)]
struct RootsListResult {
    roots: Vec<RootsListEntry>,
}

#[derive(Deserialize)]
struct RootsListEntry {
    uri: String,
}

impl RootsListResult {
    fn uris(self) -> Vec<String> {
        self.roots.into_iter().map(|root| root.uri).collect()
    }
}

/// The folder of each URI, with links followed. This process runs as the user, so it sees the same files as the host. A path
/// that cannot be resolved is compared by its text.
async fn resolve_roots(uris: Vec<String>) -> Vec<HostRoot> {
    let mut roots: Vec<HostRoot> =
        uris.into_iter().take(MAX_ROOTS).map(|uri| HostRoot { path: path_of_uri(&uri), uri }).collect();
    let paths: Vec<String> = roots.iter().filter_map(|root| root.path.clone()).collect();
    let (sender, mut resolved) = mpsc::unbounded_channel();
    tokio::task::spawn_blocking(move || paths.iter().try_for_each(|path| sender.send(real_path(path))));
    let deadline = Instant::now() + RESOLVE_TIMEOUT;
    for path in roots.iter_mut().filter_map(|root| root.path.as_mut()) {
        let real = timeout_at(deadline, resolved.recv()).await.ok().flatten().flatten();
        *path = real.unwrap_or_else(|| std::mem::take(path));
    }
    roots
}

fn real_path(path: &str) -> Option<String> {
    Path::new(path).canonicalize().ok()?.into_os_string().into_string().ok()
}

fn roots_unknown() -> ScopeRefusal {
    let message = "the client has not answered roots/list, so the allowed paths are not known yet; repeat the call in a moment. \
                   If this goes on, the operator can start `stockade mcp` with --ignore-host-roots";
    ScopeRefusal { code: "C222", message: message.into() }
}
