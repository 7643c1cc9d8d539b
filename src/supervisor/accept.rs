//! The loop: accepts connections, finds them a worker, and ends in good order.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::unix::AsyncFd,
    net::UnixListener,
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
    task::LocalSet,
};

use super::{
    Stop,
    audit::{Audit, Connection},
    lease::Leases,
    peer::{self, Peer, Places},
    pool::{Pool, Reaper},
    serve::{self, Session},
    spawn,
    start::{Prepared, Source},
};
use crate::{
    broker::codec::ToWorker,
    policy,
    sys::{host, poll::HangUps, socket},
};

/// After EMFILE with no descriptor to spare, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

struct Service {
    peers: Vec<policy::Profile>,
    pools: Vec<Rc<Pool>>,
    profiles: Vec<Rc<super::answer::Profile>>,
    leases: Rc<Leases>,
    audit: Rc<Audit>,
    places: Places,
    max_connections_per_uid: u32,
    next_id: Cell<u64>,
    reaper: Rc<Reaper>,
    hang_ups: Rc<AsyncFd<HangUps>>,
    watched: RefCell<HashMap<u64, Rc<Notify>>>,
    draining: watch::Sender<bool>,
}

/// One thread for everything, and all workers are its children: the parent-death signal belongs to it.
pub fn run(prepared: Prepared, source: Source) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::Failed(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    LocalSet::new().block_on(&runtime, async {
        // A task of its own: what `block_on` itself waits for is polled at every wake-up of every session.
        let served = tokio::task::spawn_local(serve(prepared, source)).await;
        served.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    })
}

async fn serve(prepared: Prepared, source: Source) -> Result<(), Stop> {
    let mut children = signal(SignalKind::child()).map_err(|error| Stop::Failed(error.to_string()))?;
    let reaper = Rc::<Reaper>::default();
    let reaping = reaper.clone();
    tokio::task::spawn_local(async move {
        while children.recv().await.is_some() {
            reaping.reap();
        }
    });
    let level = prepared.level;
    // One connection needs one worker, the one that proves the jail.
    let warm = if matches!(source, Source::One(_)) { 0 } else { prepared.policy.workers.pool as usize };
    let service = Service::new(prepared, warm, reaper)?;
    service.prove().await?;
    tracing::info!(?level, "the jail holds; serving");
    service.watch_hang_ups();
    match source {
        Source::One(connection) => {
            service.serve(connection).await;
            Ok(())
        }
        Source::Listener { listener, path } => service.listen(listener, path).await,
    }
}

impl Service {
    fn new(prepared: Prepared, warm: usize, reaper: Rc<Reaper>) -> Result<Rc<Self>, Stop> {
        let hang_ups = HangUps::new().map_err(|errno| Stop::Failed(format!("epoll: {errno}")))?;
        Ok(Rc::new(Self {
            peers: prepared.peers,
            pools: prepared.blueprints.into_iter().map(|blueprint| Pool::new(blueprint, warm)).collect(),
            profiles: prepared.profiles,
            leases: Rc::default(),
            audit: Rc::new(prepared.audit),
            places: Places::default(),
            max_connections_per_uid: prepared.policy.limits.max_connections_per_uid,
            next_id: Cell::new(1),
            reaper,
            hang_ups: Rc::new(spawn::register(hang_ups).map_err(|error| Stop::Failed(error.to_string()))?),
            watched: RefCell::default(),
            draining: watch::Sender::new(false),
        }))
    }

    /// The first worker of every profile shows that the jail holds before anybody is served. Where killed workers left
    /// something, it puts that in order and ends.
    async fn prove(&self) -> Result<(), Stop> {
        for (index, pool) in self.pools.iter().enumerate() {
            let worker = pool.prove().await.map_err(Stop::NotEnforceable)?;
            if self.profiles[index].has_unfinished() {
                self.recover(index, worker).await;
            } else {
                pool.put(worker);
            }
        }
        Ok(())
    }

    /// In the place of a client: one of our own making, who says nothing.
    async fn recover(&self, index: usize, worker: spawn::Worker) {
        let Ok((ours, theirs)) = std::os::unix::net::UnixStream::pair() else { return };
        let Ok(peer) = Peer::of(ours.as_fd()) else { return };
        let about = Connection { id: self.next_id(), peer, roots: self.profiles[index].root_names() };
        tracing::info!(connection = about.id, "putting in order what a lost worker left");
        self.attend(about, index, worker, &ToWorker::Recover, theirs.into()).await;
    }

    fn next_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    async fn listen(
        self: &Rc<Self>,
        listener: std::os::unix::net::UnixListener,
        path: PathBuf,
    ) -> Result<(), Stop> {
        let failed = |error: std::io::Error| Stop::Failed(error.to_string());
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        for pool in &self.pools {
            pool.refill();
        }
        tracing::info!(socket = %path.display(), "listening");
        let mut reserve = host::open_null().ok();
        let mut sessions = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted.and_then(|(stream, _)| stream.into_std()) {
                    Ok(stream) => {
                        let service = self.clone();
                        sessions.spawn_local(async move { service.serve(OwnedFd::from(stream)).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        if host::is_out_of_descriptors(&error) {
                            drop(reserve.take());
                            turn_away(&listener).await;
                            reserve = host::open_null().ok();
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        // While we listen no successor takes the name, so it is ours that goes. It may lie where we may not remove it.
        let _ = host::remove(&path);
        drop(listener);
        self.drain(sessions).await;
        Ok(())
    }

    async fn drain(&self, mut sessions: tokio::task::JoinSet<()>) {
        tracing::info!(connections = sessions.len(), "stopping");
        self.draining.send_replace(true);
        for pool in &self.pools {
            pool.close();
        }
        let all = async { while sessions.join_next().await.is_some() {} };
        // Every session ends by itself within its grace and the time to reap; this only bounds a bug.
        let _ = tokio::time::timeout(serve::DRAIN_GRACE * 2, all).await;
    }

    async fn serve(self: &Rc<Self>, connection: OwnedFd) {
        let Ok(peer) = Peer::of(connection.as_fd()) else { return };
        let id = self.next_id();
        let profile = peer.profile(&self.peers);
        let roots = profile.map_or_else(Vec::new, |index| self.profiles[index].root_names());
        let about = Connection { id, peer, roots };
        let Some(index) = profile else {
            let reason = "this user is not served; the operator names who is with [[peer]] in the policy";
            self.audit.refused(&about, reason);
            return peer::refuse(connection, "C211", reason);
        };
        let Some(_place) = self.places.take(about.peer.uid, self.max_connections_per_uid) else {
            let reason =
                format!("{} connections of this user are open; close one", self.max_connections_per_uid);
            self.audit.refused(&about, &reason);
            return peer::refuse(connection, "C222", &reason);
        };
        let worker = match self.pools[index].take().await {
            Ok(worker) => worker,
            Err(reason) => {
                self.audit.refused(&about, &reason);
                return peer::refuse(
                    connection,
                    "C216",
                    "no worker could be started; the service's log says why",
                );
            }
        };
        // The worker blocks on it; a non-blocking file description would be shared with it.
        if socket::set_nonblocking(&connection, false).is_err() {
            return;
        }
        self.audit.connected(&about);
        let was_lost = self.attend(about, index, worker, &ToWorker::Connection { id }, connection).await;
        if was_lost
            && self.profiles[index].has_unfinished()
            && let Ok(worker) = self.pools[index].take().await
        {
            self.recover(index, worker).await;
        }
    }

    async fn attend(
        &self,
        about: Connection,
        index: usize,
        worker: spawn::Worker,
        order: &ToWorker,
        connection: OwnedFd,
    ) -> bool {
        let id = about.id;
        let hung_up = Rc::<Notify>::default();
        self.watched.borrow_mut().insert(id, hung_up.clone());
        // A connection that cannot be watched is still ended by its worker; only a stuck one would last longer.
        let _ = self.hang_ups.get_ref().watch(connection.as_fd(), id);
        let mut draining = self.draining.subscribe();
        if *draining.borrow() {
            // The service began to stop while this connection waited for its worker.
            draining.mark_changed();
        }
        let session = Session {
            id,
            profile: self.profiles[index].clone(),
            leases: self.leases.clone(),
            audit: self.audit.clone(),
            about,
            draining,
            hung_up,
            ended: self.reaper.watch(worker.pid),
            unseen: Rc::default(),
            waiting: tokio::task::JoinSet::new(),
        };
        let was_lost = session.run(worker, order, connection).await;
        self.watched.borrow_mut().remove(&id);
        was_lost
    }

    fn watch_hang_ups(self: &Rc<Self>) {
        let service = self.clone();
        tokio::task::spawn_local(async move {
            while let Ok(mut ready) = service.hang_ups.readable().await {
                for id in service.hang_ups.get_ref().take().unwrap_or_default() {
                    if let Some(hung_up) = service.watched.borrow().get(&id) {
                        hung_up.notify_one();
                    }
                }
                ready.clear_ready();
            }
        });
    }
}

/// Out of descriptors: with the spare one given up, the first client in the queue is taken off it and told. Otherwise
/// the same client would wake us for ever. It may have gone meanwhile; nobody else waits for that.
async fn turn_away(listener: &UnixListener) {
    let accepted = tokio::time::timeout(ACCEPT_PAUSE, listener.accept()).await;
    if let Ok(Ok((stream, _))) = accepted
        && let Ok(stream) = stream.into_std()
    {
        peer::refuse(stream.into(), "C222", "the service has no descriptors left; try again later");
    }
}
