//! Reads a policy: compares the text with the table of keys, which gives each mistake its line, column and key, then lets serde
//! build the value, then checks what several keys mean together.

use std::ops::Range;

use serde::de::Error as _;
use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::{
    PRIVATE_SOCKET, Policy, PolicyError,
    error::hint,
    keys::{KeyValue, PolicyKey, TOP_KEYS},
};
use crate::path::{DenyGlobs, ProtectGlobs};

pub const DEFAULT_TEXT: &str = include_str!("../../policy/default.toml");

type CrossKeyCheck = fn(&Policy) -> Result<(), String>;
type ParseResult<T> = Result<T, PolicyError>;
type SpannedValue<'d> = Spanned<DeValue<'d>>;
/// With the offset of each.
type Mistakes = Vec<(usize, PolicyError)>;

pub(super) fn parse_policy(text: &str, source: &str) -> ParseResult<Policy> {
    let document = PolicyText { text, source };
    let not_read = |error: toml::de::Error| {
        let place = error.span().map_or(source.into(), |span| document.position(span));
        PolicyError::new(place, error.message())
    };
    let (table, unreadable) = DeTable::parse_recoverable(text);
    PolicyError::refuse_all(unreadable.into_iter().map(not_read).collect())?;
    let mut mistakes = Mistakes::new();
    document.check_table("", table.get_ref(), TOP_KEYS, &mut mistakes);
    mistakes.sort_by_key(|(offset, _)| *offset);
    PolicyError::refuse_all(mistakes.into_iter().map(|(_, mistake)| mistake).collect())?;
    let written: Table = toml::from_str(text).map_err(not_read)?;
    let mut policy: Policy = with_defaults(written).and_then(Table::try_into).map_err(not_read)?;
    policy.source = source.into();
    let tables = |key: &str| table.get_ref().get(key).and_then(|list| list.get_ref().as_array());
    for (root, at) in policy.roots.iter_mut().zip(tables("root").into_iter().flatten()) {
        root.origin = document.position(at.span());
    }
    for (peer, at) in policy.peers.iter_mut().zip(tables("peer").into_iter().flatten()) {
        peer.origin = document.position(at.span());
    }
    let mut mistakes = Mistakes::new();
    for (key, check) in CROSS_KEY_CHECKS {
        if let (Err(what), Some(at)) = (check(&policy), find_value(table.get_ref(), key)) {
            document.add_mistake(&mut mistakes, at.span(), key, what);
        }
    }
    PolicyError::refuse_all(mistakes.into_iter().map(|(_, mistake)| mistake).collect())?;
    Ok(policy)
}

/// The default policy, with the rules of a root that sets none itself.
pub(super) fn parse_default() -> Result<Policy, toml::de::Error> {
    toml::from_str(DEFAULT_TEXT)
}

/// The keys that `written` lacks are those of the default. Its roots and peers are all that there are.
fn with_defaults(written: Table) -> Result<Table, toml::de::Error> {
    let mut all: Table = toml::from_str(DEFAULT_TEXT)?;
    let roots = all.insert("root".into(), Vec::<Table>::new().into());
    for (key, value) in written {
        let value = match (value, all.remove(&key)) {
            // The default mode is for a socket without a group.
            (value, _) if key == "socket" => value,
            (Value::Array(written), _) if key == "root" => {
                let default = roots.as_ref().and_then(|roots| roots.get(0));
                let default = default.ok_or_else(|| toml::de::Error::custom("the default has no root"))?;
                written.into_iter().map(|root| merge_tables(default.clone(), root)).collect::<Vec<_>>().into()
            }
            (value, Some(default)) => merge_tables(default, value),
            (value, None) => value,
        };
        all.insert(key, value);
    }
    Ok(all)
}

/// The keys of both tables; those of `written` win.
fn merge_tables(default: Value, written: Value) -> Value {
    match (default, written) {
        (Value::Table(mut all), Value::Table(written)) => {
            all.extend(written);
            Value::Table(all)
        }
        (_, written) => written,
    }
}

/// A rule between the keys of one table, and where to report a violation.
const CROSS_KEY_CHECKS: &[(&str, CrossKeyCheck)] = &[
    ("deny", check_deny),
    ("protect", check_protect),
    ("limits", check_limits),
    ("trash", check_trash),
    ("socket.mode", check_socket),
];

/// The value of `key` or `table.key`.
fn find_value<'t, 'd>(table: &'t DeTable<'d>, key: &str) -> Option<&'t SpannedValue<'d>> {
    match key.split_once('.') {
        Some((outer, inner)) => table.get(outer)?.get_ref().as_table()?.get(inner),
        None => table.get(key),
    }
}

// All globs together may be too many even when each is good.
fn check_deny(policy: &Policy) -> Result<(), String> {
    let deny = &policy.deny;
    DenyGlobs::new(&deny.non_accessible_globs, &deny.except_globs).map(drop).map_err(|(_, what)| what)
}

fn check_protect(policy: &Policy) -> Result<(), String> {
    let protect = &policy.protect;
    ProtectGlobs::new(&protect.read_only_globs, &protect.except_globs).map(drop).map_err(|(_, what)| what)
}

fn check_limits(policy: &Policy) -> Result<(), String> {
    let limits = &policy.limits;
    for (small, large, names) in [
        (
            limits.list_default_page_size.into(),
            limits.list_max_page_size.into(),
            "list_default_page_size is above list_max_page_size",
        ),
        (limits.call_timeout_ms, limits.call_timeout_max_ms, "call_timeout_ms is above call_timeout_max_ms"),
        (limits.max_frame_bytes, limits.max_frame_bytes_per_uid, "max_frame_bytes is above max_frame_bytes_per_uid"),
    ] {
        if small > large {
            return Err(format!("{names} ({small} > {large})"));
        }
    }
    Ok(())
}

fn check_trash(policy: &Policy) -> Result<(), String> {
    let is_wrong = policy.trash.default && !policy.trash.enabled;
    if is_wrong { Err("`default` is true although the trash is not enabled".into()) } else { Ok(()) }
}

fn check_socket(policy: &Policy) -> Result<(), String> {
    let is_private = policy.socket.mode == PRIVATE_SOCKET || policy.socket.group.is_some();
    if is_private { Ok(()) } else { Err("others may connect only together with a `group` for the socket".into()) }
}

/// Checks which keys of one `[[table]]` must or must not occur together, before serde reads the table.
fn check_shape(key: &str, table: &DeTable<'_>) -> Result<(), &'static str> {
    let has = |key: &&str| table.contains_key(*key);
    let is_empty = |list: &SpannedValue<'_>| list.get_ref().as_array().is_some_and(|list| list.is_empty());
    match key {
        "root" if !has(&"path") => Err("`path` is missing"),
        "peer" if ["uid", "user", "gid", "group"].iter().filter(|key| has(key)).count() != 1 => {
            Err("say exactly one of `uid`, `user`, `gid`, `group`")
        }
        "peer" if table.get("roots").is_some_and(is_empty) => Err("`roots` is empty; leave it out to mean all roots"),
        _ => Ok(()),
    }
}

/// The text and its name, to turn an offset into `source:line:column`.
struct PolicyText<'d> {
    text: &'d str,
    source: &'d str,
}

impl PolicyText<'_> {
    fn position(&self, span: Range<usize>) -> String {
        let before = &self.text[..span.start.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        format!("{}:{line}:{column}", self.source)
    }

    /// Adds an error that names the key and what is wrong with its value.
    fn add_mistake(&self, mistakes: &mut Mistakes, span: Range<usize>, key: &str, what: impl std::fmt::Display) {
        let start = span.start;
        mistakes.push((start, PolicyError::new(self.position(span), format!("{key}: {what}"))));
    }

    /// `prefix`: `limits.`, `root.`; empty at the top.
    fn check_table(&self, prefix: &str, table: &DeTable<'_>, keys: &[PolicyKey], mistakes: &mut Mistakes) {
        let known: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let what = format!("unknown key; {}", hint(key.get_ref(), &known));
            self.add_mistake(mistakes, key.span(), &format!("{prefix}{}", key.get_ref()), what);
        }
        for (key, takes) in keys {
            if let Some(value) = table.get(*key) {
                self.check_value(&format!("{prefix}{key}"), value, takes, mistakes);
            }
        }
    }

    fn check_value(&self, key: &str, value: &SpannedValue<'_>, takes: &KeyValue, mistakes: &mut Mistakes) {
        let expected = |what: &str| {
            let found = value.get_ref().type_str();
            Err(format!("expected {what}, found a value of type {found}"))
        };
        let checked = match (takes, value.get_ref()) {
            (KeyValue::Flag, DeValue::Boolean(_)) => Ok(()),
            (KeyValue::Flag, _) => expected("true or false"),
            (KeyValue::Number(from, to), DeValue::Integer(number)) => {
                let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
                match value.filter(|value| (from..=to).contains(&value)) {
                    Some(_) => Ok(()),
                    None => Err(format!("{number} is out of range; allowed: {from} to {to}")),
                }
            }
            (KeyValue::Number(..), _) => expected("a whole number"),
            (KeyValue::Word(words), DeValue::String(word)) if words.contains(&word.as_ref()) => Ok(()),
            (KeyValue::Word(words), DeValue::String(word)) => {
                let allowed = words.join("\", \"");
                Err(format!("\"{word}\" is not allowed; allowed: \"{allowed}\""))
            }
            (KeyValue::Text(check), DeValue::String(text)) => check(text),
            (KeyValue::Word(_) | KeyValue::Text(_), _) => expected("a text"),
            (KeyValue::Texts(check), DeValue::Array(list)) => {
                for item in list.iter() {
                    let text = item.get_ref().as_str().ok_or("expected a list of texts; this entry is none");
                    if let Err(what) = text.map_err(String::from).and_then(check) {
                        self.add_mistake(mistakes, item.span(), key, what);
                    }
                }
                Ok(())
            }
            (KeyValue::Texts(_), _) => expected("a list of texts"),
            (KeyValue::Table(keys), DeValue::Table(table)) => {
                self.check_table(&format!("{key}."), table, keys, mistakes);
                Ok(())
            }
            (KeyValue::Table(_), _) => expected(&format!("a table `[{key}]`")),
            (KeyValue::Tables(keys), DeValue::Array(list)) => {
                for item in list.iter() {
                    let known = mistakes.len();
                    let shape = match item.get_ref().as_table() {
                        Some(table) => {
                            self.check_table(&format!("{key}."), table, keys, mistakes);
                            // A misspelt key is probably the one that is missing.
                            let is_spelt = mistakes.len() == known;
                            if is_spelt { check_shape(key, table).map_err(String::from) } else { Ok(()) }
                        }
                        None => Err(format!("expected tables `[[{key}]]`")),
                    };
                    if let Err(what) = shape {
                        self.add_mistake(mistakes, item.span(), key, what);
                    }
                }
                Ok(())
            }
            (KeyValue::Tables(_), _) => expected(&format!("tables `[[{key}]]`")),
        };
        if let Err(what) = checked {
            self.add_mistake(mistakes, value.span(), key, what);
        }
    }
}
