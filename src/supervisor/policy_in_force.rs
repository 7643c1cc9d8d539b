//! What a new connection is served with: profiles and worker pools, made from a policy and from the descriptors opened at the
//! start. Runs at the start and at every reload. Trusts: the validated policy. Opens nothing.

use std::{os::fd::OwnedFd, path::PathBuf, rc::Rc, sync::Arc};

use super::{
    answer::ServedProfile,
    pool::WorkerPool,
    spawn::{WorkerBlueprint, WorkerProgram},
};
use crate::{
    VERSION,
    broker::setup::Setup,
    path::{Denied, Root, RootNames},
    policy::{self, Durability, ListDeniedPolicy, Policy, PreparedRoot},
    resolve::{self, PathResolver, StepwiseResolver},
    sys::user::Accounts,
    terms::{self, EnforcedConfinement, Level, Limits},
};

/// State that a reload cannot change, because it was made before the supervisor confined itself.
#[derive(Debug)]
pub struct StartState {
    pub level: Level,
    pub landlock_abi: u32,
    pub uid: u32,
    pub accounts: Accounts,
    pub roots: Vec<PreparedRoot>,
    /// One each per entry of `roots`.
    pub root_folders: Vec<Arc<OwnedFd>>,
    /// Names inside `roots` that are optional roots and do not exist yet; see `PreparedRoots::absent_roots`.
    pub absent_roots: Vec<PathBuf>,
    /// Real paths that no client may use, even if they are in a root.
    pub service_paths: Vec<PathBuf>,
    pub program: Rc<WorkerProgram>,
    /// True if the service writes an audit.
    pub is_audited: bool,
}

/// State that a reload replaces as a whole.
#[derive(Debug)]
pub struct PolicyInForce {
    pub policy_profiles: Vec<policy::PolicyProfile>,
    /// One each per entry of `policy_profiles`.
    pub profiles: Vec<Arc<ServedProfile>>,
    pub pools: Vec<Rc<WorkerPool>>,
    pub limits: Limits,
}

impl StartState {
    /// `warm`: workers per profile that wait for connections.
    pub fn build_policy_in_force(
        &self,
        policy: &Policy,
        peers: Vec<policy::PolicyProfile>,
        warm: usize,
    ) -> Result<PolicyInForce, String> {
        let mut offer = PolicyInForce {
            policy_profiles: peers,
            profiles: Vec::new(),
            pools: Vec::new(),
            limits: policy.limits.clone(),
        };
        for peer in &offer.policy_profiles {
            let roots: Vec<(Root, Arc<OwnedFd>)> = peer
                .roots
                .iter()
                .map(|(index, mode)| {
                    let index = usize::from(*index);
                    (Root { mode: *mode, ..self.roots[index].root.clone() }, self.root_folders[index].clone())
                })
                .collect();
            let table: Vec<Root> = roots.iter().map(|(root, _)| root.clone()).collect();
            let denied = self.build_denied(policy, &table)?;
            let resolver: Box<dyn PathResolver + Send + Sync> = match self.level {
                Level::Kernel => resolve::kernel_resolver()?,
                Level::Userspace => Box::new(StepwiseResolver),
            };
            let blueprint = WorkerBlueprint {
                program: self.program.clone(),
                setup: self.build_setup(policy, table, denied.clone(), resolver.kind()),
                roots: roots.iter().map(|(_, fd)| fd.clone()).collect(),
            };
            offer.pools.push(WorkerPool::new(blueprint, warm));
            offer.profiles.push(Arc::new(ServedProfile { roots, denied, resolver }));
        }
        Ok(offer)
    }

    fn build_denied(&self, policy: &Policy, roots: &[Root]) -> Result<Denied, String> {
        let present: Vec<PathBuf> = self.roots.iter().map(|root| root.root.path.clone()).collect();
        let names = RootNames { present: &present, absent: &self.absent_roots };
        Denied::new(policy.globs()?, roots, &self.service_paths, names)
            .map_err(|path| format!("{}: is our own and cannot be a root", path.display()))
    }

    fn build_setup(&self, policy: &Policy, roots: Vec<Root>, denied: Denied, resolver: terms::Resolver) -> Setup {
        Setup {
            version: VERSION.into(),
            enforced: EnforcedConfinement {
                level: self.level,
                landlock_abi: (self.level == Level::Kernel).then_some(self.landlock_abi),
                resolver,
            },
            roots,
            denied,
            default_exclude_globs: policy.exclude.default_exclude_globs.clone(),
            hide_denied: policy.deny.list_denied == ListDeniedPolicy::Hide,
            limits: policy.limits.clone(),
            threads: policy.workers.threads as usize,
            max_memory_bytes: policy.workers.max_memory_bytes,
            durable: policy.durability == Durability::Fsync,
            wire: policy.wire,
            trash: policy.trash.clone(),
            audited: self.is_audited,
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

impl PolicyInForce {
    /// Starts a worker of every profile, which shows that the jail holds before any client is served.
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

    /// Ends the warm workers. Connections that have a worker keep it.
    pub fn close(&self) {
        for pool in &self.pools {
            pool.close();
        }
    }
}
