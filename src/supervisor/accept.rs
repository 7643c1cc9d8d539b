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
    Stop,
    answer::Profile,
    aside::aside,
    attend::Left,
    audit::{Audit, Connection},
    lease::Leases,
    listen::Place,
    notify::Notifier,
    offer::Offer,
    peer::{self, Peer},
    pool::{Pool, Reaper},
    quota::{Quota, Share},
    reload::Reloader,
    serve::{self, Orders, Session},
    spawn,
    start::{Prepared, Source},
    turns::{Full, Turn, Turns},
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

/// Pause after a failed accept (EMFILE, say), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that are accepted before sessions get the event loop again. Enough that a flood is refused faster than it
/// connects, and over in less time than the start of a worker.
const ACCEPT_BURST: usize = 64;

const NO_TURN: &str = "too many connections wait for a worker; try again later";

/// A peer that may be served, has one of its uid's places and waits for its turn.
struct Admitted {
    connection: OwnedFd,
    about: Connection,
    offer: Rc<Offer>,
    /// Of the profile, in `offer`.
    index: usize,
    /// Closed without a turn if the queue is full and another uid displaces this connection.
    turn: oneshot::Receiver<Turn>,
    _place: Share,
}

/// What is left in the listening queue after a burst.
enum Queued {
    None,
    Some,
}

pub(super) struct Service {
    /// What the next connection gets.
    offer: RefCell<Rc<Offer>>,
    pub(super) leases: Arc<Leases>,
    audit: Arc<Audit>,
    /// Connections.
    places: Arc<Quota>,
    turns: Turns,
    /// Memory for long lines.
    reservations: Arc<Quota>,
    next_id: Cell<u64>,
    reaper: Rc<Reaper>,
    hang_ups: Rc<AsyncFd<HangUps>>,
    watched: RefCell<HashMap<u64, Rc<Notify>>>,
    orders: watch::Sender<Orders>,
    notifier: Notifier,
}

/// One thread for everything, and all workers are its children: the parent-death signal belongs to it.
pub fn run(prepared: Prepared, source: Source, notifier: Notifier) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    LocalSet::new().block_on(&runtime, async {
        // A task of its own: what `block_on` itself waits for is polled at every wake-up of every session.
        let served = tokio::task::spawn_local(serve(prepared, source, notifier)).await;
        served.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    })
}

fn failed(error: std::io::Error) -> Stop {
    Stop::Failed(error.to_string())
}

async fn serve(prepared: Prepared, source: Source, notifier: Notifier) -> Result<(), Stop> {
    let mut children = signal(SignalKind::child()).map_err(failed)?;
    let Prepared { offer, reloader, audit, log } = prepared;
    let service = Service::new(offer, audit, notifier)?;
    let reaper = service.reaper.clone();
    tokio::task::spawn_local(async move {
        while children.recv().await.is_some() {
            reaper.reap();
        }
    });
    service.watch_hang_ups();
    match source {
        Source::One(connection) => {
            service.prove(&reloader).await?;
            let writer = service.audit.start_writer();
            writer.map_err(|error| Stop::Failed(format!("a thread for the audit: {error}")))?;
            if let Some(admitted) = service.admit(connection) {
                service.serve(admitted).await;
            }
            service.audit.finish();
            Ok(())
        }
        Source::Listener { listener, place, own } => {
            // First of all: until it is taken, a signal ends the service at once.
            let signals = Signals::take().map_err(failed)?;
            service.prove(&reloader).await?;
            // What many use may not wait for a reader of the log or for the audit's disk.
            log.start_writer()
                .and_then(|()| service.audit.start_writer())
                .map_err(|error| Stop::Failed(format!("a thread for the log: {error}")))?;
            let served = service.listen(listener, &place, own, signals, reloader).await;
            service.audit.finish();
            log.finish();
            served
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

impl Service {
    fn new(offer: Offer, audit: Audit, notifier: Notifier) -> Result<Rc<Self>, Stop> {
        let hang_ups = HangUps::new().map_err(|errno| Stop::Failed(format!("epoll: {errno}")))?;
        let orders = Orders { draining: false, limits: Rc::new(offer.limits.clone()) };
        Ok(Rc::new(Self {
            offer: RefCell::new(Rc::new(offer)),
            leases: Arc::default(),
            audit: Arc::new(audit),
            places: Arc::default(),
            turns: Turns::default(),
            reservations: Arc::default(),
            next_id: Cell::new(1),
            reaper: Rc::default(),
            hang_ups: Rc::new(spawn::register(hang_ups).map_err(failed)?),
            watched: RefCell::default(),
            orders: watch::Sender::new(orders),
            notifier,
        }))
    }

    fn offer(&self) -> Rc<Offer> {
        self.offer.borrow().clone()
    }

    async fn prove(self: &Rc<Self>, reloader: &Reloader) -> Result<(), Stop> {
        let offer = self.offer();
        offer.prove().await.map_err(Stop::NotEnforceable)?;
        for (profile, pool) in offer.profiles.iter().zip(&offer.pools) {
            let tried = self.start_recovery(None, profile, pool);
            let _ = tried.await;
        }
        tracing::info!(level = ?reloader.ground.level, "the jail holds; serving");
        Ok(())
    }

    async fn listen(
        self: &Rc<Self>,
        listener: std::os::unix::net::UnixListener,
        place: &Place,
        own: bool,
        signals: Signals,
        reloader: Reloader,
    ) -> Result<(), Stop> {
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = spawn::register(listener).map_err(failed)?;
        let Signals { mut terminate, mut interrupt, hang_up } = signals;
        let status = format!("serving, confinement: {:?}", reloader.ground.level);
        let reloading = tokio::task::spawn_local(self.clone().reload_at(hang_up, reloader));
        self.offer().refill();
        tracing::info!(socket = %place.path.display(), "listening");
        self.notifier.ready(&status).await;
        let mut reserve = host::open_null().ok();
        let mut sessions = JoinSet::new();
        let mut heartbeat = self.notifier.heartbeat();
        loop {
            tokio::select! {
                // Signals first: after SIGTERM the queued connections are left to the next process that has the socket.
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = heartbeat.tick() => self.notifier.alive(),
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
                Ok(mut ready) = listener.readable() => {
                    match self.accept_burst(listener.get_ref(), &mut sessions, &mut reserve) {
                        Ok(Queued::None) => ready.clear_ready(),
                        Ok(Queued::Some) => tokio::task::yield_now().await,
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
            // While we listen no successor takes the name, so it is ours that goes. It may lie where we may not remove it.
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
    ) -> std::io::Result<Queued> {
        for _ in 0..ACCEPT_BURST {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Some(admitted) = self.admit(stream.into()) {
                        let service = self.clone();
                        sessions.spawn_local(async move { service.serve(admitted).await });
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(Queued::None),
                Err(error) => {
                    if host::is_out_of_descriptors(&error) {
                        drop(reserve.take());
                        self.turn_away(listener);
                        *reserve = host::open_null().ok();
                    }
                    return Err(error);
                }
            }
        }
        Ok(Queued::Some)
    }

    async fn drain(&self, mut sessions: JoinSet<()>) {
        let connections = sessions.len();
        tracing::info!(connections, "stopping");
        self.notifier.stopping(&format!("finishing {connections} connections")).await;
        self.orders.send_modify(|orders| orders.draining = true);
        self.offer().close();
        let all = async { while sessions.join_next().await.is_some() {} };
        // Every session ends by itself within its grace and the time to reap; this only bounds a bug.
        let mut all = std::pin::pin!(tokio::time::timeout(serve::DRAIN_GRACE * 2, all));
        let mut heartbeat = self.notifier.heartbeat();
        loop {
            tokio::select! {
                _ = &mut all => return,
                () = heartbeat.tick() => self.notifier.alive(),
            }
        }
    }

    /// At every SIGHUP, one after the other.
    async fn reload_at(self: Rc<Self>, mut hang_up: Signal, mut reloader: Reloader) {
        while hang_up.recv().await.is_some() {
            self.notifier.reloading().await;
            let status = self.reload(&mut reloader).await;
            self.notifier.ready(&status).await;
        }
    }

    /// What has become of it, for the manager.
    async fn reload(&self, reloader: &mut Reloader) -> String {
        let audit = self.audit.clone();
        if let Err(reason) = aside(move || audit.reopen()).await.flatten() {
            tracing::error!(%reason, "the audit was not reopened");
        }
        match reloader.read().await {
            Ok(None) => {
                let status = "the audit was reopened; there is no policy file to reload";
                tracing::info!("{status}");
                status.into()
            }
            Ok(Some((policy, offer))) => {
                reloader.policy = policy;
                self.adopt(offer);
                tracing::info!("the policy was reloaded");
                "serving under a reloaded policy".into()
            }
            Err(reason) => {
                tracing::error!(%reason, "the policy was not reloaded; the old one stays");
                format!("the policy was not reloaded, the old one stays: {reason}")
            }
        }
    }

    /// New connections get the offer, those that are there its limits.
    fn adopt(&self, offer: Offer) {
        let limits = Rc::new(offer.limits.clone());
        offer.refill();
        self.offer.replace(Rc::new(offer)).close();
        self.orders.send_modify(|orders| orders.limits = limits);
    }

    /// Refuses a peer that has hung up, whose uid has too many connections, or that the policy does not serve. Costs a few system
    /// calls, because all other clients in the listening queue wait behind a flood of such peers.
    fn admit(&self, connection: OwnedFd) -> Option<Admitted> {
        let socket = connection.as_fd();
        if poll::is_hung_up(socket) {
            return None;
        }
        let peer = Peer::in_brief(socket).ok()?;
        let offer = self.offer();
        let most = u64::from(offer.limits.max_connections_per_uid);
        let is_full = self.places.is_full(peer.uid, most);
        let peer = if is_full { peer } else { Peer::of(socket).ok()? };
        let profile = peer.profile(&offer.peers);
        let roots = profile.map_or_else(Vec::new, |index| offer.profiles[index].root_names());
        let about = Connection { id: self.take_id(), peer, roots };
        let place = self.places.take(about.peer.uid, most);
        let (code, reason) = match (place, profile) {
            (Some(place), Some(index)) => match self.turns.ask(about.peer.uid) {
                Ok(turn) => return Some(Admitted { connection, about, offer, index, turn, _place: place }),
                Err(Full) => (Code::Busy, NO_TURN.into()),
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

    fn refuse(&self, about: &Connection, connection: OwnedFd, code: Code, reason: &str) {
        self.audit.refused(about, code, reason);
        peer::refuse(connection, code, reason);
    }

    async fn serve(self: &Rc<Self>, admitted: Admitted) {
        let id = admitted.about.id;
        self.serve_in_turn(admitted).await;
        self.watched.borrow_mut().remove(&id);
    }

    /// Waits until it is this connection's turn, takes a worker and serves. Takes no worker if the client hangs up or the
    /// service stops while it waits.
    async fn serve_in_turn(self: &Rc<Self>, admitted: Admitted) {
        let Admitted { connection, about, offer, index, turn, _place } = admitted;
        let hung_up = self.hang_up_of(about.id, connection.as_fd());
        let turn = tokio::select! {
            biased;
            turn = turn => turn,
            () = hung_up.notified() => return,
        };
        let Ok(turn) = turn else { return self.refuse(&about, connection, Code::Busy, NO_TURN) };
        if poll::is_hung_up(connection.as_fd()) || self.orders.borrow().draining {
            return;
        }
        let (profile, pool) = (&offer.profiles[index], &offer.pools[index]);
        let worker = match pool.take(turn.is_one_of_many()).await {
            Ok(worker) => worker,
            Err(reason) => {
                self.audit.refused(&about, Code::Io, &reason);
                let told = "no worker could be started; the service's log says why";
                return peer::refuse(connection, Code::Io, told);
            }
        };
        drop(turn);
        // The worker blocks on it. What an inetd hands over, or accept on macOS returns, may be non-blocking.
        if let Err(errno) = socket::set_nonblocking(&connection, false) {
            return self.audit.refused(&about, Code::Io, &errno.to_string());
        }
        self.audit.accepted(&about);
        let order = ToWorker::Connection { id: about.id };
        self.attend(about, (profile, pool), worker, &order, connection, None).await;
    }

    /// Notified when the client of this connection hangs up.
    fn hang_up_of(&self, id: u64, connection: BorrowedFd<'_>) -> Rc<Notify> {
        let mut watched = self.watched.borrow_mut();
        let new = || {
            // A connection that cannot be watched is still ended by its worker; only a stuck one would last longer.
            let _ = self.hang_ups.get_ref().watch(connection, id);
            Rc::default()
        };
        watched.entry(id).or_insert_with(new).clone()
    }

    /// Serves one connection to its end. `report`: the worker recovers and has no client. If the worker is lost, recovery runs
    /// before the client gets its error, because the client may reconnect and read at once.
    pub(super) async fn attend(
        self: &Rc<Self>,
        about: Connection,
        (profile, pool): (&Arc<Profile>, &Rc<Pool>),
        worker: spawn::Worker,
        order: &ToWorker,
        connection: OwnedFd,
        report: Option<oneshot::Sender<Vec<Left>>>,
    ) {
        let (id, serves) = (about.id, report.is_none());
        let hung_up = self.hang_up_of(id, connection.as_fd());
        let mut orders = self.orders.subscribe();
        // The service may have been told to stop, or have got new limits, while this connection waited for its worker.
        orders.mark_changed();
        let mut session = Session {
            profile: profile.clone(),
            leases: self.leases.clone(),
            audit: self.audit.clone(),
            about: Arc::new(about),
            limits: pool.blueprint.setup.limits.clone(),
            bounds: Arc::default(),
            reservations: self.reservations.clone(),
            threads: pool.blueprint.setup.threads,
            orders,
            hung_up,
            ended: self.reaper.watch(worker.pid),
            report,
        };
        let connection = Arc::new(connection);
        let mut over = session.run(worker, order, &connection).await;
        if serves && over.was_lost() {
            self.recover_from(id, over.not_reaped.take(), profile, pool).await;
        }
        session.close(over, connection).await;
        self.watched.borrow_mut().remove(&id);
    }

    fn watch_hang_ups(self: &Rc<Self>) {
        let service = self.clone();
        tokio::task::spawn_local(async move {
            while let Ok(mut ready) = service.hang_ups.readable().await {
                // Until there are no more: the loop is woken by the next one, not by those that are left.
                while let Ok(gone) = service.hang_ups.get_ref().take()
                    && !gone.is_empty()
                {
                    for id in gone {
                        if let Some(hung_up) = service.watched.borrow().get(&id) {
                            hung_up.notify_one();
                        }
                    }
                }
                ready.clear_ready();
            }
        });
    }

    /// Out of descriptors: with the spare one given up, the first client in the queue is taken off it and told. Otherwise
    /// the same client would wake us for ever.
    fn turn_away(&self, listener: &std::os::unix::net::UnixListener) {
        let Ok((stream, _)) = listener.accept() else { return };
        let Ok(peer) = Peer::in_brief(stream.as_fd()) else { return };
        let about = Connection { id: self.take_id(), peer, roots: Vec::new() };
        let reason = "the service has no descriptors left; try again later";
        self.refuse(&about, stream.into(), Code::Busy, reason);
    }

    pub(super) fn take_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }
}
