//! The loop: accepts connections, finds them a worker, and ends in good order.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::unix::AsyncFd,
    net::UnixListener,
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
    peer::{self, Peer, Places},
    pool::{Pool, Reaper},
    reload::Reloader,
    serve::{self, Orders, Session},
    spawn,
    start::{Prepared, Source},
};
use crate::{
    broker::codec::ToWorker,
    sys::{host, poll::HangUps, socket},
    wire::Code,
};

/// After EMFILE with no descriptor to spare, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Service {
    /// What the next connection gets.
    offer: RefCell<Rc<Offer>>,
    pub(super) leases: Arc<Leases>,
    audit: Arc<Audit>,
    places: Places,
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
            service.serve(connection).await;
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
            places: Places::default(),
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
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        let Signals { mut terminate, mut interrupt, hang_up } = signals;
        let status = format!("serving, confinement: {:?}", reloader.ground.level);
        reloader.look_for_unused_globs();
        let reloading = tokio::task::spawn_local(self.clone().reload_at(hang_up, reloader));
        self.offer().refill();
        tracing::info!(socket = %place.path.display(), "listening");
        self.notifier.ready(&status).await;
        let mut reserve = host::open_null().ok();
        let mut sessions = JoinSet::new();
        let mut heartbeat = self.notifier.heartbeat();
        loop {
            tokio::select! {
                // In this order: once told to stop, what waits in the queue is left to whoever has the socket next.
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = heartbeat.tick() => self.notifier.alive(),
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
                accepted = listener.accept() => match accepted.and_then(|(stream, _)| stream.into_std()) {
                    Ok(stream) => {
                        let service = self.clone();
                        sessions.spawn_local(async move { service.serve(OwnedFd::from(stream)).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        if host::is_out_of_descriptors(&error) {
                            drop(reserve.take());
                            self.turn_away(&listener).await;
                            reserve = host::open_null().ok();
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
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
                reloader.look_for_unused_globs();
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

    async fn serve(self: &Rc<Self>, connection: OwnedFd) {
        let Ok(peer) = Peer::of(connection.as_fd()) else { return };
        let id = self.take_id();
        let offer = self.offer();
        let profile = peer.profile(&offer.peers);
        let roots = profile.map_or_else(Vec::new, |index| offer.profiles[index].root_names());
        let about = Connection { id, peer, roots };
        let Some(index) = profile else {
            let reason = "this user is not served; the operator names who is with [[peer]] in the policy";
            self.audit.refused(&about, Code::C211, reason);
            return peer::refuse(connection, Code::C211, reason);
        };
        let most = offer.limits.max_connections_per_uid;
        let Some(_place) = self.places.take(about.peer.uid, most) else {
            let reason = format!("{most} connections of this user are open; close one");
            self.audit.refused(&about, Code::C222, &reason);
            return peer::refuse(connection, Code::C222, &reason);
        };
        let (profile, pool) = (&offer.profiles[index], &offer.pools[index]);
        let worker = match pool.take().await {
            Ok(worker) => worker,
            Err(reason) => {
                self.audit.refused(&about, Code::C216, &reason);
                let told = "no worker could be started; the service's log says why";
                return peer::refuse(connection, Code::C216, told);
            }
        };
        // The worker blocks on it; a non-blocking file description would be shared with it.
        if let Err(errno) = socket::set_nonblocking(&connection, false) {
            return self.audit.refused(&about, Code::C216, &errno.to_string());
        }
        self.audit.accepted(&about);
        let order = ToWorker::Connection { id };
        self.attend(about, (profile, pool), worker, &order, connection, None).await;
    }

    /// Serves one connection to its end. `report`: its worker recovers and serves nobody. After a worker was lost, recovery
    /// comes first and the client is told then: it may reconnect and read at once.
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
        let hung_up = Rc::<Notify>::default();
        self.watched.borrow_mut().insert(id, hung_up.clone());
        // A connection that cannot be watched is still ended by its worker; only a stuck one would last longer.
        let _ = self.hang_ups.get_ref().watch(connection.as_fd(), id);
        let mut orders = self.orders.subscribe();
        // The service may have been told to stop, or have got new limits, while this connection waited for its worker.
        orders.mark_changed();
        let mut session = Session {
            profile: profile.clone(),
            leases: self.leases.clone(),
            audit: self.audit.clone(),
            about: Arc::new(about),
            limits: pool.blueprint.setup.limits.clone(),
            threads: pool.blueprint.setup.threads,
            orders,
            hung_up,
            ended: self.reaper.watch(worker.pid),
            report,
        };
        let mut over = session.run(worker, order, connection.as_fd()).await;
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
    /// the same client would wake us for ever. It may have gone meanwhile; nobody else waits for that.
    async fn turn_away(&self, listener: &UnixListener) {
        let accepted = tokio::time::timeout(ACCEPT_PAUSE, listener.accept()).await;
        let Some(stream) = accepted.ok().and_then(Result::ok).and_then(|(stream, _)| stream.into_std().ok())
        else {
            return;
        };
        let reason = "the service has no descriptors left; try again later";
        if let Ok(peer) = Peer::of(stream.as_fd()) {
            let about = Connection { id: self.take_id(), peer, roots: Vec::new() };
            self.audit.refused(&about, Code::C222, reason);
        }
        peer::refuse(stream.into(), Code::C222, reason);
    }

    pub(super) fn take_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }
}
