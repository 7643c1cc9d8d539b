//! `stockade info`: what a service allows and which layers enforce it, for users.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    CallSession, CommandResult,
    columns::wrap_items,
    escape::escape_text,
    failure::unexpected_result,
    output::{Output, OutputStyle, Paint},
    paths::display_path,
    units::human_size,
};

const METHOD: &str = "coder::info";

/// `audit` is the file that this command's own supervisor writes to, if it does.
pub(super) fn run(audit: Option<&Path>, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    let reply = session.call(METHOD, "{}")?;
    if out.json {
        return out.write_json_line(reply.get()).map(|()| 0);
    }
    let info: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    out.write_text(&render(&info, audit, out.style)).map(|()| 0)
}

/// Shows the fields that exist and skips missing ones, so that older and newer services work with the same command.
fn render(info: &Value, audit: Option<&Path>, style: OutputStyle) -> String {
    let mut text = String::new();
    let name = info["server"]["name"].as_str().unwrap_or("stockade");
    let version = info["server"]["version"].as_str().or(info["version"].as_str()).unwrap_or("?");
    text.push_str(&format!("{} {}\n", style.paint(Paint::Bold, &escape_text(name)), escape_text(version)));
    render_roots(info, style, &mut text);
    render_confinement(&info["confinement"], style, &mut text);
    render_audit(&info["audit"], audit, style, &mut text);
    render_globs(info, style, &mut text);
    render_limits(info.as_object(), style, &mut text);
    render_functions(&info["functions"], style, &mut text);
    text
}

pub(super) fn heading(title: &str, style: OutputStyle, text: &mut String) {
    text.push_str(&format!("\n{}\n", style.paint(Paint::Bold, title)));
}

fn render_roots(info: &Value, style: OutputStyle, text: &mut String) {
    heading("Roots", style, text);
    let primary = info["primary_root"].as_str();
    let line = |path: &str, words: Vec<String>| {
        let primary = if Some(path) == primary { "  (primary)" } else { "" };
        format!("  {}  {}{primary}\n", words.join(", "), escape_text(path))
    };
    match info["roots"].as_array() {
        Some(roots) => roots.iter().for_each(|root| {
            let mut words = vec![escaped_string(&root["mode"]).unwrap_or_else(|| "?".into())];
            words.extend(escaped_string(&root["symlinks"]).map(|rule| format!("links {rule}")));
            words.extend((root["cross_mounts"] == true).then(|| "crosses mounts".into()));
            words.extend((root["access_times"] == "kept").then(|| "reads change no access times".into()));
            text.push_str(&line(root["path"].as_str().unwrap_or("?"), words));
        }),
        None => string_items(&info["base_paths"]).for_each(|path| text.push_str(&line(path, Vec::new()))),
    }
}

fn render_confinement(confinement: &Value, style: OutputStyle, text: &mut String) {
    let Some(level) = escaped_string(&confinement["level"]) else { return };
    heading("Confinement", style, text);
    // Every level but the kernel's is a downgrade, which the user must not miss.
    let paint = if level == "kernel" { Paint::Good } else { Paint::Bad };
    text.push_str(&format!("  level     {}\n", style.paint(paint, &level)));
    for (label, key) in [("resolver", "resolver"), ("landlock", "landlock_abi"), ("kernel", "kernel")] {
        let value = match &confinement[key] {
            Value::Null => continue,
            Value::Number(number) => format!("ABI {number}"),
            other => escaped_string(other).unwrap_or_else(|| escape_text(&other.to_string())),
        };
        text.push_str(&format!("  {label:9} {value}\n"));
    }
    text.push_str(&render_layers(confinement, style));
}

/// `reading outside the roots  openat2, landlock`, aligned; then what stays open.
pub(super) fn render_layers(confinement: &Value, style: OutputStyle) -> String {
    let layers = confinement["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let closes = |layer: &Value| escaped_string(&layer["closes"]).unwrap_or_else(|| "?".into());
    let width = layers.iter().map(|layer| closes(layer).chars().count()).max().unwrap_or(0);
    let line = |layer: &Value| {
        let by: Vec<String> = string_items(&layer["by"]).map(escape_text).collect();
        format!("  {:width$}  {}\n", closes(layer), by.join(", "))
    };
    let open = string_items(&confinement["limitations"]).map(|open| {
        let open = wrap_items(escape_text(open).split(' '), " ", 4, style.columns);
        format!("  {} {}", style.check_mark(false), open.trim_start())
    });
    layers.iter().map(line).chain(open).collect()
}

fn render_audit(state: &Value, file: Option<&Path>, style: OutputStyle, text: &mut String) {
    let Some(state) = escaped_string(state) else { return };
    heading("Audit", style, text);
    let file = file.filter(|_| state == "on").map(|file| format!("  {}", display_path(file.as_os_str())));
    text.push_str(&format!("  {state}{}\n", file.unwrap_or_default()));
}

fn render_globs(info: &Value, style: OutputStyle, text: &mut String) {
    for (title, key) in [
        ("Denied", "non_accessible_globs"),
        ("Denied, except", "non_accessible_except_globs"),
        ("Protected (readable, not writable)", "read_only_globs"),
        ("Protected, except", "read_only_except_globs"),
        ("Skipped by default", "default_exclude_globs"),
    ] {
        let globs: Vec<String> = string_items(&info[key]).map(escape_text).collect();
        if !globs.is_empty() {
            heading(title, style, text);
            text.push_str(&wrap_items(globs.iter().map(String::as_str), "  ", 2, style.columns));
        }
    }
}

fn render_limits(info: Option<&Map<String, Value>>, style: OutputStyle, text: &mut String) {
    let nested = info.and_then(|info| info.get("limits")).and_then(Value::as_object);
    let limits: Vec<(&String, u64)> = [info, nested]
        .into_iter()
        .flatten()
        .flat_map(|fields| fields.iter().filter_map(|(name, value)| Some((name, value.as_u64()?))))
        .collect();
    let width = limits.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    if !limits.is_empty() {
        heading("Limits", style, text);
    }
    for (name, value) in limits {
        text.push_str(&format!("  {:width$}  {}\n", escape_text(name), format_with_unit(name, value)));
    }
}

/// The name contains the unit.
pub(super) fn format_with_unit(name: &str, value: u64) -> String {
    match value {
        bytes if (name.contains("_bytes") || name.ends_with("_buffer")) && bytes >= 1024 => {
            format!("{}iB", human_size(bytes))
        }
        ms if name.ends_with("_ms") && ms >= 1000 && ms % 1000 == 0 => format!("{} s", ms / 1000),
        plain => plain.to_string(),
    }
}

fn render_functions(functions: &Value, style: OutputStyle, text: &mut String) {
    let Some(functions) = functions.as_array().filter(|functions| !functions.is_empty()) else { return };
    heading("Functions", style, text);
    let name = |function| escaped_string(function).unwrap_or_else(|| "?".into());
    let names: Vec<String> = functions.iter().map(name).collect();
    match style.columns {
        Some(_) => text.push_str(&wrap_items(names.iter().map(String::as_str), "  ", 2, style.columns)),
        // A program gets one name per line.
        None => names.iter().for_each(|name| text.push_str(&format!("  {name}\n"))),
    }
}

/// A text of the service, escaped for a terminal.
pub(super) fn escaped_string(value: &Value) -> Option<String> {
    value.as_str().map(escape_text)
}

fn string_items(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn summary_shows_roots_confinement_and_limits() {
        let info = json!({
            "server": {"name": "stockade", "version": "0.1.0"},
            "primary_root": "/srv/a",
            "roots": [
                {"path": "/srv/a", "mode": "rw", "symlinks": "refuse", "cross_mounts": false},
                {"path": "/srv/\u{1b}b", "mode": "ro", "symlinks": "beneath", "cross_mounts": true, "access_times": "kept"},
            ],
            "confinement": {
                "level": "kernel", "landlock_abi": 7, "resolver": "openat2",
                "layers": [
                    {"closes": "reading outside the roots", "by": ["openat2", "landlock"]},
                    {"closes": "running programs", "by": ["seccomp"]},
                ],
                "limitations": ["ABI 2 lets a worker empty files"],
            },
            "audit": "on",
            "non_accessible_globs": ["**/.env"],
            "read_only_globs": ["**/.git"],
            "max_frame_bytes_per_uid": 268_435_456,
            "max_read_bytes": 10_485_760,
            "call_timeout_ms": 30_000,
            "functions": ["coder::info"],
        });
        let expected = "\
stockade 0.1.0

Roots
  rw, links refuse  /srv/a  (primary)
  ro, links beneath, crosses mounts, reads change no access times  /srv/\\u001bb

Confinement
  level     kernel
  resolver  openat2
  landlock  ABI 7
  reading outside the roots  openat2, landlock
  running programs           seccomp
  x ABI 2 lets a worker empty files

Audit
  on  /state/audit.jsonl

Denied
  **/.env

Protected (readable, not writable)
  **/.git

Limits
  call_timeout_ms          30 s
  max_frame_bytes_per_uid  256MiB
  max_read_bytes           10MiB

Functions
  coder::info
";
        assert_eq!(render(&info, Some(Path::new("/state/audit.jsonl")), OutputStyle::PLAIN), expected);
        let off = json!({"version": "1", "audit": "off"});
        let text = render(&off, Some(Path::new("/state/audit.jsonl")), OutputStyle::PLAIN);
        assert!(text.ends_with("\nAudit\n  off\n"), "{text}");
    }

    #[test]
    fn a_reply_of_the_public_contract_alone_is_enough() {
        let info = json!({"base_paths": ["/srv/a"], "primary_root": "/srv/a", "version": "0.5.3"});
        assert_eq!(render(&info, None, OutputStyle::PLAIN), "stockade 0.5.3\n\nRoots\n    /srv/a  (primary)\n");
    }
}
