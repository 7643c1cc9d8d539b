//! Renders the results of `stockade policy` for users. Pure.

use super::{
    super::{
        columns::wrap_items,
        escape::escape_text,
        info::{format_with_unit, heading},
        output::{OutputStyle, Paint},
    },
    effective::{EffectivePolicy, PeerView, RootView},
    explain::{AccessVerdict, Explanation},
};
use crate::path::{Hardlinks, Mode, Symlinks};

pub(super) fn render_effective(policy: &EffectivePolicy, style: OutputStyle) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    let looked = if policy.looked_here { "good" } else { "good as a text; this machine was not looked at" };
    line(&format!("{} {}: {looked}", style.check_mark(true), escape_text(&policy.policy)));
    line(&section("Roots", style));
    for (index, root) in policy.roots.iter().enumerate() {
        line(&format!("  {}", root_line(root, index == 0)));
    }
    if policy.roots.is_empty() {
        line("  none; name them with --root");
    }
    line(&section("Denied names", style));
    line(&list(&policy.non_accessible_globs, "nothing is denied", style));
    line(&format!("  in listings: {}", if policy.list_denied == "show" { "shown and flagged" } else { "hidden" }));
    if !policy.non_accessible_except_globs.is_empty() {
        line("  except:");
        line(&list(&policy.non_accessible_except_globs, "", style));
    }
    line(&section("Protected names (readable, not writable)", style));
    line(&list(&policy.read_only_globs, "nothing is protected", style));
    if !policy.read_only_except_globs.is_empty() {
        line("  except:");
        line(&list(&policy.read_only_except_globs, "", style));
    }
    line(&section("Left out of tree and search by default", style));
    line(&list(&policy.default_exclude_globs, "nothing", style));
    line(&section("Who is served", style));
    for peer in &policy.peers {
        line(&format!("  {}", peer_line(peer, policy)));
    }
    if policy.peers.is_empty() {
        line("  only the user who runs the service");
    }
    line(&section("Service", style));
    for (label, value) in settings(policy) {
        line(&format!("  {label:12} {}", escape_text(&value)));
    }
    if !policy.limits.is_empty() {
        line(&section("Limits that are not the default", style));
        let width = policy.limits.keys().map(String::len).max().unwrap_or(0);
        for (name, limit) in &policy.limits {
            let (value, default) = (format_with_unit(name, limit.value), format_with_unit(name, limit.default));
            line(&format!("  {name:width$}  {value}  (default {default})"));
        }
    }
    if !policy.warnings.is_empty() {
        line(&section("Warnings", style));
        for warning in &policy.warnings {
            line(&format!("  {} {}", style.paint(Paint::Bad, "!"), escape_text(warning)));
        }
    }
    text
}

fn section(title: &str, style: OutputStyle) -> String {
    let mut text = String::new();
    heading(title, style, &mut text);
    text.trim_end().to_owned()
}

fn list(words: &[String], none: &str, style: OutputStyle) -> String {
    let words: Vec<String> = words.iter().map(|word| escape_text(word)).collect();
    match words.is_empty() {
        true => format!("  {none}"),
        false => wrap_items(words.iter().map(String::as_str), "  ", 2, style.columns).trim_end().to_owned(),
    }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Ro => "ro",
        Mode::Rw => "rw",
    }
}

/// `rw  /srv/project  (primary), links that stay inside are followed`
fn root_line(root: &RootView, is_primary: bool) -> String {
    let mut words = Vec::new();
    words.extend(is_primary.then(|| "primary".to_owned()));
    words.extend(root.given.as_ref().map(|given| format!("written as {}", escape_text(given))));
    words.extend((root.symlinks == Symlinks::Beneath).then(|| "follows links that stay inside".to_owned()));
    words.extend(root.cross_mounts.then(|| "crosses mount points".to_owned()));
    words.extend((root.hardlinks == Hardlinks::Refuse).then(|| "refuses files with several names".to_owned()));
    let notes = if words.is_empty() { String::new() } else { format!("  ({})", words.join("; ")) };
    format!("{}  {}{notes}", mode_word(root.mode), escape_text(&root.path))
}

fn peer_line(peer: &PeerView, policy: &EffectivePolicy) -> String {
    let same = |(path, mode): &(String, Mode)| policy.roots.iter().any(|root| root.path == *path && root.mode == *mode);
    let roots: Vec<String> =
        peer.roots.iter().map(|(path, mode)| format!("{} {}", mode_word(*mode), escape_text(path))).collect();
    let what = match () {
        () if peer.roots.is_empty() => "not served: none of its roots is there".to_owned(),
        () if peer.roots.len() == policy.roots.len() && peer.roots.iter().all(same) => "all roots".to_owned(),
        () => roots.join(", "),
    };
    format!("{}: {what}", escape_text(&peer.who))
}

fn settings(policy: &EffectivePolicy) -> Vec<(&'static str, String)> {
    let identity = match &policy.identity {
        Some(identity) => {
            format!("uid {} gid {} if root starts it ({})", identity.uid, identity.gid, identity.because)
        }
        None => policy.run_as.clone(),
    };
    let socket = match &policy.socket.group {
        Some(group) => format!("group {group}, mode {}", policy.socket.mode),
        None => format!("mode {}", policy.socket.mode),
    };
    let workers = &policy.workers;
    vec![
        ("confinement", format!("{}, Landlock ABI {} or newer", policy.confinement, policy.min_landlock_abi)),
        ("runs as", identity),
        ("durability", policy.durability.into()),
        ("audit", format!("{}, level {}", policy.audit.path, policy.audit.level)),
        ("socket", socket),
        (
            "workers",
            format!(
                "{} threads, {} warm per profile, at most {} each",
                workers.threads,
                workers.pool,
                format_with_unit("max_memory_bytes", workers.max_memory_bytes)
            ),
        ),
    ]
}

pub(super) fn render_explanation(found: &Explanation, style: OutputStyle) -> String {
    let mut text = format!("{}\n", style.paint(Paint::Bold, &escape_text(&found.path)));
    let mut line = |label: &str, value: &str| {
        text.push_str(&format!("  {label:9} {value}\n"));
    };
    if let Some(root) = &found.root {
        line("root", &root_line(root, found.is_primary));
    }
    line("there is", &escape_text(&found.there));
    line(
        "service",
        &format!(
            "uid {} gid {} if root starts it ({})",
            found.identity.uid, found.identity.gid, found.identity.because
        ),
    );
    for access in &found.access {
        line("", "");
        line("for", &style.paint(Paint::Bold, &escape_text(&access.who)));
        line("read", &verdict(&access.read, style));
        line("write", &verdict(&access.write, style));
    }
    text.replace("            \n", "\n")
}

/// `✗ C211 deny glob: "**/.env" …`
fn verdict(verdict: &AccessVerdict, style: OutputStyle) -> String {
    let code = verdict.code.map_or(String::new(), |code| format!("{code} "));
    format!("{} {code}{}: {}", style.check_mark(verdict.allowed), verdict.rule, escape_text(&verdict.why))
}
