//! `stockade policy check`: whether a policy is valid, and its meaning with all defaults filled in.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Serialize;

use super::{
    super::{
        CommandResult,
        args::PolicyCheckArgs,
        failure::{CliFailure, EXIT_REFUSED},
        output::Output,
    },
    IdentityView, MachinePolicy, load_policy, print_result, render, start_refused,
};
use crate::{
    path::{Hardlinks, Mode, Root, Symlinks},
    policy::{
        AuditLevel, AuditPath, Durability, ListDeniedPolicy, Policy, PolicyError, PreparedRoot, RootEntry, RunAs,
        SearchBound, Starter, UnusedGlobs,
    },
    terms::Level,
    wire::Limits,
};

/// A small bound, because a user waits for the result.
const GLOB_SCAN_BOUND: SearchBound = SearchBound { names: 1_000_000, time: Duration::from_secs(10) };

pub(super) fn run(args: &PolicyCheckArgs, out: &mut Output<'_>) -> CommandResult {
    let mut starter = Starter::current();
    // Which users could have written the file does not matter if only its text is checked.
    starter.is_privileged &= !args.offline;
    let found = load_policy(&args.file, &starter).and_then(|policy| match args.offline {
        true => Ok(EffectivePolicy::from_text(&policy)),
        false => MachinePolicy::resolve(policy, &args.file)
            .map(|here| EffectivePolicy::from_machine(&here))
            .map_err(start_refused),
    });
    match found {
        Ok(effective) => {
            let style = out.style;
            print_result(&effective, out, |effective| render::render_effective(effective, style)).map(|()| 0)
        }
        Err(CliFailure::Policy(error, _)) if out.json => {
            let mistake = |error: &PolicyError| serde_json::json!({"place": error.position, "message": error.message});
            let mistakes: Vec<_> = std::iter::once(&error).chain(&error.further).map(mistake).collect();
            let wrong = serde_json::json!(
                {"valid": false, "place": error.position, "message": error.message, "mistakes": mistakes}
            );
            out.write_json_line(&wrong.to_string()).map(|()| EXIT_REFUSED)
        }
        // Prints each mistake on its own line, then the hints.
        Err(CliFailure::Policy(mut error, hint)) => {
            let further = std::mem::take(&mut error.further);
            let mistakes = std::iter::once(error).chain(further);
            let reported: Vec<CliFailure> =
                mistakes.map(|mistake| out.report_entry(CliFailure::Policy(mistake, hint))).collect();
            Ok(out.report_hints(&reported))
        }
        Err(failure) => Err(failure),
    }
}

/// All settings that a service would run with.
#[derive(Debug, Serialize)]
pub(super) struct EffectivePolicy {
    pub(super) valid: bool,
    pub(super) policy: String,
    /// False if only the text was checked, and not this machine.
    pub(super) looked_here: bool,
    pub(super) confinement: &'static str,
    pub(super) min_landlock_abi: u32,
    pub(super) run_as: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<IdentityView>,
    pub(super) durability: &'static str,
    pub(super) roots: Vec<RootView>,
    pub(super) non_accessible_globs: Vec<String>,
    pub(super) non_accessible_except_globs: Vec<String>,
    pub(super) read_only_globs: Vec<String>,
    pub(super) read_only_except_globs: Vec<String>,
    pub(super) list_denied: &'static str,
    pub(super) default_exclude_globs: Vec<String>,
    pub(super) peers: Vec<PeerView>,
    /// Only those that differ from their defaults.
    pub(super) limits: BTreeMap<String, LimitView>,
    pub(super) workers: WorkersView,
    pub(super) audit: AuditView,
    pub(super) socket: SocketView,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct RootView {
    pub(super) path: String,
    /// The path as the policy spells it, if that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) given: Option<String>,
    pub(super) mode: Mode,
    pub(super) symlinks: Symlinks,
    pub(super) cross_mounts: bool,
    pub(super) hardlinks: Hardlinks,
}

#[derive(Debug, Serialize)]
pub(super) struct PeerView {
    pub(super) who: String,
    /// Path and mode.
    pub(super) roots: Vec<(String, Mode)>,
}

#[derive(Debug, Serialize)]
pub(super) struct LimitView {
    pub(super) value: u64,
    pub(super) default: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkersView {
    pub(super) threads: u32,
    pub(super) pool: u32,
    pub(super) max_memory_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AuditView {
    pub(super) path: String,
    pub(super) level: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct SocketView {
    pub(super) group: Option<String>,
    pub(super) mode: String,
}

impl RootView {
    pub(super) fn from_prepared(prepared: &PreparedRoot) -> Self {
        let Root { path, mode, symlinks, cross_mounts, hardlinks, access_times: _ } = &prepared.root;
        Self {
            path: path.to_string_lossy().into_owned(),
            given: (prepared.written_path != *path).then(|| prepared.written_path.to_string_lossy().into_owned()),
            mode: *mode,
            symlinks: *symlinks,
            cross_mounts: *cross_mounts,
            hardlinks: *hardlinks,
        }
    }
}

impl EffectivePolicy {
    pub(super) fn from_text(policy: &Policy) -> Self {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let root = |entry: &RootEntry| RootView {
            path: shown(&entry.path),
            given: None,
            mode: entry.mode,
            symlinks: entry.symlinks,
            cross_mounts: entry.cross_mounts,
            hardlinks: entry.hardlinks,
        };
        Self {
            valid: true,
            policy: policy.source.clone(),
            looked_here: false,
            confinement: match policy.confinement {
                Level::Kernel => "kernel",
                Level::Userspace => "userspace",
            },
            min_landlock_abi: policy.min_landlock_abi,
            run_as: match &policy.run_as {
                RunAs::RootOwner => "root-owner".into(),
                RunAs::User(name) => format!("user:{name}"),
            },
            identity: None,
            durability: match policy.durability {
                Durability::Fsync => "fsync",
                Durability::None => "none",
            },
            roots: policy.roots.iter().map(root).collect(),
            non_accessible_globs: policy.deny.non_accessible_globs.clone(),
            non_accessible_except_globs: policy.deny.except_globs.clone(),
            read_only_globs: policy.protect.read_only_globs.clone(),
            read_only_except_globs: policy.protect.except_globs.clone(),
            list_denied: match policy.deny.list_denied {
                ListDeniedPolicy::Show => "show",
                ListDeniedPolicy::Hide => "hide",
            },
            default_exclude_globs: policy.exclude.default_exclude_globs.clone(),
            peers: peer_views(policy),
            limits: changed_limits(&policy.limits),
            workers: WorkersView {
                threads: policy.workers.threads,
                pool: policy.workers.pool,
                max_memory_bytes: policy.workers.max_memory_bytes,
            },
            audit: AuditView {
                path: match &policy.audit.path {
                    AuditPath::Stderr => "stderr".into(),
                    AuditPath::File(path) => shown(path),
                },
                level: match policy.audit.level {
                    AuditLevel::Denials => "denials",
                    AuditLevel::Decisions => "decisions",
                    AuditLevel::All => "all",
                },
            },
            socket: SocketView { group: policy.socket.group.clone(), mode: format!("{:04o}", policy.socket.mode) },
            warnings: text_warnings(policy),
        }
    }

    pub(super) fn from_machine(here: &MachinePolicy) -> Self {
        let mut effective = Self::from_text(&here.policy);
        effective.looked_here = true;
        effective.identity = Some(here.identity.clone());
        effective.roots = here.roots.iter().map(RootView::from_prepared).collect();
        effective.peers = here
            .profiles
            .iter()
            .map(|profile| PeerView {
                who: profile.peer.to_string(),
                roots: profile
                    .roots
                    .iter()
                    .map(|(index, mode)| (effective.roots[usize::from(*index)].path.clone(), *mode))
                    .collect(),
            })
            .collect();
        effective.warnings.extend(here.warnings.iter().cloned());
        effective.warnings.extend(unused_globs(here));
        effective
    }
}

fn unused_globs(here: &MachinePolicy) -> Vec<String> {
    match here.policy.unused_globs(&here.roots, GLOB_SCAN_BOUND) {
        UnusedGlobs::Known(globs) => globs
            .iter()
            .map(|glob| format!("deny glob \"{glob}\" matches nothing in any root; is it spelt as it is meant?"))
            .collect(),
        UnusedGlobs::Unknown(globs) => globs
            .iter()
            .map(|glob| {
                format!(
                    "deny glob \"{glob}\": whether it matches anything is not known; not all names could be looked at \
                     (at most {} names, {} s, folders that you may read)",
                    GLOB_SCAN_BOUND.names,
                    GLOB_SCAN_BOUND.time.as_secs()
                )
            })
            .collect(),
    }
}

/// Warnings about settings that are allowed but weaken the policy.
fn text_warnings(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    if policy.confinement == Level::Userspace {
        warnings.push("confinement = \"userspace\": no Landlock, no seccomp; only our own checks hold".into());
    }
    if policy.confinement == Level::Kernel && policy.min_landlock_abi < 3 {
        warnings
            .push("min_landlock_abi below 3: hostile code in a worker could empty files of a read-only root".into());
    }
    if policy.deny.non_accessible_globs.is_empty() {
        warnings.push("deny.non_accessible_globs is empty: every name in the roots can be read".into());
    }
    if policy.protect.read_only_globs.is_empty() {
        warnings.push(
            "protect.read_only_globs is empty: clients can write what your programs run, such as .git/hooks".into(),
        );
    }
    if policy.socket.group.is_some() && policy.peers.is_empty() {
        warnings
            .push("[socket] lets a group connect, but without a [[peer]] only the service's own user is served".into());
    }
    warnings
}

fn peer_views(policy: &Policy) -> Vec<PeerView> {
    use crate::policy::PeerName;
    let who = |name: &PeerName| match name {
        PeerName::Uid(uid) => format!("uid {uid}"),
        PeerName::User(user) => format!("user {user}"),
        PeerName::Gid(gid) => format!("gid {gid}"),
        PeerName::Group(group) => format!("group {group}"),
    };
    let roots = |peer: &crate::policy::PeerEntry| {
        let wanted = |entry: &&RootEntry| peer.roots.as_ref().is_none_or(|roots| roots.contains(&entry.path));
        let view = |entry: &RootEntry| {
            (entry.path.to_string_lossy().into_owned(), peer.mode.unwrap_or(entry.mode).min(entry.mode))
        };
        policy.roots.iter().filter(wanted).map(view).collect()
    };
    policy.peers.iter().map(|peer| PeerView { who: who(&peer.name), roots: roots(peer) }).collect()
}

fn changed_limits(limits: &Limits) -> BTreeMap<String, LimitView> {
    let numbers = |limits: &Limits| -> BTreeMap<String, u64> {
        let value = serde_json::to_value(limits).unwrap_or_default();
        let fields = value.as_object().into_iter().flatten();
        fields.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
    };
    let defaults = numbers(&Policy::embedded(&[]).limits);
    numbers(limits)
        .into_iter()
        .filter_map(|(name, value)| {
            let default = *defaults.get(&name)?;
            (value != default).then_some((name, LimitView { value, default }))
        })
        .collect()
}
