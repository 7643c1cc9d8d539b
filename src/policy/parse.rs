//! What each key of a policy means, and what it may hold.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::{
    Audit, AuditLevel, AuditPath, Confinement, Deny, Durability, ListDenied, Policy, Protect, RootEntry,
    RunAs, Socket, Workers,
    error::PolicyError,
    peers::{Peer, PeerName},
    reader::{Document, Field, Section},
};
use crate::{
    path::{DenyGlobs, Hardlinks, Mode, ProtectGlobs, Symlinks},
    terms::{Limits, Wire},
};

const TOP: &[&str] = &[
    "confinement",
    "min_landlock_abi",
    "run_as",
    "durability",
    "wire_compat",
    "root",
    "deny",
    "protect",
    "exclude",
    "limits",
    "workers",
    "trash",
    "audit",
    "socket",
    "peer",
];
const ROOT: &[&str] = &[
    "path",
    "mode",
    "symlinks",
    "cross_mounts",
    "hardlinks",
    "optional",
    "allow_nested",
    "allow_world_writable",
    "allow_casefold",
];
const DENY: &[&str] = &["non_accessible_globs", "except_globs", "list_denied"];
const PROTECT: &[&str] = &["read_only_globs", "except_globs"];
const EXCLUDE: &[&str] = &["default_exclude_globs"];
const WORKERS: &[&str] = &["threads", "pool", "max_memory_bytes"];
const TRASH: &[&str] = &["enabled", "default", "max_bytes"];
const AUDIT: &[&str] = &["path", "level"];
const SOCKET: &[&str] = &["group", "mode"];
const PEER: &[&str] = &["uid", "user", "gid", "group", "roots", "mode"];

const MODES: &[(&str, Mode)] = &[("ro", Mode::Ro), ("rw", Mode::Rw)];

/// Landlock can restrict renames between folders from 2 on; 16 is beyond what any kernel offers.
const LANDLOCK_ABIS: std::ops::RangeInclusive<u64> = 2..=16;
/// (uid_t)-1 means "no change" to the kernel and names nobody.
const IDS: std::ops::RangeInclusive<u64> = 0..=u32::MAX as u64 - 1;
/// What a socket without a group has: its owner alone connects.
const PRIVATE_SOCKET: u32 = 0o600;
const MEBIBYTE: u64 = 1 << 20;
const TEBIBYTE: u64 = 1 << 40;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

type Parsed<T> = Result<T, PolicyError>;

pub(super) fn policy(text: &str, source: &str) -> Parsed<Policy> {
    let document = Document { text, source };
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(source.to_string(), |span| document.place(span));
        PolicyError::new(place, error.message())
    })?;
    let top = Section::top(document, &table, TOP)?;
    let mut policy = Policy { source: source.into(), ..Policy::embedded(&[]) };
    read_top(&top, &mut policy)?;
    policy.roots = top.sections("root", ROOT)?.iter().map(root).collect::<Parsed<_>>()?;
    if let Some(section) = top.section("deny", DENY)? {
        policy.deny = deny(&section, policy.deny)?;
    }
    if let Some(section) = top.section("protect", PROTECT)? {
        policy.protect = protect(&section, policy.protect)?;
    }
    if let Some(section) = top.section("exclude", EXCLUDE)?
        && let Some(globs) = section.texts("default_exclude_globs")?
    {
        policy.default_exclude_globs = globs.iter().map(exclude_glob).collect::<Parsed<_>>()?;
    }
    policy.limits = limits(&top)?;
    if let Some(section) = top.section("workers", WORKERS)? {
        workers(&section, &mut policy.workers)?;
    }
    if let Some(section) = top.section("trash", TRASH)? {
        set(&mut policy.trash.enabled, section.flag("enabled")?);
        set(&mut policy.trash.default, section.flag("default")?);
        set(&mut policy.trash.max_bytes, section.number("max_bytes", 1..=TEBIBYTE)?);
        if policy.trash.default && !policy.trash.enabled {
            return Err(section.error("`default` is true although the trash is not enabled"));
        }
    }
    if let Some(section) = top.section("audit", AUDIT)? {
        audit(&section, &mut policy.audit)?;
    }
    if let Some(section) = top.section("socket", SOCKET)? {
        policy.socket = socket(&section)?;
    }
    policy.peers = top.sections("peer", PEER)?.iter().map(peer).collect::<Parsed<_>>()?;
    Ok(policy)
}

fn read_top(top: &Section<'_>, policy: &mut Policy) -> Parsed<()> {
    let confinements = [("kernel", Confinement::Kernel), ("userspace", Confinement::Userspace)];
    set(&mut policy.confinement, top.choice("confinement", &confinements)?);
    let abi = top.number("min_landlock_abi", LANDLOCK_ABIS)?;
    set(&mut policy.min_landlock_abi, abi.map(|abi| abi as u32));
    let durabilities = [("fsync", Durability::Fsync), ("none", Durability::None)];
    set(&mut policy.durability, top.choice("durability", &durabilities)?);
    if let Some(run_as) = top.text("run_as")? {
        policy.run_as = match (run_as.value, run_as.value.strip_prefix("user:")) {
            ("root-owner", _) => RunAs::RootOwner,
            (_, Some(name)) if !name.is_empty() => RunAs::User(name.into()),
            ("peer", _) => return Err(run_as.error("\"peer\" is not supported by this version")),
            _ => {
                let what =
                    format!("\"{}\" is not allowed; allowed: \"root-owner\", \"user:NAME\"", run_as.value);
                return Err(run_as.error(what));
            }
        };
    }
    set(&mut policy.wire, top.choice("wire_compat", &[("current", Wire::Current), ("0.2", Wire::V02)])?);
    Ok(())
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn root(section: &Section<'_>) -> Parsed<RootEntry> {
    let path = section.text("path")?.ok_or_else(|| section.error("`path` is missing"))?;
    let links = [("refuse", Symlinks::Refuse), ("beneath", Symlinks::Beneath)];
    let hardlinks = [("allow", Hardlinks::Allow), ("refuse", Hardlinks::Refuse)];
    Ok(RootEntry {
        path: absolute(&path)?,
        mode: section.choice("mode", MODES)?.unwrap_or(Mode::Rw),
        symlinks: section.choice("symlinks", &links)?.unwrap_or(Symlinks::Refuse),
        cross_mounts: section.flag("cross_mounts")?.unwrap_or(false),
        hardlinks: section.choice("hardlinks", &hardlinks)?.unwrap_or(Hardlinks::Allow),
        optional: section.flag("optional")?.unwrap_or(false),
        allow_nested: section.flag("allow_nested")?.unwrap_or(false),
        allow_world_writable: section.flag("allow_world_writable")?.unwrap_or(false),
        allow_casefold: section.flag("allow_casefold")?.unwrap_or(false),
        origin: section.place(),
    })
}

/// A daemon's working directory is nobody's intention.
fn absolute(field: &Field<'_, '_, &str>) -> Parsed<PathBuf> {
    match Path::new(field.value) {
        path if path.is_absolute() && !field.value.contains('\0') => Ok(path.into()),
        _ => Err(field.error(format!("\"{}\" is not an absolute path", field.value))),
    }
}

fn deny(section: &Section<'_>, default: Deny) -> Parsed<Deny> {
    let words = [("show", ListDenied::Show), ("hide", ListDenied::Hide)];
    let list_denied = section.choice("list_denied", &words)?.unwrap_or(default.list_denied);
    let non_accessible_globs =
        globs(section, "non_accessible_globs")?.unwrap_or(default.non_accessible_globs);
    let except_globs = globs(section, "except_globs")?.unwrap_or(default.except_globs);
    // All together may be too many even when each is good.
    DenyGlobs::new(&non_accessible_globs, &except_globs).map_err(|(_, what)| section.error(&what))?;
    Ok(Deny { non_accessible_globs, except_globs, list_denied })
}

fn protect(section: &Section<'_>, default: Protect) -> Parsed<Protect> {
    let read_only_globs = globs(section, "read_only_globs")?.unwrap_or(default.read_only_globs);
    let except_globs = globs(section, "except_globs")?.unwrap_or(default.except_globs);
    ProtectGlobs::new(&read_only_globs, &except_globs).map_err(|(_, what)| section.error(&what))?;
    Ok(Protect { read_only_globs, except_globs })
}

/// Globs over paths below a root, each checked by itself.
fn globs(section: &Section<'_>, key: &str) -> Parsed<Option<Vec<String>>> {
    let Some(globs) = section.texts(key)? else { return Ok(None) };
    for glob in &globs {
        DenyGlobs::new(&[glob.value.into()], &[]).map_err(|(_, what)| bad_glob(glob, &what))?;
    }
    Ok(Some(globs.iter().map(|glob| glob.value.into()).collect()))
}

fn exclude_glob(glob: &Field<'_, '_, &str>) -> Parsed<String> {
    globset::Glob::new(glob.value).map_err(|error| bad_glob(glob, &error.kind().to_string()))?;
    Ok(glob.value.into())
}

fn bad_glob(glob: &Field<'_, '_, &str>, what: &str) -> PolicyError {
    glob.error(format!("\"{}\": {what}", glob.value))
}

/// Keys and types are those of `Limits`; a limit that is added there is known here.
fn limits(top: &Section<'_>) -> Parsed<Limits> {
    let unexpected = |error| PolicyError::new(top.place(), format!("limits: {error}"));
    let mut values = match serde_json::to_value(Limits::default()).map_err(unexpected)? {
        serde_json::Value::Object(values) => values,
        other => return Err(PolicyError::new(top.place(), format!("limits: not a table but {other}"))),
    };
    let names: Vec<String> = values.keys().cloned().collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(section) = top.section("limits", &known)? else { return Ok(Limits::default()) };
    for name in &known {
        if let Some(value) = section.number(name, limit_range(name))? {
            values[*name] = value.into();
        }
    }
    let limits: Limits = serde_json::from_value(values.into()).map_err(unexpected)?;
    for (small, large, pair) in [
        (
            u64::from(limits.list_default_page_size),
            u64::from(limits.list_max_page_size),
            "list_default_page_size is above list_max_page_size",
        ),
        (limits.call_timeout_ms, limits.call_timeout_max_ms, "call_timeout_ms is above call_timeout_max_ms"),
        (
            limits.max_frame_bytes,
            limits.max_frame_bytes_per_uid,
            "max_frame_bytes is above max_frame_bytes_per_uid",
        ),
    ] {
        if small > large {
            return Err(section.error(&format!("{pair} ({small} > {large})")));
        }
    }
    Ok(limits)
}

/// By the unit in the name. Zero would switch a function off in a way no error text explains, except for a depth.
fn limit_range(name: &str) -> std::ops::RangeInclusive<u64> {
    match name {
        "tree_default_depth" => 0..=4096,
        // A level of a tree takes two of JSON's, and ordinary parsers stop at 128.
        "tree_max_depth" => 1..=60,
        // A frame has to hold an ordinary call.
        "max_frame_bytes" => 65_536..=4096 * MEBIBYTE,
        // Reserved in steps of 1 MiB.
        "max_frame_bytes_per_uid" => MEBIBYTE..=TEBIBYTE,
        // Held in 32 bits.
        "search_default_max_line_bytes" => 1..=1024 * MEBIBYTE,
        name if name.ends_with("_ms") => 1..=DAY_MS,
        name if name.ends_with("_bytes") || name.ends_with("_buffer") => 1..=TEBIBYTE,
        _ => 1..=1_000_000_000,
    }
}

fn workers(section: &Section<'_>, workers: &mut Workers) -> Parsed<()> {
    set(&mut workers.threads, section.number("threads", 2..=64)?.map(|threads| threads as u32));
    set(&mut workers.pool, section.number("pool", 0..=64)?.map(|pool| pool as u32));
    set(&mut workers.max_memory_bytes, section.number("max_memory_bytes", 64 * MEBIBYTE..=TEBIBYTE)?);
    Ok(())
}

fn audit(section: &Section<'_>, audit: &mut Audit) -> Parsed<()> {
    if let Some(path) = section.text("path")? {
        audit.path = match path.value {
            "stderr" => AuditPath::Stderr,
            _ => AuditPath::File(absolute(&path)?),
        };
    }
    let levels =
        [("denials", AuditLevel::Denials), ("decisions", AuditLevel::Decisions), ("all", AuditLevel::All)];
    set(&mut audit.level, section.choice("level", &levels)?);
    Ok(())
}

/// 0600, or 0660 for a group, unless the mode is given.
fn socket(section: &Section<'_>) -> Parsed<Socket> {
    let group = section.text("group")?.map(|group| name(&group)).transpose()?;
    let mode = match section.text("mode")? {
        Some(field) => {
            let digits = field.value.strip_prefix('0').filter(|digits| digits.len() == 3);
            let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
            let mode = mode.filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600).ok_or_else(|| {
                field.error(format!(
                    "\"{}\" is not allowed; allowed: octal \"0600\" to \"0666\", no execute bits",
                    field.value
                ))
            })?;
            if mode != PRIVATE_SOCKET && group.is_none() {
                return Err(field.error("others may connect only together with a `group` for the socket"));
            }
            mode
        }
        None if group.is_some() => 0o660,
        None => PRIVATE_SOCKET,
    };
    Ok(Socket { group, mode })
}

fn peer(section: &Section<'_>) -> Parsed<Peer> {
    let mut names = Vec::new();
    names.extend(section.number("uid", IDS)?.map(|uid| PeerName::Uid(uid as u32)));
    names.extend(section.text("user")?.map(|user| name(&user)).transpose()?.map(PeerName::User));
    names.extend(section.number("gid", IDS)?.map(|gid| PeerName::Gid(gid as u32)));
    names.extend(section.text("group")?.map(|group| name(&group)).transpose()?.map(PeerName::Group));
    if names.len() != 1 {
        return Err(section.error("say exactly one of `uid`, `user`, `gid`, `group`"));
    }
    let roots = match section.texts("roots")? {
        Some(roots) if roots.is_empty() => {
            return Err(section.error("`roots` is empty; leave it out to mean all roots"));
        }
        Some(roots) => Some(roots.iter().map(absolute).collect::<Parsed<_>>()?),
        None => None,
    };
    let mode = section.choice("mode", MODES)?;
    Ok(Peer { name: names.remove(0), roots, mode, origin: section.place() })
}

fn name(field: &Field<'_, '_, &str>) -> Parsed<String> {
    if field.value.is_empty() || field.value.contains(['\0', ':', '\n']) {
        return Err(field.error("a name is expected"));
    }
    Ok(field.value.into())
}
