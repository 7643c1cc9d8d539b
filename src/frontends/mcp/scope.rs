//! Runs in `stockade mcp`: where paths begin, how they are shown, and what the host's roots leave of the operator's.
//! Not the jail: that is the service's, whatever is decided here. The host's roots can only make less of it: a call is given
//! a `base_dir`, and the service refuses (C218) what lies outside.

use std::{borrow::Cow, path::Path};

use serde_json::{Map, Value};

use super::backend::Info;

/// What calls are confined to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// The operator's, the primary one first.
    roots: Vec<String>,
    /// Folders of the host's choice inside them. Empty: it made none that means anything here.
    narrowed: Vec<String>,
}

impl Scope {
    pub(super) fn new(info: &Info, host_roots: &[String]) -> Self {
        let others = info.roots.iter().map(|root| &root.path).filter(|path| **path != info.primary_root);
        let roots: Vec<String> = std::iter::once(&info.primary_root).chain(others).cloned().collect();
        let narrowed = narrow(&roots, host_roots);
        Self { roots, narrowed }
    }

    /// Where relative paths begin.
    pub(super) fn home(&self) -> &str {
        self.narrowed.first().or(self.roots.first()).map_or("", String::as_str)
    }

    pub(super) fn narrowed(&self) -> &[String] {
        &self.narrowed
    }

    /// The folders that all of this is about.
    pub(super) fn folders(&self) -> &[String] {
        if self.narrowed.is_empty() { &self.roots } else { &self.narrowed }
    }

    /// As a call may name it again: without the folder where relative paths begin.
    pub(super) fn show<'p>(&self, path: &'p str) -> &'p str {
        match path.strip_prefix(self.home()) {
            Some("") => ".",
            Some(below) if self.home().ends_with('/') => below,
            Some(below) => below.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }

    /// The `base_dir` that keeps a call with these paths inside the host's roots. One call has one: paths of several are
    /// refused by the service.
    pub(super) fn base_dir(&self, arguments: &Map<String, Value>) -> Option<&str> {
        let first = self.narrowed.first()?;
        let named = first_path(arguments).filter(|path| path.starts_with('/'));
        let owner =
            named.and_then(|path| self.narrowed.iter().find(|root| Path::new(&*path).starts_with(root)));
        Some(owner.unwrap_or(first))
    }
}

/// The first path that a request names, wherever it does.
fn first_path(arguments: &Map<String, Value>) -> Option<Cow<'_, str>> {
    let text = |value: &Value| value.as_str().map(|text| text.to_owned());
    let own = ["path", "from"].iter().find_map(|key| arguments.get(*key).and_then(text));
    let listed = || {
        let first = ["paths", "files"].iter().find_map(|key| arguments.get(*key)?.as_array()?.first())?;
        text(first).or_else(|| ["path", "from"].iter().find_map(|key| first.get(key).and_then(text)))
    };
    own.or_else(listed).map(Cow::Owned)
}

/// What both allow. A root of the host that has nothing to do with the operator's is passed over: it speaks of other
/// servers, and if all of them are such, the operator's stand.
fn narrow(roots: &[String], host_roots: &[String]) -> Vec<String> {
    let mut narrowed: Vec<String> = Vec::new();
    for host in host_roots {
        for root in roots {
            let both = match (Path::new(host).starts_with(root), Path::new(root).starts_with(host)) {
                (true, _) => host,
                (false, true) => root,
                (false, false) => continue,
            };
            if !narrowed.contains(both) {
                narrowed.push(both.clone());
            }
        }
    }
    // All of it is no narrowing, and then paths begin where the operator wants.
    let is_everything = roots.iter().all(|root| narrowed.contains(root));
    if is_everything { Vec::new() } else { narrowed }
}

/// The path of a `file:` URI of this machine, normalised by text; nothing if it is none.
pub(super) fn path_of_uri(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        match byte {
            b'%' => {
                let digits = [left.next()?, left.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            b'?' | b'#' => break,
            other => bytes.push(other),
        }
    }
    normalise(&String::from_utf8(bytes).ok()?)
}

/// Without `.`, `..` and doubled slashes; nothing if it climbs above the top.
fn normalise(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// The URI of an absolute path.
pub(super) fn uri_of_path(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(byte.into())
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::backend::Root, *};

    fn scope(roots: &[&str], host: &[&str]) -> Scope {
        let info = Info {
            primary_root: roots[0].into(),
            roots: roots.iter().map(|path| Root { path: (*path).into() }).collect(),
            functions: Vec::new(),
        };
        Scope::new(&info, &host.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn roots_of_the_host_never_widen() {
        assert!(scope(&["/srv/a"], &["/"]).narrowed.is_empty());
        assert!(scope(&["/srv/a"], &["/srv"]).narrowed.is_empty());
        assert_eq!(scope(&["/srv/a", "/srv/b"], &["/srv/b"]).narrowed, ["/srv/b"]);
        assert_eq!(scope(&["/srv/a", "/srv/b"], &["/srv/a/x", "/etc"]).narrowed, ["/srv/a/x"]);
    }

    #[test]
    fn a_sibling_whose_name_begins_alike_is_another_folder() {
        assert!(scope(&["/srv/a"], &["/srv/ab"]).narrowed.is_empty());
        assert_eq!(scope(&["/srv/a", "/srv/ab"], &["/srv/ab"]).narrowed, ["/srv/ab"]);
    }

    #[test]
    fn roots_that_mean_nothing_here_leave_the_operators() {
        let scope = scope(&["/srv/a"], &["/home/me", "/etc"]);
        assert!(scope.narrowed.is_empty());
        assert_eq!(scope.base_dir(&Map::new()), None);
    }

    #[test]
    fn a_call_is_confined_to_the_root_that_holds_its_path() {
        let scope = scope(&["/srv"], &["/srv/a", "/srv/b"]);
        let base = |arguments: Value| scope.base_dir(arguments.as_object().unwrap()).unwrap().to_owned();
        assert_eq!(base(json!({"path": "x"})), "/srv/a");
        assert_eq!(base(json!({"path": "/srv/b/x"})), "/srv/b");
        assert_eq!(base(json!({"paths": [{"path": "/srv/b/x"}]})), "/srv/b");
        assert_eq!(base(json!({"files": [{"from": "/srv/b/x"}]})), "/srv/b");
        assert_eq!(base(json!({"path": "/srv/c"})), "/srv/a", "refused by the service");
    }

    #[test]
    fn paths_are_shown_as_a_call_may_name_them() {
        let scope = scope(&["/srv/a"], &[]);
        assert_eq!(scope.show("/srv/a/src/x"), "src/x");
        assert_eq!(scope.show("/srv/a"), ".");
        assert_eq!(scope.show("/srv/ab/x"), "/srv/ab/x");
    }

    #[test]
    fn uris_are_paths_of_this_machine_or_nothing() {
        assert_eq!(path_of_uri("file:///srv/a%20b/./c/../d").unwrap(), "/srv/a b/d");
        assert_eq!(path_of_uri("file://localhost/srv").unwrap(), "/srv");
        for bad in ["http://x/srv", "file://other/srv", "file:///a/../..", "file:///%zz", "srv"] {
            assert_eq!(path_of_uri(bad), None, "{bad}");
        }
        assert_eq!(path_of_uri(&uri_of_path("/srv/ä b#?%")).unwrap(), "/srv/ä b#?%");
    }
}
