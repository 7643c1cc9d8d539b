//! Runs in `stockade mcp`: the roots that the host names, and how they are asked for.
//! Trusts the host to narrow, never to widen: an error or silence keeps the last roots that it named, and until a host that
//! declares roots has named some, every call is refused.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{InputRequest, InputRequests, InputRequiredResult, InputResponses},
    service::{Peer, RequestContext},
};
use serde::Deserialize;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    scope::{HostRoot, Refused},
    uri::path_of_uri,
};

/// How long a call waits for `roots/list`.
const PATIENCE: Duration = Duration::from_secs(2);
/// Timeout of one `roots/list` request. After it, the next call sends another.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Pending `roots/list` requests. One more abandons the oldest.
const MAX_UNANSWERED: u64 = 8;
/// Timeout for resolving all host roots. A root that is not resolved by then (a dead mount) is compared by its text.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);
/// Roots of one answer that are used. Later ones are ignored, so they allow nothing.
const MAX_ROOTS: usize = 1_000;
/// The key of the one input request that a host without a handshake gets.
const INPUT_KEY: &str = "roots";

/// The roots of an answer. None: the host narrows nothing.
pub(super) type Named = Option<Arc<[HostRoot]>>;

#[derive(Debug, Default)]
struct State {
    /// The host said in the handshake that it has roots.
    is_declared: bool,
    /// Requests sent so far.
    asked: u64,
    /// The number of the request whose answer is in `named`.
    answered: u64,
    /// The newest request is unanswered. Calls wait for it.
    is_awaited: bool,
    /// A request that may still be answered.
    is_pending: bool,
    /// The last answer; None before the first.
    named: Option<Named>,
}

#[derive(Debug)]
pub(super) struct HostRoots {
    is_ignored: bool,
    state: watch::Sender<State>,
    /// The host, once the handshake is over: requests may be sent to it.
    host: Mutex<Option<Peer<RoleServer>>>,
}

/// What a request of a host without a handshake says about roots.
pub(super) enum Sent {
    /// Nothing; use the roots of the handshake.
    Nothing,
    /// The roots for this request.
    Roots(Named),
    /// The host has roots but did not send them.
    Missing,
}

impl HostRoots {
    pub(super) fn new(is_ignored: bool) -> Self {
        Self { is_ignored, state: watch::Sender::new(State::default()), host: Mutex::new(None) }
    }

    /// At the handshake. A second one takes nothing back.
    pub(super) fn declare(&self) {
        self.state.send_modify(|state| {
            state.is_declared = true;
            state.is_awaited = true;
        });
    }

    /// After the handshake, and when the host says that its roots have changed.
    pub(super) async fn ask(&self, host: &Peer<RoleServer>) {
        if self.is_ignored || !self.state.borrow().is_declared {
            return;
        }
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = Some(host.clone());
        self.send(self.begin(), host).await;
    }

    /// The number of a new request.
    fn begin(&self) -> u64 {
        self.state.send_modify(|state| {
            state.asked += 1;
            state.is_awaited = true;
            state.is_pending = true;
        });
        self.state.borrow().asked
    }

    async fn send(&self, number: u64, host: &Peer<RoleServer>) {
        let mut newer = self.state.subscribe();
        let answer = tokio::select! {
            listed = timeout(ASK_LIMIT, list(host)) => listed.ok().flatten(),
            _ = newer.wait_for(|state| state.asked >= number + MAX_UNANSWERED) => None,
        };
        let answer = match answer {
            Some(uris) => Some(resolve(uris).await),
            None => None,
        };
        self.state.send_modify(|state| {
            if number == state.asked {
                state.is_awaited = false;
                state.is_pending = false;
            }
            if let Some(roots) = answer.filter(|_| number > state.answered) {
                state.answered = number;
                state.take(roots);
            }
        });
    }

    /// The roots that apply to a request. `sent`: what the request itself said.
    pub(super) async fn current(self: &Arc<Self>, sent: Sent) -> Result<Named, Refused> {
        if self.is_ignored {
            return Ok(None);
        }
        match sent {
            Sent::Nothing => {}
            Sent::Roots(roots) => return Ok(roots),
            Sent::Missing => return self.last().ok_or_else(not_named),
        }
        {
            let state = self.state.borrow();
            match &state.named {
                _ if !state.is_declared => return Ok(None),
                Some(named) if !state.is_awaited => return Ok(named.clone()),
                _ => {}
            }
        }
        let deadline = Instant::now() + PATIENCE;
        self.wait_until(deadline).await;
        if self.last().is_none() && !self.state.borrow().is_pending {
            // The request failed, or was never sent: this call sends one.
            let host = self.host.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(host) = host {
                let (roots, number) = (Arc::clone(self), self.begin());
                let asking = tokio::spawn(async move { roots.send(number, &host).await });
                let _ = timeout_at(deadline, asking).await;
            }
        }
        self.last().ok_or_else(not_named)
    }

    /// Waits for the answer to the newest request. After one call has timed out, later calls use the previous roots at once.
    async fn wait_until(&self, deadline: Instant) {
        let mut answered = self.state.subscribe();
        let waited = timeout_at(deadline, answered.wait_for(|state| !state.is_awaited)).await.is_ok();
        if !waited && self.last().is_some() {
            self.state.send_modify(|state| state.is_awaited = false);
        }
    }

    fn last(&self) -> Option<Named> {
        self.state.borrow().named.clone()
    }

    /// Reads the roots that a request carries. Only hosts without a handshake send any.
    pub(super) async fn sent_with(
        &self,
        context: &RequestContext<RoleServer>,
        inputs: Option<&InputResponses>,
    ) -> Sent {
        let has_roots = context.client_capabilities().is_some_and(|host| host.roots.is_some());
        if self.is_ignored || self.state.borrow().is_declared || !has_roots {
            return Sent::Nothing;
        }
        let answer = inputs.and_then(|inputs| Listed::deserialize(inputs.get(INPUT_KEY)?).ok());
        let Some(answer) = answer else { return Sent::Missing };
        let roots = resolve(answer.roots.into_iter().map(|root| root.uri).collect()).await;
        self.state.send_modify(|state| state.take(roots));
        self.last().map_or(Sent::Missing, Sent::Roots)
    }
}

impl State {
    /// An editor without an open folder names no roots, and so narrows nothing. After it has named some, an empty list
    /// allows nothing: it must not give back what the list before took away.
    fn take(&mut self, roots: Vec<HostRoot>) {
        let has_named = matches!(self.named, Some(Some(_)));
        self.named = Some((has_named || !roots.is_empty()).then(|| roots.into()));
    }
}

/// The reply for a host without a handshake, to which no request may be sent: it repeats its call with the roots.
pub(super) fn input_request() -> InputRequiredResult {
    let request = InputRequest::ListRoots(Default::default());
    InputRequiredResult::from_input_requests(InputRequests::from([(INPUT_KEY.into(), request)]))
}

#[derive(Deserialize)]
struct Listed {
    roots: Vec<ListedRoot>,
}

#[derive(Deserialize)]
struct ListedRoot {
    uri: String,
}

#[expect(deprecated, reason = "hosts of the revisions with a handshake still have roots")]
async fn list(host: &Peer<RoleServer>) -> Option<Vec<String>> {
    let listed = host.list_roots().await.ok()?;
    Some(listed.roots.into_iter().map(|root| root.uri).collect())
}

/// The folder that each URI stands for, with links followed. This process is the user's, so it sees what the host sees.
/// A path that cannot be resolved counts by its text.
async fn resolve(uris: Vec<String>) -> Vec<HostRoot> {
    let mut roots: Vec<HostRoot> =
        uris.into_iter().take(MAX_ROOTS).map(|uri| HostRoot { path: path_of_uri(&uri), uri }).collect();
    let paths: Vec<String> = roots.iter().filter_map(|root| root.path.clone()).collect();
    let (sender, mut resolved) = mpsc::unbounded_channel();
    tokio::task::spawn_blocking(move || paths.iter().try_for_each(|path| sender.send(real_path(path))));
    let deadline = Instant::now() + RESOLVE_LIMIT;
    for path in roots.iter_mut().filter_map(|root| root.path.as_mut()) {
        let real = timeout_at(deadline, resolved.recv()).await.ok().flatten().flatten();
        *path = real.unwrap_or_else(|| std::mem::take(path));
    }
    roots
}

fn real_path(path: &str) -> Option<String> {
    Path::new(path).canonicalize().ok()?.into_os_string().into_string().ok()
}

fn not_named() -> Refused {
    let message = "the client has not answered roots/list, so the allowed paths are not known yet; repeat the call in a moment. \
                   If this goes on, the operator can start `stockade mcp` with --ignore-host-roots";
    Refused { code: "C222", message: message.into() }
}
