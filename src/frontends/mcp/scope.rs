//! Decides where relative paths begin, how paths are shown, and which part of the operator's roots remains under the host's
//! roots. Runs in `stockade mcp`. This is not the jail, which the service enforces independently. The host's roots can only
//! narrow the operator's: every request passes through [`HostScope::confine`], which gives it a `base_dir`, and the service
//! refuses (C218) paths outside.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    backend::ServiceInfo,
    object::{JsonObject, decode_string},
    uri::normalise,
};

/// Most roots of the host, and most of the operator, that an error text lists.
const MAX_SHOWN: usize = 8;

/// The function that has neither paths nor a `base_dir`.
const INFO_FUNCTION: &str = "coder::info";

/// A root as the host named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostRoot {
    /// The URI as sent, for error texts.
    pub(super) uri: String,
    /// The folder of the URI. `None` if the URI is not understood; it then allows nothing.
    pub(super) path: Option<String>,
}

/// A call that does not reach the service, with a code like every other failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopeRefusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// A request that stays inside the scope. Only [`HostScope::confine`] makes one, and [`super::backend::Backend::call`] takes
/// nothing else.
#[derive(Debug)]
pub(super) struct ConfinedRequest {
    method: &'static str,
    params: String,
}

impl ConfinedRequest {
    pub(super) fn method(&self) -> &'static str {
        self.method
    }

    pub(super) fn params(&self) -> &str {
        &self.params
    }
}

/// The folders that calls are confined to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostScope {
    /// The operator's, the primary one first.
    roots: Vec<String>,
    /// Folders that both sides allow. Empty: the host's roots leave all of the operator's.
    narrowed_roots: Vec<String>,
}

impl HostScope {
    /// `host_roots` is None if the host narrows nothing. An error if it leaves nothing.
    pub(super) fn new(info: &ServiceInfo, host_roots: Option<&[HostRoot]>) -> Result<Self, ScopeRefusal> {
        let others = info.roots.iter().map(|root| &root.path).filter(|path| **path != info.primary_root);
        let roots: Vec<String> = std::iter::once(&info.primary_root).chain(others).cloned().collect();
        let Some(host_roots) = host_roots else { return Ok(Self { roots, narrowed_roots: Vec::new() }) };
        let narrowed = intersection(&roots, host_roots);
        if narrowed.is_empty() {
            return Err(no_common_roots(&roots, host_roots));
        }
        // If all roots are left, relative paths begin where the operator wants.
        let is_everything = roots.iter().all(|root| narrowed.contains(root));
        Ok(Self { narrowed_roots: if is_everything { Vec::new() } else { narrowed }, roots })
    }

    /// The folder that relative paths begin at.
    pub(super) fn base_folder(&self) -> &str {
        self.allowed_folders().first().map_or("", String::as_str)
    }

    pub(super) fn narrowed_roots(&self) -> &[String] {
        &self.narrowed_roots
    }

    /// All folders that a call may name.
    pub(super) fn allowed_folders(&self) -> &[String] {
        if self.narrowed_roots.is_empty() { &self.roots } else { &self.narrowed_roots }
    }

    /// The path as a call may name it: without the folder where relative paths begin.
    pub(super) fn shorten<'p>(&self, path: &'p str) -> &'p str {
        match path.strip_prefix(self.base_folder()) {
            Some("") => ".",
            Some(below) if self.base_folder().ends_with('/') => below,
            Some(below) => below.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }

    /// The request in the form that the service gets. If the host's roots narrow the operator's, its `base_dir` is inside
    /// them, whatever the caller sent.
    pub(super) fn confine(
        &self,
        method: &'static str,
        mut request: JsonObject,
    ) -> Result<ConfinedRequest, ScopeRefusal> {
        if method != INFO_FUNCTION && !self.narrowed_roots.is_empty() {
            let base = match request.get("base_dir").map(|sent| (sent.get(), decode_string(sent))) {
                None | Some(("null", _)) => self.choose_base(&request_paths(&request))?.to_owned(),
                Some((_, Some(sent))) => self.resolve_base_dir(&sent)?,
                Some(_) => {
                    let message = "base_dir: expected a string, for example \"src\"".into();
                    return Err(ScopeRefusal { code: "C210", message });
                }
            };
            request.set("base_dir", &base);
        }
        let params = serde_json::to_string(&request)
            .map_err(|error| ScopeRefusal { code: "C210", message: error.to_string() })?;
        Ok(ConfinedRequest { method, params })
    }

    /// Rewrites a service text about a `base_dir` that [`Self::confine`] added: the caller knows the client's roots, not that
    /// `base_dir`.
    pub(super) fn translate_base_dir(&self, said: &str) -> String {
        let mut text = said.to_owned();
        let roots = format!("the client's roots ({})", join_roots(self.narrowed_roots.iter()));
        for folder in &self.narrowed_roots {
            let end = "; give a path below base_dir";
            text = text.replace(
                &format!("this call's base_dir {folder}{end}"),
                &format!("{roots}; give a path below one of them"),
            );
        }
        text
    }

    /// The client's root that contains all names of a request; relative names are in the first root. Ignores names in no
    /// root, because the service refuses each of them.
    fn choose_base(&self, names: &[String]) -> Result<&str, ScopeRefusal> {
        let is_relative = |name: &&String| !name.starts_with('/');
        let relative = names.iter().any(|name| is_relative(&name));
        let absolute: Vec<(&String, String)> = names
            .iter()
            .filter(|name| !is_relative(name))
            .filter_map(|name| Some((name, normalise(name.split('/'))?)))
            .filter(|(_, path)| self.narrowed_roots.iter().any(|root| lies_in(path, root)))
            .collect();
        let candidates = if relative { &self.narrowed_roots[..1] } else { &self.narrowed_roots[..] };
        let holds_all = |root: &&String| absolute.iter().all(|(_, path)| lies_in(path, root));
        if let Some(root) = candidates.iter().find(holds_all) {
            return Ok(root);
        }
        let home = self.base_folder().to_owned();
        let (first, at) = match absolute.first() {
            Some((name, path)) if !relative => (*name, path),
            _ => (&home, &home),
        };
        let other = absolute.iter().find(|(_, path)| !self.share_a_root(path, at));
        let other = other.map_or("", |(name, _)| name.as_str());
        let message = format!(
            "{other}: lies in another of the client's roots than {first}, and one call can use only one of them; make a \
             separate call for each. The client's roots: {}",
            join_roots(self.narrowed_roots.iter())
        );
        Err(ScopeRefusal { code: "C218", message })
    }

    /// True if one of the client's roots contains both.
    fn share_a_root(&self, path: &str, other: &str) -> bool {
        self.narrowed_roots.iter().any(|root| lies_in(path, root) && lies_in(other, root))
    }

    /// Resolves the caller's `base_dir`, which must be inside the client's roots.
    fn resolve_base_dir(&self, sent: &str) -> Result<String, ScopeRefusal> {
        let start = if sent.starts_with('/') { "" } else { self.base_folder() };
        let base = normalise(start.split('/').chain(sent.split('/')));
        base.filter(|base| self.narrowed_roots.iter().any(|root| lies_in(base, root))).ok_or_else(|| ScopeRefusal {
            code: "C218",
            message: format!(
                "{sent}: base_dir is outside the client's roots ({}); give a folder inside one of them, or none",
                join_roots(self.narrowed_roots.iter())
            ),
        })
    }
}

fn lies_in(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

/// All paths in a request. Base64 paths are decoded lossily, which is enough to compare their folders.
pub(super) fn request_paths(request: &JsonObject) -> Vec<String> {
    let mut found = Vec::new();
    let own = ["path", "from", "to", "path_bytes", "from_bytes", "to_bytes"];
    let [path, from, to, path_bytes, from_bytes, to_bytes] = own.map(|name| request.decode(name));
    RequestPaths { path, from, to, path_bytes, from_bytes, to_bytes }.add_to(&mut found);
    for list in ["paths", "files"] {
        for entry in request.decode::<Vec<&RawValue>>(list).into_iter().flatten() {
            match decode_string(entry) {
                Some(name) => found.push(name),
                None => serde_json::from_str(entry.get()).unwrap_or(RequestPaths::default()).add_to(&mut found),
            }
        }
    }
    found
}

/// The paths of a request or of one of its entries. Values that are no strings name nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestPaths {
    path: Option<Value>,
    from: Option<Value>,
    to: Option<Value>,
    path_bytes: Option<Value>,
    from_bytes: Option<Value>,
    to_bytes: Option<Value>,
}

impl RequestPaths {
    fn add_to(self, found: &mut Vec<String>) {
        let Self { path, from, to, path_bytes, from_bytes, to_bytes } = self;
        for (name, bytes) in [(path, path_bytes), (from, from_bytes), (to, to_bytes)] {
            found.extend(name.as_ref().and_then(Value::as_str).map(str::to_owned));
            let bytes = bytes.as_ref().and_then(Value::as_str).and_then(|bytes| BASE64.decode(bytes).ok());
            found.extend(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

/// The folders that both sides allow, in the host's order.
fn intersection(roots: &[String], host_roots: &[HostRoot]) -> Vec<String> {
    let mut both: Vec<String> = Vec::new();
    for host in host_roots.iter().filter_map(|root| root.path.as_ref()) {
        for root in roots {
            let inner = match (lies_in(host, root), lies_in(root, host)) {
                (true, _) => host,
                (false, true) => root,
                (false, false) => continue,
            };
            if !both.contains(inner) {
                both.push(inner.clone());
            }
        }
    }
    both
}

fn no_common_roots(roots: &[String], host_roots: &[HostRoot]) -> ScopeRefusal {
    let host = match host_roots {
        [] => "none (it has withdrawn them)".into(),
        all => join_roots(all.iter().map(|root| match &root.path {
            Some(path) => path,
            None => &root.uri,
        })),
    };
    let message = format!(
        "the client's roots and the operator's have nothing in common, so no path can be used. The client's roots: {host}. \
         The operator's roots: {}. Ask the user to open a folder inside the operator's roots in the client, or the operator \
         to start `stockade mcp` with --ignore-host-roots",
        join_roots(roots.iter())
    );
    ScopeRefusal { code: "C218", message }
}

fn join_roots<'r>(roots: impl ExactSizeIterator<Item = &'r String>) -> String {
    let more = roots.len().saturating_sub(MAX_SHOWN);
    let mut text = roots.take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
