//! What a new connection gets, made from a policy and from what was opened at start.
//! Runs at start and at every reload. Trusts: the validated policy. Opens nothing.

use std::{os::fd::OwnedFd, path::PathBuf, rc::Rc, sync::Arc};

use super::{
    answer::Profile,
    pool::Pool,
    spawn::{Blueprint, Program},
};
use crate::{
    VERSION,
    broker::setup::Setup,
    path::{Denied, Root, RootNames},
    policy::{self, Durability, ListDenied, Policy, PreparedRoot},
    resolve::{self, Resolver, Stepwise},
    sys::user::Accounts,
    terms::{self, Enforced, Level, Limits},
};

/// What no reload changes: it was done before the supervisor confined itself.
#[derive(Debug)]
pub struct Ground {
    pub level: Level,
    pub landlock_abi: u32,
    pub uid: u32,
    pub accounts: Accounts,
    pub roots: Vec<PreparedRoot>,
    /// One each per entry of `roots`.
    pub opened: Vec<Arc<OwnedFd>>,
    /// Names inside `roots` that are optional roots and do not exist yet; see `PreparedRoots::absent`.
    pub absent: Vec<PathBuf>,
    /// Real paths that no client may touch even where a root holds them.
    pub own: Vec<PathBuf>,
    pub program: Rc<Program>,
    /// Whether an audit is written.
    pub audited: bool,
}

/// What a reload replaces, whole.
#[derive(Debug)]
pub struct Offer {
    pub peers: Vec<policy::Profile>,
    /// One each per entry of `peers`.
    pub profiles: Vec<Arc<Profile>>,
    pub pools: Vec<Rc<Pool>>,
    pub limits: Limits,
}

impl Ground {
    /// `warm`: workers per profile that wait for connections.
    pub fn offer(&self, policy: &Policy, peers: Vec<policy::Profile>, warm: usize) -> Result<Offer, String> {
        let mut offer =
            Offer { peers, profiles: Vec::new(), pools: Vec::new(), limits: policy.limits.clone() };
        for peer in &offer.peers {
            let roots: Vec<(Root, Arc<OwnedFd>)> = peer
                .roots
                .iter()
                .map(|(index, mode)| {
                    let index = usize::from(*index);
                    (Root { mode: *mode, ..self.roots[index].root.clone() }, self.opened[index].clone())
                })
                .collect();
            let table: Vec<Root> = roots.iter().map(|(root, _)| root.clone()).collect();
            let denied = self.denied(policy, &table)?;
            let resolver: Box<dyn Resolver + Send + Sync> = match self.level {
                Level::Kernel => resolve::kernel()?,
                Level::Userspace => Box::new(Stepwise),
            };
            let blueprint = Blueprint {
                program: self.program.clone(),
                setup: self.setup(policy, table, denied.clone(), resolver.kind()),
                roots: roots.iter().map(|(_, fd)| fd.clone()).collect(),
            };
            offer.pools.push(Pool::new(blueprint, warm));
            offer.profiles.push(Arc::new(Profile { roots, denied, resolver }));
        }
        Ok(offer)
    }

    fn denied(&self, policy: &Policy, roots: &[Root]) -> Result<Denied, String> {
        let present: Vec<PathBuf> = self.roots.iter().map(|root| root.root.path.clone()).collect();
        let names = RootNames { present: &present, absent: &self.absent };
        Denied::new(policy.globs()?, roots, &self.own, names)
            .map_err(|path| format!("{}: is our own and cannot be a root", path.display()))
    }

    fn setup(&self, policy: &Policy, roots: Vec<Root>, denied: Denied, resolver: terms::Resolver) -> Setup {
        Setup {
            version: VERSION.into(),
            enforced: Enforced {
                level: self.level,
                landlock_abi: (self.level == Level::Kernel).then_some(self.landlock_abi),
                resolver,
            },
            roots,
            denied,
            default_exclude_globs: policy.exclude.default_exclude_globs.clone(),
            hide_denied: policy.deny.list_denied == ListDenied::Hide,
            limits: policy.limits.clone(),
            threads: policy.workers.threads as usize,
            max_memory_bytes: policy.workers.max_memory_bytes,
            durable: policy.durability == Durability::Fsync,
            wire: policy.wire,
            trash: policy.trash.clone(),
            audited: self.audited,
            #[cfg(feature = "weakened")]
            weakened: {
                crate::sys::weakened::set(crate::sys::weakened::from_environment());
                crate::sys::weakened::get()
            },
            #[cfg(not(feature = "weakened"))]
            weakened: 0,
            #[cfg(feature = "weakened")]
            fault: std::env::var("STOCKADE_FAULT").unwrap_or_default(),
            #[cfg(not(feature = "weakened"))]
            fault: String::new(),
        }
    }
}

impl Offer {
    /// The first worker of every profile shows that the jail holds before anybody is served.
    pub async fn prove(&self) -> Result<(), String> {
        for pool in &self.pools {
            if let Err(reason) = pool.prove().await {
                self.close();
                return Err(reason);
            }
        }
        Ok(())
    }

    pub fn refill(&self) {
        for pool in &self.pools {
            pool.refill();
        }
    }

    /// Nobody new; who is served stays served.
    pub fn close(&self) {
        for pool in &self.pools {
            pool.close();
        }
    }
}
