//! Notes for folders that a reply does not show completely: the reason, and the call that shows the rest. Pure.

use std::borrow::Cow;

use serde_json::json;

use crate::{
    ops::names::encode_name,
    path::{MAX_PATH_BYTES, RawPath},
    wire::{
        Error, Limits,
        types::tree::{Truncated, TruncatedReason},
    },
};

#[derive(Debug)]
pub(super) struct Hints {
    /// The walk's own folder as the caller wrote it, ready for names to follow: empty or with a final slash.
    prefix: Vec<u8>,
    /// The walk's own folder as the caller wrote it, if no names follow.
    top: Vec<u8>,
    max_depth: u32,
    deepest: u32,
    budget_bytes: u64,
}

impl Hints {
    pub(super) fn new(sent: &RawPath, limits: &Limits, max_depth: u32) -> Self {
        let top = sent.as_bytes();
        let prefix = match top {
            b"" | b"." | b"./" => Vec::new(),
            [.., b'/'] => top.to_vec(),
            _ => [top, b"/"].concat(),
        };
        Self {
            prefix,
            top: top.to_vec(),
            max_depth,
            deepest: limits.tree_max_depth,
            budget_bytes: limits.tree_response_budget_bytes,
        }
    }

    /// A path that the caller can use for this folder of the walk; `below` is its path from the top.
    pub(super) fn name(&self, below: &[u8]) -> Vec<u8> {
        if below.is_empty() { self.top.clone() } else { [&self.prefix, below].concat() }
    }

    pub(super) fn max_depth(&self, below: &[u8]) -> Truncated {
        let call = self.call("coder::tree", below);
        let hint = match self.max_depth {
            depth if depth == self.deepest => format!("tree_max_depth {depth} reached; {call}"),
            depth => format!("max_depth {depth} reached; raise max_depth, or {call}"),
        };
        nothing_shown(TruncatedReason::MaxDepth, hint)
    }

    pub(super) fn default_exclude(&self, below: &[u8]) -> Truncated {
        let call = self.call("coder::tree", below);
        let hint = format!("left out by default; {call} or pass use_default_excludes: false");
        nothing_shown(TruncatedReason::DefaultExclude, hint)
    }

    pub(super) fn per_folder_limit(&self, below: &[u8], shown: u64, total: u64) -> Truncated {
        let call = self.call("coder::list-folder", below);
        let hint = format!("{shown} of {total} shown; {call} for all, or raise per_folder_limit");
        Truncated { reason: TruncatedReason::PerFolderLimit, shown, total: Some(total), hint }
    }

    /// Nothing of the folder fitted, or it was not opened.
    pub(super) fn budget(&self, below: &[u8]) -> Truncated {
        let call = self.call("coder::tree", below);
        nothing_shown(
            TruncatedReason::Budget,
            format!("tree_response_budget_bytes {} used up; {call}", self.budget_bytes),
        )
    }

    /// A part of it fitted.
    pub(super) fn budget_within(&self, below: &[u8], shown: u64, total: u64) -> Truncated {
        let call = self.call("coder::list-folder", below);
        let hint = format!(
            "tree_response_budget_bytes {} used up after {shown} of {total}; {call} for all",
            self.budget_bytes
        );
        Truncated { reason: TruncatedReason::Budget, shown, total: Some(total), hint }
    }

    fn call(&self, function: &str, below: &[u8]) -> Cow<'static, str> {
        let name = self.name(below);
        if name.len() > MAX_PATH_BYTES {
            return "its path is longer than a call can name".into();
        }
        let request = match encode_name(&name) {
            (text, None) => json!({ "path": text }),
            (_, Some(bytes)) => json!({ "path_bytes": bytes }),
        };
        format!("call {function} {request}").into()
    }
}

/// The message of the error.
pub(super) fn io_error(error: &Error) -> Truncated {
    nothing_shown(TruncatedReason::IoError, error.message.clone())
}

/// The entry was not a folder when its parent was read.
pub(super) fn changed() -> Truncated {
    nothing_shown(TruncatedReason::IoError, "became a folder while its own folder was read; call again".into())
}

fn nothing_shown(reason: TruncatedReason, hint: String) -> Truncated {
    Truncated { reason, shown: 0, total: None, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(sent: &[u8], max_depth: u32) -> Hints {
        Hints::new(&RawPath::bytes(sent.to_vec()), &Limits::default(), max_depth)
    }

    #[test]
    fn folders_are_named_as_the_caller_would() {
        for (sent, named) in [
            (".", "a/b"),
            ("", "a/b"),
            ("./", "a/b"),
            ("src", "src/a/b"),
            ("src/", "src/a/b"),
            ("/srv/p", "/srv/p/a/b"),
            ("/", "/a/b"),
        ] {
            let hint = hints(sent.as_bytes(), 4).budget(b"a/b").hint;
            assert!(hint.ends_with(&format!("call coder::tree {{\"path\":\"{named}\"}}")), "{sent}: {hint}");
        }
        assert_eq!(hints(b".", 1).name(b""), b".");
    }

    #[test]
    fn names_that_are_not_utf8_go_as_bytes_and_quotes_are_escaped() {
        assert!(hints(b"d\xff", 4).budget(b"x").hint.contains("{\"path_bytes\":\"ZP8veA==\"}"));
        assert!(hints(b".", 4).budget(b"a\"b").hint.contains(r#"{"path":"a\"b"}"#));
    }

    #[test]
    fn hints_hold_the_words_that_clients_look_for() {
        let hints = hints(b".", 4);
        assert!(hints.max_depth(b"a").hint.contains("raise max_depth"));
        assert!(hints.per_folder_limit(b"a", 1, 2).hint.contains("1 of 2 shown; call coder::list-folder"));
        assert!(hints.default_exclude(b"a").hint.contains("use_default_excludes: false"));
        assert!(hints.budget(b"a").hint.contains("tree_response_budget_bytes 262144"));
    }

    #[test]
    fn at_the_deepest_level_nobody_is_told_to_raise_the_depth() {
        let hint = hints(b".", 48).max_depth(b"a").hint;
        assert!(hint.starts_with("tree_max_depth 48 reached") && !hint.contains("raise"), "{hint}");
    }

    #[test]
    fn a_path_that_no_call_takes_is_not_suggested() {
        let hint = hints(b".", 4).budget(&[b'a'; MAX_PATH_BYTES + 1]).hint;
        assert!(hint.ends_with("longer than a call can name"), "{hint}");
    }
}
