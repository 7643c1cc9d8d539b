//! Runs in `stockade mcp`: which revision of MCP a conversation speaks, and whether a request may be served. Pure.
//! Two lifecycles: until 2025-11-25 the host introduces itself with `initialize`; from 2026-07-28 on every request carries what
//! the server has to know in its `_meta`. The first request that is valid in one of them decides for the whole conversation.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::message::{INVALID_PARAMS, METHOD_NOT_FOUND, McpError, MessageParams, UNSUPPORTED_VERSION, decode};

/// Revisions with a handshake, then the one without.
const SUPPORTED_VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", INLINE_VERSION];
const NEWEST_WITH_HANDSHAKE: &str = SUPPORTED_VERSIONS[3];
/// The revision whose requests speak for themselves.
const INLINE_VERSION: &str = "2026-07-28";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

const INSTRUCTIONS: &str = "Files of the roots that `info` shows, and nothing else. Relative paths begin at the first \
root; paths in results can be sent back as they are; a path in quotes is a JSON string. Look with tree, find and search, read \
with line windows, change with edit (old/new, or ops) and pass the etag of your read as if_match. Names that `info` calls protected (by default .git, .vscode, .claude and the like) can be read, not changed. A failed call names its code and the next step; a reply \
that is cut ends with the call that continues it.";

/// The shape of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Until 2025-11-25.
    Handshake,
    /// From revision 2026-07-28 on: results state that they are complete and how long they may be kept.
    Inline,
}

/// The known properties of the sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestSender {
    pub(super) dialect: Dialect,
    /// It can be asked for its roots.
    pub(super) has_roots: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Lifecycle {
    /// No request has decided it yet.
    #[default]
    Undecided,
    Handshake {
        has_roots: bool,
    },
    Inline,
}

#[derive(Debug, Default)]
pub(super) struct McpSession {
    lifecycle: Lifecycle,
}

type IgnoredObject = BTreeMap<String, IgnoredAny>;

#[derive(Deserialize)]
struct HostCapabilities {
    roots: Option<IgnoredObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientInfo {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "version")]
    _version: String,
}

impl McpSession {
    /// No request has been served yet, so there is nothing that a notification or a response could be about.
    pub(super) fn is_undecided(&self) -> bool {
        self.lifecycle == Lifecycle::Undecided
    }

    /// The reply to `initialize`, and whether the host has roots.
    pub(super) fn initialize(&mut self, params: &MessageParams<'_>) -> Result<(Value, bool), McpError> {
        if self.lifecycle == Lifecycle::Inline {
            let why = "initialize: this conversation began without a handshake, so send _meta with every request";
            return Err(McpError::new(METHOD_NOT_FOUND, why));
        }
        let invalid = || McpError::invalid_params("initialize");
        let asked: String = decode(params.protocol_version).ok_or_else(invalid)?;
        let capabilities: HostCapabilities = decode(params.capabilities).ok_or_else(invalid)?;
        let _: ClientInfo = decode(params.client_info).ok_or_else(invalid)?;
        let has_roots = capabilities.roots.is_some();
        self.lifecycle = Lifecycle::Handshake { has_roots };
        let is_known = asked != INLINE_VERSION && SUPPORTED_VERSIONS.contains(&asked.as_str());
        let version = if is_known { &asked } else { NEWEST_WITH_HANDSHAKE };
        let reply = json!({
            "protocolVersion": version, "capabilities": server_capabilities(), "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        });
        Ok((reply, has_roots))
    }

    /// True if `ping` is answered: always before the lifecycle is known, and never in the revision without that method.
    pub(super) fn answers_ping(&self, params: &MessageParams<'_>) -> bool {
        self.is_undecided()
            || self
                .identify_sender(params, false)
                .is_ok_and(|sender| sender.dialect == Dialect::Handshake && self.lifecycle != Lifecycle::Inline)
    }

    /// The reply to `server/discover`, which decides nothing.
    pub(super) fn discover(&self, params: &MessageParams<'_>) -> Result<Value, McpError> {
        self.identify_sender(params, true)?;
        Ok(json!({
            "resultType": "complete", "supportedVersions": SUPPORTED_VERSIONS, "capabilities": server_capabilities(),
            "instructions": INSTRUCTIONS, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        }))
    }

    /// Admits any other request. The first one with complete metadata makes the conversation one without a handshake.
    pub(super) fn admit(&mut self, params: &MessageParams<'_>) -> Result<RequestSender, McpError> {
        let sender = self.identify_sender(params, false)?;
        if self.is_undecided() {
            self.lifecycle = Lifecycle::Inline;
        }
        Ok(sender)
    }

    fn identify_sender(&self, params: &MessageParams<'_>, needs_metadata: bool) -> Result<RequestSender, McpError> {
        let meta = params.meta.as_ref();
        let version: Option<String> = meta.and_then(|meta| decode(meta.protocol_version));
        let capabilities: Option<HostCapabilities> = meta.and_then(|meta| decode(meta.client_capabilities));
        let is_inline = version.as_deref().is_some_and(|version| version >= INLINE_VERSION);
        let has_handshake = matches!(self.lifecycle, Lifecycle::Handshake { .. });
        if !has_handshake || needs_metadata || is_inline {
            check_metadata(version.is_some(), capabilities.is_some())?;
        }
        if let Some(version) = version.filter(|version| !SUPPORTED_VERSIONS.contains(&version.as_str())) {
            let data = json!({"requested": version, "supported": SUPPORTED_VERSIONS});
            return Err(McpError::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data));
        }
        let has_roots = match (capabilities, &self.lifecycle) {
            (Some(capabilities), _) => capabilities.roots.is_some(),
            (None, Lifecycle::Handshake { has_roots }) => *has_roots,
            (None, _) => false,
        };
        let dialect = if is_inline { Dialect::Inline } else { Dialect::Handshake };
        Ok(RequestSender { dialect, has_roots })
    }
}

fn check_metadata(has_version: bool, has_capabilities: bool) -> Result<(), McpError> {
    let keys = [(has_version, VERSION_KEY), (has_capabilities, CAPABILITIES_KEY)];
    let missing: Vec<&str> = keys.into_iter().filter(|(is_there, _)| !is_there).map(|(_, key)| key).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let why = format!("request _meta is missing or has malformed required fields: {missing}");
    Err(McpError::new(INVALID_PARAMS, why))
}

fn server_capabilities() -> Value {
    json!({"tools": {}, "resources": {}})
}

fn server_info() -> Value {
    json!({"name": "stockade", "title": "stockade", "version": crate::VERSION})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> MessageParams<'_> {
        serde_json::from_str(text).unwrap()
    }

    fn hello(version: &str) -> String {
        json!({"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": {"name": "h", "version": "1"}})
            .to_string()
    }

    fn metadata(version: &str) -> String {
        json!({"_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}}}).to_string()
    }

    #[test]
    fn a_known_revision_is_agreed_on_and_any_other_becomes_the_newest_with_a_handshake() {
        for (asked, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            (INLINE_VERSION, "2025-11-25"),
            ("2030-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            let (reply, has_roots) = McpSession::default().initialize(&params(&hello(asked))).unwrap();
            assert_eq!((&reply["protocolVersion"], has_roots), (&json!(agreed), true), "{asked}");
        }
    }

    #[test]
    fn a_handshake_needs_all_of_its_params() {
        for missing in ["protocolVersion", "capabilities", "clientInfo"] {
            let mut hello: Value = serde_json::from_str(&hello("2025-11-25")).unwrap();
            hello.as_object_mut().unwrap().remove(missing);
            let mut session = McpSession::default();
            let refused = session.initialize(&params(&hello.to_string())).unwrap_err();
            assert_eq!(refused.code, INVALID_PARAMS, "{missing}");
            assert!(session.is_undecided());
        }
    }

    #[test]
    fn without_a_handshake_every_request_needs_its_metadata() {
        let mut session = McpSession::default();
        assert_eq!(session.admit(&params("{}")).unwrap_err().code, INVALID_PARAMS);
        assert_eq!(session.discover(&params("{}")).unwrap_err().code, INVALID_PARAMS);
        assert!(session.answers_ping(&params("{}")));
        session.discover(&params(&metadata(INLINE_VERSION))).unwrap();
        assert!(session.is_undecided(), "a look decides nothing");
        assert_eq!(session.admit(&params(&metadata("1999-01-01"))).unwrap_err().code, UNSUPPORTED_VERSION);
        assert!(session.is_undecided());
        let sender = session.admit(&params(&metadata(INLINE_VERSION))).unwrap();
        assert_eq!(sender, RequestSender { dialect: Dialect::Inline, has_roots: false });
        assert_eq!(session.admit(&params("{}")).unwrap_err().code, INVALID_PARAMS);
        assert!(!session.answers_ping(&params(&metadata(INLINE_VERSION))));
        assert_eq!(session.initialize(&params(&hello("2025-11-25"))).unwrap_err().code, METHOD_NOT_FOUND);
        assert_eq!(session.admit(&params("{}")).unwrap_err().code, INVALID_PARAMS);
    }

    #[test]
    fn after_a_handshake_metadata_counts_where_it_is_sent() {
        let mut session = McpSession::default();
        session.initialize(&params(&hello("2025-11-25"))).unwrap();
        let sender = session.admit(&params("{}")).unwrap();
        assert_eq!(sender, RequestSender { dialect: Dialect::Handshake, has_roots: true });
        assert!(session.answers_ping(&params("{}")));
        let sender = session.admit(&params(&metadata(INLINE_VERSION))).unwrap();
        assert_eq!(sender, RequestSender { dialect: Dialect::Inline, has_roots: false });
        let half = json!({"_meta": {VERSION_KEY: INLINE_VERSION}}).to_string();
        assert_eq!(session.admit(&params(&half)).unwrap_err().code, INVALID_PARAMS);
    }
}
