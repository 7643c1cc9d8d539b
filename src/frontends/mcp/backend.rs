//! Runs in `stockade mcp`: the connection to the service, over a socket or to one that was started for this bridge alone, and its
//! `coder::info`.
//! Does not trust replies. Never repeats a call. If a connection has ended, the next call makes a new one: the host's conversation
//! continues after a lost worker.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, Semaphore};

use super::scope::ConfinedRequest;
use crate::frontends::{
    client::{
        CallError,
        pipelined::{Backlog, Pipeline},
    },
    endpoint::{Endpoint, PrivateSupervisor, Unreachable},
};

#[derive(Debug)]
pub(super) struct Backend {
    endpoint: Endpoint,
    timeout: Option<Duration>,
    backlog: Arc<Backlog>,
    link: Mutex<ServiceLink>,
    info: OnceCell<(ServiceInfo, CallPermits)>,
}

/// Permits for calls that the service may have open. Further calls wait in the bridge and not in the socket, where a cancellation
/// would have to wait behind them.
type CallPermits = Arc<Semaphore>;

/// Used if the service does not report its limit, as with an older wire.
const DEFAULT_CALL_PERMITS: usize = 64;

#[derive(Debug)]
struct ServiceLink {
    pipeline: Pipeline,
    supervisor: Option<PrivateSupervisor>,
}

/// The parts of `coder::info` that a bridge needs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServiceInfo {
    pub(super) primary_root: String,
    pub(super) roots: Vec<ServiceRoot>,
    pub(super) functions: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ServiceRoot {
    pub(super) path: String,
}

impl Backend {
    /// Call this inside a runtime. The service starts here, before the host sends its first message.
    pub(super) fn open(
        endpoint: Endpoint,
        timeout: Option<Duration>,
        backlog: Arc<Backlog>,
    ) -> Result<Self, Unreachable> {
        let link = Mutex::new(connect(&endpoint, &backlog)?);
        Ok(Self { endpoint, timeout, backlog, link, info: OnceCell::new() })
    }

    /// Sends a host's request. Takes only a `ConfinedRequest`, so that no request can leave the host's roots.
    pub(super) async fn call(&self, request: &ConfinedRequest) -> Result<Box<RawValue>, CallError> {
        self.send(request.method(), request.params()).await
    }

    async fn send(&self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        // The semaphore is never closed, so this never fails.
        let place = match self.info.get() {
            Some((_, places)) => places.clone().acquire_owned().await.ok(),
            None => None,
        };
        let pipeline = self.pipeline().map_err(|lost| CallError::Io(lost.message))?;
        pipeline.call(method, params, self.timeout, place).await
    }

    /// Requested once, on the first connection, because roots and functions of a service do not change while it runs.
    pub(super) async fn info(&self) -> Result<&ServiceInfo, CallError> {
        #[derive(Deserialize)]
        struct BackendInfoResult {
            #[serde(flatten)]
            info: ServiceInfo,
            max_calls_in_flight: Option<usize>,
        }
        let ask = || async {
            let reply = self.send("coder::info", "{}").await?;
            let BackendInfoResult { info, max_calls_in_flight } =
                serde_json::from_str(reply.get()).map_err(|error| CallError::Protocol(error.to_string()))?;
            let places = max_calls_in_flight.unwrap_or(DEFAULT_CALL_PERMITS).clamp(1, Semaphore::MAX_PERMITS);
            Ok((info, Arc::new(Semaphore::new(places))))
        };
        self.info.get_or_try_init(ask).await.map(|(info, _)| info)
    }

    /// The private service, whose end has to be waited for after the connection is closed.
    pub(super) fn take_supervisor(&self) -> Option<PrivateSupervisor> {
        self.link().supervisor.take()
    }

    fn pipeline(&self) -> Result<Pipeline, Unreachable> {
        let mut link = self.link();
        if link.pipeline.is_ended() {
            let old = std::mem::replace(&mut *link, connect(&self.endpoint, &self.backlog)?);
            if let Some(supervisor) = old.supervisor {
                // The service ends with its connection. A thread waits for it, because it would stay a zombie otherwise.
                std::thread::spawn(|| supervisor.wait());
            }
        }
        Ok(link.pipeline.clone())
    }

    fn link(&self) -> MutexGuard<'_, ServiceLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(endpoint: &Endpoint, backlog: &Arc<Backlog>) -> Result<ServiceLink, Unreachable> {
    let connection = endpoint.open()?;
    let pipeline = Pipeline::new(connection.stream, backlog.clone())
        .map_err(|error| Unreachable { message: format!("cannot use the connection: {error}"), hint: "try again" })?;
    Ok(ServiceLink { pipeline, supervisor: connection.supervisor })
}
