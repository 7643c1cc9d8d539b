//! Paths as a user types and reads them: relative to the shell's folder if it is in a root, else to the primary root. Runs as
//! the user of the command line. Works on text only, apart from the path of the shell's folder; the service decides whether a
//! path is allowed.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CallSession, escape,
    failure::{CliFailure, unexpected_result},
};

/// Fields of a request entry that hold a path; each has a second form with `_bytes` behind it.
const PATH_FIELDS: [&str; 3] = ["path", "from", "to"];
/// Characters with a special meaning in a glob.
pub(super) const GLOB_LETTERS: [u8; 6] = [b'*', b'?', b'[', b']', b'{', b'}'];

/// The folder at which the relative paths of a command line begin.
#[derive(Debug, Clone)]
pub(super) struct PathBase {
    /// The folder itself, with a slash at the end.
    folder: Vec<u8>,
    /// The root that holds it, with a slash at the end.
    root: Vec<u8>,
    /// The folder is not in the primary root, where the service would begin, so typed paths are sent in full.
    sends_in_full: bool,
}

#[derive(Deserialize)]
struct RootPaths {
    primary_root: String,
    #[serde(default)]
    base_paths: Vec<String>,
}

impl PathBase {
    pub(super) fn query(session: &mut dyn CallSession, shell_folder: Option<&Path>) -> Result<Self, CliFailure> {
        let reply = session.call("coder::info", "{}")?;
        let info: RootPaths = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let roots: Vec<&str> = info.base_paths.iter().map(String::as_str).collect();
        Ok(Self::new(&info.primary_root, &roots, shell_folder))
    }

    pub(super) fn new(primary_root: &str, roots: &[&str], shell_folder: Option<&Path>) -> Self {
        let primary = with_slash(primary_root.as_bytes());
        let folder = shell_folder.map(|folder| with_slash(folder.as_os_str().as_bytes()));
        let innermost = folder.as_ref().and_then(|folder| {
            let roots = roots.iter().map(|root| with_slash(root.as_bytes()));
            roots.filter(|root| folder.starts_with(root)).max_by_key(Vec::len)
        });
        match (folder, innermost) {
            (Some(folder), Some(root)) => Self { sends_in_full: folder != primary, folder, root },
            _ => Self { folder: primary.clone(), root: primary, sends_in_full: false },
        }
    }

    /// A typed path in the form that the service takes.
    pub(super) fn sent(&self, typed: &OsStr) -> OsString {
        let bytes = typed.as_bytes();
        match bytes {
            // The service refuses an empty path with its own error.
            [] | [b'/', ..] => typed.to_owned(),
            _ if !self.sends_in_full => typed.to_owned(),
            b"." => OsStr::from_bytes(without_slash(&self.folder)).to_owned(),
            _ => OsString::from_vec([&self.folder, bytes].concat()),
        }
    }

    /// Like `sent`, for a field that can only hold text. Such a field cannot name a folder of the shell that is not UTF-8.
    pub(super) fn sent_text(&self, typed: &str) -> String {
        self.sent(OsStr::new(typed)).into_string().unwrap_or_else(|_| typed.to_owned())
    }

    /// A typed path in full, without `.` and `..`, as replies have it.
    pub(super) fn full(&self, typed: &[u8]) -> Vec<u8> {
        let whole = if typed.starts_with(b"/") { typed.to_vec() } else { [&self.folder, typed].concat() };
        let mut names: Vec<&[u8]> = Vec::new();
        for name in whole.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        [b"/", names.join(&b'/').as_slice()].concat()
    }

    /// `path`, or `path_bytes` for a name that is not UTF-8.
    pub(super) fn wire_path(&self, typed: &OsStr) -> Value {
        wire_path(&self.sent(typed))
    }

    /// Converts the paths of a request entry to the form that the service takes.
    pub(super) fn place(&self, entry: &mut Value) {
        for field in PATH_FIELDS {
            if let Some(typed) = taken_path(entry, field) {
                set_path(entry, field, &self.sent(&typed));
            }
        }
    }

    /// The folder before a path in a text of the service, if the user need not see it.
    pub(super) fn hidden_prefix(&self) -> Option<&str> {
        std::str::from_utf8(&self.folder).ok().filter(|_| self.sends_in_full)
    }

    /// The folders, files and globs of a search, and the folder that they begin at if it is not the primary root. A glob without
    /// a slash matches at any depth, so the folder cannot simply stand in front of it.
    pub(super) fn scope(&self, typed: &[OsString]) -> SearchScope {
        let here = [OsString::from(".")];
        let typed = if typed.is_empty() { &here } else { typed };
        let leaves = |path: &OsString| {
            path.as_bytes().starts_with(b"/") || path.as_bytes().split(|byte| *byte == b'/').any(|name| name == b"..")
        };
        let is_text = std::str::from_utf8(&self.folder).is_ok();
        if !self.sends_in_full || (is_text && !typed.iter().any(leaves)) {
            let base_dir =
                self.sends_in_full.then(|| String::from_utf8_lossy(without_slash(&self.folder)).into_owned());
            return SearchScope { paths: typed.iter().map(|path| wire_path(path)).collect(), base_dir };
        }
        // Paths that leave the folder are refused below a `base_dir`.
        let is_name_glob = |path: &OsString| {
            !path.as_bytes().contains(&b'/') && path.as_bytes().iter().any(|byte| GLOB_LETTERS.contains(byte))
        };
        let sent = |path: &OsString| match is_name_glob(path) {
            true => wire_path(OsStr::from_bytes(&[&escape_glob(&self.folder), &b"**/"[..], path.as_bytes()].concat())),
            // A path without `*` and `?` that exists is never read as a glob.
            false if !path.as_bytes().starts_with(b"/") && path.as_bytes().iter().any(|byte| b"*?".contains(byte)) => {
                wire_path(OsStr::from_bytes(&[&escape_glob(&self.folder), path.as_bytes()].concat()))
            }
            false => self.wire_path(path),
        };
        SearchScope { paths: typed.iter().map(sent).collect(), base_dir: None }
    }

    /// A glob over file paths, which the service compares with the path below the root. Without a slash it matches at any depth.
    pub(super) fn place_glob(&self, glob: &str) -> String {
        let below_root = &self.folder[self.root.len()..];
        let glob_path = glob.strip_prefix("./").unwrap_or(glob);
        match std::str::from_utf8(&escape_glob(below_root)) {
            Ok(folder) if self.sends_in_full && glob_path.trim_start_matches('/').contains('/') => {
                format!("{folder}{}", glob_path.trim_start_matches('/'))
            }
            _ => glob.to_owned(),
        }
    }

    /// The path of a reply in the form that a user would type here.
    pub(super) fn shorten(&self, path: &str, path_bytes: Option<&str>) -> Vec<u8> {
        let bytes = reply_path(path, path_bytes);
        if let Some(below) = bytes.strip_prefix(self.folder.as_slice()) {
            return below.to_vec();
        }
        if bytes == without_slash(&self.folder) && self.sends_in_full {
            return b".".to_vec();
        }
        match bytes.strip_prefix(self.root.as_slice()) {
            Some(below_root) if self.sends_in_full => self.climb_to(below_root),
            _ => bytes,
        }
    }

    /// `../` as often as needed, then the rest, for a path below the same root.
    fn climb_to(&self, below_root: &[u8]) -> Vec<u8> {
        let names = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
        };
        let (folder, path) = (names(&self.folder[self.root.len()..]), names(below_root));
        let common = folder.iter().zip(&path).take_while(|(one, other)| one == other).count();
        let up = std::iter::repeat_n(b"..".to_vec(), folder.len() - common);
        up.chain(path.into_iter().skip(common)).collect::<Vec<_>>().join(&b'/')
    }
}

/// The paths to search, in the form that `find` and `search` send.
#[derive(Debug)]
pub(super) struct SearchScope {
    pub(super) paths: Vec<Value>,
    pub(super) base_dir: Option<String>,
}

impl SearchScope {
    pub(super) fn write_to(self, request: &mut Value) {
        request["paths"] = self.paths.into();
        if let Some(folder) = self.base_dir {
            request["base_dir"] = folder.into();
        }
    }
}

/// The bytes of a path in a reply.
pub(super) fn reply_path(path: &str, path_bytes: Option<&str>) -> Vec<u8> {
    let bytes = path_bytes.and_then(|bytes| BASE64.decode(bytes).ok());
    bytes.unwrap_or_else(|| path.as_bytes().to_vec())
}

fn with_slash(path: &[u8]) -> Vec<u8> {
    [without_slash(path), b"/"].concat()
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// The glob that matches this path alone.
pub(super) fn escape_glob(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        letter if GLOB_LETTERS.contains(letter) => vec![b'[', *letter, b']'],
        b'\\' => b"\\\\".to_vec(),
        other => vec![*other],
    };
    path.iter().flat_map(escape).collect()
}

/// `path`, or `path_bytes` for a name that is not UTF-8.
pub(super) fn wire_path(path: &OsStr) -> Value {
    let mut entry = json!({});
    set_path(&mut entry, "path", path);
    entry
}

/// A name in the field, or in base64 in the field with `_bytes` behind it.
pub(super) fn set_path(entry: &mut Value, field: &str, name: &OsStr) {
    match name.to_str() {
        Some(name) => entry[field] = name.into(),
        None => entry[format!("{field}_bytes")] = BASE64.encode(name.as_encoded_bytes()).into(),
    }
}

/// The name in a field or in its second form, which is removed.
fn taken_path(entry: &mut Value, field: &str) -> Option<OsString> {
    let fields = entry.as_object_mut()?;
    if let Some(Value::String(text)) = fields.remove(field) {
        return Some(text.into());
    }
    let Some(Value::String(base64)) = fields.remove(&format!("{field}_bytes")) else { return None };
    BASE64.decode(base64).ok().map(OsString::from_vec)
}

/// A name as it was typed, safe for a terminal.
pub(super) fn display_path(path: &OsStr) -> String {
    escape::name(path.as_encoded_bytes())
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
