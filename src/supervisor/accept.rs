//! The event loop: accepts connections, gives each a worker, and drains them at shutdown. Runs in the supervisor.
//! Trusts: the policy and the peer credentials from the kernel. Never reads from a connection or opens a file for content.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::unix::AsyncFd,
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, oneshot, watch},
    task::{JoinSet, LocalSet},
};

use super::{
    SupervisorError,
    answer::ServedProfile,
    attend::{ServedConnection, UnsettledPath},
    audit::{AuditWriter, ClientConnection},
    blocking::run_blocking,
    lease::Leases,
    listen::SocketLocation,
    notify::Notifier,
    peer::{self, ConnectedPeer},
    policy_in_force::PolicyInForce,
    pool::{Reaper, WorkerPool},
    quota::{QuotaShare, UidQuota},
    reload::{Reloader, Signals},
    serve::{self, SessionOrders, WorkerSession},
    spawn,
    start::{ClientSource, PreparedService},
    turns::{Turn, TurnQueueFull, Turns},
};
use crate::{
    broker::codec::ToWorker,
    sys::{
        host,
        poll::{self, HangUps},
        socket,
    },
    terms::Code,
};

/// Pause after a failed accept (for example EMFILE), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that the loop accepts before sessions run again. A flood of connections is refused faster than it grows, and a
/// burst takes less time than the start of a worker.
const ACCEPT_BURST: usize = 64;

const TOO_MANY_WAIT_TEXT: &str = "too many connections wait for a worker; try again later";

/// A peer that the policy serves. It counts towards the connection limit of its uid and waits for its turn.
struct AdmittedConnection {
    connection: OwnedFd,
    client: ClientConnection,
    policy_in_force: Rc<PolicyInForce>,
    /// Index of the profile in `policy_in_force`.
    profile_index: usize,
    /// Closed without a turn if the queue is full and another uid displaces this connection.
    turn: oneshot::Receiver<Turn>,
    _quota_share: QuotaShare,
}

/// State of the listening queue after a burst.
enum ListenQueue {
    Empty,
    MayHaveMore,
}

pub(super) struct Service {
    /// The policy for new connections. A reload replaces it.
    policy_in_force: RefCell<Rc<PolicyInForce>>,
    pub(super) leases: Arc<Leases>,
    audit: Arc<AuditWriter>,
    /// Open connections, by uid.
    connection_quota: Arc<UidQuota>,
    turns: Turns,
    /// Memory for long lines, by uid.
    reservation_quota: Arc<UidQuota>,
    next_id: Cell<u64>,
    reaper: Rc<Reaper>,
    hang_ups: Rc<AsyncFd<HangUps>>,
    hang_up_notifiers: RefCell<HashMap<u64, Rc<Notify>>>,
    orders: watch::Sender<SessionOrders>,
    notifier: Notifier,
}

/// Runs the event loop and starts all workers on this thread, which their parent-death signals are bound to.
pub fn run(prepared: PreparedService, source: ClientSource, notifier: Notifier) -> Result<(), SupervisorError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io_failure)?;
    LocalSet::new().block_on(&runtime, async {
        // The service runs as its own task: `block_on` polls its own future at every wake-up of any session.
        let served = tokio::task::spawn_local(serve_source(prepared, source, notifier)).await;
        served.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    })
}

fn io_failure(error: std::io::Error) -> SupervisorError {
    SupervisorError::Failed(error.to_string())
}

async fn serve_source(
    prepared: PreparedService,
    source: ClientSource,
    notifier: Notifier,
) -> Result<(), SupervisorError> {
    let mut children = signal(SignalKind::child()).map_err(io_failure)?;
    let PreparedService { policy_in_force: offer, reloader, audit, log } = prepared;
    let service = Service::new(offer, audit, notifier)?;
    let reaper = service.reaper.clone();
    tokio::task::spawn_local(async move {
        while children.recv().await.is_some() {
            reaper.reap();
        }
    });
    service.watch_hang_ups();
    match source {
        ClientSource::SingleConnection(connection) => {
            service.prove(&reloader).await?;
            let writer = service.audit.start_writer();
            writer.map_err(|error| SupervisorError::Failed(format!("a thread for the audit: {error}")))?;
            if let Some(admitted) = service.admit(connection) {
                service.serve_admitted(admitted).await;
            }
            service.audit.finish();
            Ok(())
        }
        ClientSource::Listener { listener, location: place, owns_socket: own } => {
            // Before anything else: until the handlers are registered, a signal ends the process at once.
            let signals = Signals::register().map_err(io_failure)?;
            service.prove(&reloader).await?;
            // A separate thread writes the log and the audit, so that slow readers and disks do not block the event loop.
            log.start_writer()
                .and_then(|()| service.audit.start_writer())
                .map_err(|error| SupervisorError::Failed(format!("a thread for the log: {error}")))?;
            let served = service.accept_connections(listener, &place, own, signals, reloader).await;
            service.audit.finish();
            log.finish();
            served
        }
    }
}

impl Service {
    fn new(offer: PolicyInForce, audit: AuditWriter, notifier: Notifier) -> Result<Rc<Self>, SupervisorError> {
        let hang_ups = HangUps::new().map_err(|errno| SupervisorError::Failed(format!("epoll: {errno}")))?;
        let orders = SessionOrders { is_draining: false, limits: Rc::new(offer.limits.clone()) };
        Ok(Rc::new(Self {
            policy_in_force: RefCell::new(Rc::new(offer)),
            leases: Arc::default(),
            audit: Arc::new(audit),
            connection_quota: Arc::default(),
            turns: Turns::default(),
            reservation_quota: Arc::default(),
            next_id: Cell::new(1),
            reaper: Rc::default(),
            hang_ups: Rc::new(spawn::watch_readable(hang_ups).map_err(io_failure)?),
            hang_up_notifiers: RefCell::default(),
            orders: watch::Sender::new(orders),
            notifier,
        }))
    }

    fn current_policy(&self) -> Rc<PolicyInForce> {
        self.policy_in_force.borrow().clone()
    }

    async fn prove(self: &Rc<Self>, reloader: &Reloader) -> Result<(), SupervisorError> {
        let offer = self.current_policy();
        offer.prove().await.map_err(SupervisorError::NotEnforceable)?;
        for (profile, pool) in offer.profiles.iter().zip(&offer.pools) {
            let tried = self.start_recovery(None, profile, pool);
            let _ = tried.await;
        }
        tracing::info!(level = ?reloader.start_state.level, "the jail holds; serving");
        Ok(())
    }

    async fn accept_connections(
        self: &Rc<Self>,
        listener: std::os::unix::net::UnixListener,
        place: &SocketLocation,
        own: bool,
        signals: Signals,
        reloader: Reloader,
    ) -> Result<(), SupervisorError> {
        listener.set_nonblocking(true).map_err(io_failure)?;
        let listener = spawn::watch_readable(listener).map_err(io_failure)?;
        let Signals { mut terminate, mut interrupt, hang_up } = signals;
        let status = format!("serving, confinement: {:?}", reloader.start_state.level);
        let reloading = tokio::task::spawn_local(self.clone().reload_on_signal(hang_up, reloader));
        self.current_policy().refill();
        tracing::info!(socket = %place.path.display(), "listening");
        self.notifier.send_ready(&status).await;
        let mut reserve = host::open_null().ok();
        let mut sessions = JoinSet::new();
        let mut heartbeat = self.notifier.start_heartbeat();
        loop {
            tokio::select! {
                // Signals first: after SIGTERM the queued connections are left to the next process that has the socket.
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = heartbeat.tick() => self.notifier.send_alive(),
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
                Ok(mut ready) = listener.readable() => {
                    match self.accept_burst(listener.get_ref(), &mut sessions, &mut reserve) {
                        Ok(ListenQueue::Empty) => ready.clear_ready(),
                        Ok(ListenQueue::MayHaveMore) => tokio::task::yield_now().await,
                        Err(error) => {
                            tracing::warn!(%error, "a connection could not be accepted");
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    }
                }
            }
        }
        reloading.abort();
        if own {
            // This still removes the own socket: no service replaces one that listens. Fails if the folder is not writable.
            let _ = host::remove(&place.folder, &place.name);
        }
        drop(listener);
        self.drain(sessions).await;
        Ok(())
    }

    /// Accepts up to `ACCEPT_BURST` connections. Refuses peers that cannot be served here, before they get a task; starts a
    /// session for the others.
    fn accept_burst(
        self: &Rc<Self>,
        listener: &std::os::unix::net::UnixListener,
        sessions: &mut JoinSet<()>,
        reserve: &mut Option<OwnedFd>,
    ) -> std::io::Result<ListenQueue> {
        for _ in 0..ACCEPT_BURST {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Some(admitted) = self.admit(stream.into()) {
                        let service = self.clone();
                        sessions.spawn_local(async move { service.serve_admitted(admitted).await });
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Ok(ListenQueue::Empty);
                }
                Err(error) => {
                    if host::is_out_of_descriptors(&error) {
                        drop(reserve.take());
                        self.refuse_next_connection(listener);
                        *reserve = host::open_null().ok();
                    }
                    return Err(error);
                }
            }
        }
        Ok(ListenQueue::MayHaveMore)
    }

    async fn drain(&self, mut sessions: JoinSet<()>) {
        let connections = sessions.len();
        tracing::info!(connections, "stopping");
        self.notifier.send_stopping(&format!("finishing {connections} connections")).await;
        self.orders.send_modify(|orders| orders.is_draining = true);
        self.current_policy().close();
        let all = async { while sessions.join_next().await.is_some() {} };
        // Every session ends by itself after a drain and `REAP_TIMEOUT`. This timeout is for one that a bug keeps alive.
        let mut all = std::pin::pin!(tokio::time::timeout(serve::DRAIN_GRACE * 2, all));
        let mut heartbeat = self.notifier.start_heartbeat();
        loop {
            tokio::select! {
                _ = &mut all => return,
                () = heartbeat.tick() => self.notifier.send_alive(),
            }
        }
    }

    /// Reloads at every SIGHUP, one reload after the other.
    async fn reload_on_signal(self: Rc<Self>, mut hang_up: Signal, mut reloader: Reloader) {
        while hang_up.recv().await.is_some() {
            self.notifier.send_reloading().await;
            let status = self.reload(&mut reloader).await;
            self.notifier.send_ready(&status).await;
        }
    }

    /// Reloads the policy and the audit. Returns the status text for the service manager.
    async fn reload(&self, reloader: &mut Reloader) -> String {
        let audit = self.audit.clone();
        if let Err(reason) = run_blocking(move || audit.reopen()).await.flatten() {
            tracing::error!(%reason, "the audit was not reopened");
        }
        match reloader.read_and_prove().await {
            Ok(None) => {
                let status = "the audit was reopened; there is no policy file to reload";
                tracing::info!("{status}");
                status.into()
            }
            Ok(Some((policy, offer))) => {
                reloader.policy = policy;
                self.put_in_force(offer);
                tracing::info!("the policy was reloaded");
                "serving under a reloaded policy".into()
            }
            Err(reason) => {
                tracing::error!(%reason, "the policy was not reloaded; the old one stays");
                format!("the policy was not reloaded, the old one stays: {reason}")
            }
        }
    }

    /// Applies a new policy: new connections are served by it, existing ones get only its limits.
    fn put_in_force(&self, offer: PolicyInForce) {
        let limits = Rc::new(offer.limits.clone());
        offer.refill();
        self.policy_in_force.replace(Rc::new(offer)).close();
        self.orders.send_modify(|orders| orders.limits = limits);
    }

    /// Refuses a peer that has hung up, whose uid has too many connections, or that the policy does not serve. Costs a few system
    /// calls, because all other clients in the listening queue wait behind a flood of such peers.
    fn admit(&self, connection: OwnedFd) -> Option<AdmittedConnection> {
        let socket = connection.as_fd();
        if poll::is_hung_up(socket) {
            return None;
        }
        let peer = ConnectedPeer::read_uid_and_pid(socket).ok()?;
        let offer = self.current_policy();
        let most = u64::from(offer.limits.max_connections_per_uid);
        let is_full = self.connection_quota.is_full(peer.uid, most);
        let peer = if is_full { peer } else { ConnectedPeer::read_credentials(socket).ok()? };
        let profile = peer.find_profile(&offer.policy_profiles);
        let roots = profile.map_or_else(Vec::new, |index| offer.profiles[index].root_names());
        let about = ClientConnection { id: self.take_id(), peer, roots };
        let place = self.connection_quota.take(about.peer.uid, most);
        let (code, reason) = match (place, profile) {
            (Some(place), Some(index)) => match self.turns.request_turn(about.peer.uid) {
                Ok(turn) => {
                    return Some(AdmittedConnection {
                        connection,
                        client: about,
                        policy_in_force: offer,
                        profile_index: index,
                        turn,
                        _quota_share: place,
                    });
                }
                Err(TurnQueueFull) => (Code::Busy, TOO_MANY_WAIT_TEXT.into()),
            },
            (None, _) => (Code::Busy, format!("{most} connections of this user are open; close one")),
            (_, None) => (
                Code::NotFound,
                "this user is not served; the operator names who is with [[peer]] in the policy".into(),
            ),
        };
        self.refuse(&about, connection, code, &reason);
        None
    }

    fn refuse(&self, about: &ClientConnection, connection: OwnedFd, code: Code, reason: &str) {
        self.audit.record_refused(about, code, reason);
        peer::refuse_connection(connection, code, reason);
    }

    async fn serve_admitted(self: &Rc<Self>, admitted: AdmittedConnection) {
        let id = admitted.client.id;
        self.serve_in_turn(admitted).await;
        self.hang_up_notifiers.borrow_mut().remove(&id);
    }

    /// Waits until it is this connection's turn, takes a worker and serves. Takes no worker if the client hangs up or the
    /// service stops while it waits.
    async fn serve_in_turn(self: &Rc<Self>, admitted: AdmittedConnection) {
        let AdmittedConnection {
            connection,
            client: about,
            policy_in_force: offer,
            profile_index: index,
            turn,
            _quota_share: _place,
        } = admitted;
        let hung_up = self.hang_up_notifier(about.id, connection.as_fd());
        let turn = tokio::select! {
            biased;
            turn = turn => turn,
            () = hung_up.notified() => return,
        };
        let Ok(turn) = turn else { return self.refuse(&about, connection, Code::Busy, TOO_MANY_WAIT_TEXT) };
        if poll::is_hung_up(connection.as_fd()) || self.orders.borrow().is_draining {
            return;
        }
        let (profile, pool) = (&offer.profiles[index], &offer.pools[index]);
        let worker = match pool.take(turn.has_more_waiting()).await {
            Ok(worker) => worker,
            Err(reason) => {
                self.audit.record_refused(&about, Code::Io, &reason);
                let told = "no worker could be started; the service's log says why";
                return peer::refuse_connection(connection, Code::Io, told);
            }
        };
        drop(turn);
        // The worker makes blocking calls on it, and a connection from inetd or from accept on macOS may be non-blocking.
        if let Err(errno) = socket::set_nonblocking(&connection, false) {
            return self.audit.record_refused(&about, Code::Io, &errno.to_string());
        }
        self.audit.record_accepted(&about);
        let order = ToWorker::Connection { id: about.id };
        self.run_session(about, (profile, pool), worker, &order, connection, None).await;
    }

    /// Notified when the client of this connection hangs up.
    fn hang_up_notifier(&self, id: u64, connection: BorrowedFd<'_>) -> Rc<Notify> {
        let mut watched = self.hang_up_notifiers.borrow_mut();
        let new = || {
            // A connection that cannot be watched is still ended by its worker; only a stuck one would last longer.
            let _ = self.hang_ups.get_ref().watch(connection, id);
            Rc::default()
        };
        watched.entry(id).or_insert_with(new).clone()
    }

    /// Serves one connection to its end. `report`: the worker recovers and has no client. If the worker is lost, recovery runs
    /// before the client gets its error, because the client may reconnect and read at once.
    pub(super) async fn run_session(
        self: &Rc<Self>,
        about: ClientConnection,
        (profile, pool): (&Arc<ServedProfile>, &Rc<WorkerPool>),
        worker: spawn::WarmWorker,
        order: &ToWorker,
        connection: OwnedFd,
        report: Option<oneshot::Sender<Vec<UnsettledPath>>>,
    ) {
        let (id, serves) = (about.id, report.is_none());
        let hung_up = self.hang_up_notifier(id, connection.as_fd());
        let mut orders = self.orders.subscribe();
        // The service may have begun to stop, or its limits may have changed, while this connection waited for its worker.
        orders.mark_changed();
        let mut session = WorkerSession {
            served: Arc::new(ServedConnection {
                profile: profile.clone(),
                leases: self.leases.clone(),
                audit: self.audit.clone(),
                client: about,
                limits: Default::default(),
            }),
            limits: pool.blueprint.setup.limits.clone(),
            reservation_quota: self.reservation_quota.clone(),
            worker_threads: pool.blueprint.setup.threads,
            orders,
            hung_up,
            worker_ended: self.reaper.watch(worker.pid),
            report,
        };
        let connection = Arc::new(connection);
        let mut over = session.run(worker, order, &connection).await;
        if serves && over.was_lost() {
            self.recover_from(id, over.not_reaped.take(), profile, pool).await;
        }
        session.close(over, connection).await;
        self.hang_up_notifiers.borrow_mut().remove(&id);
    }

    fn watch_hang_ups(self: &Rc<Self>) {
        let service = self.clone();
        tokio::task::spawn_local(async move {
            while let Ok(mut ready) = service.hang_ups.readable().await {
                // Takes all events: the loop wakes for the next event, not for those that are left.
                while let Ok(gone) = service.hang_ups.get_ref().take()
                    && !gone.is_empty()
                {
                    for id in gone {
                        if let Some(hung_up) = service.hang_up_notifiers.borrow().get(&id) {
                            hung_up.notify_one();
                        }
                    }
                }
                ready.clear_ready();
            }
        });
    }

    /// When no descriptor is left: the caller has closed the spare one, so this accepts the first client in the queue and
    /// refuses it. Otherwise that client would keep the listening socket readable and wake the loop for ever.
    fn refuse_next_connection(&self, listener: &std::os::unix::net::UnixListener) {
        let Ok((stream, _)) = listener.accept() else { return };
        let Ok(peer) = ConnectedPeer::read_uid_and_pid(stream.as_fd()) else { return };
        let about = ClientConnection { id: self.take_id(), peer, roots: Vec::new() };
        let reason = "the service has no descriptors left; try again later";
        self.refuse(&about, stream.into(), Code::Busy, reason);
    }

    pub(super) fn take_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }
}
