//! The root table: turns what a client sent into a `JailPath`, or into the error the client reads.
//! Runs in the worker, and in `stockade policy explain`; never in the supervisor, which takes no path as a client sent it and
//! checks those of a worker with `is_normalised`.

mod raw;

use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

pub use raw::RawPath;

use super::{
    JailPath, MAX_COMPONENT_BYTES, MAX_PATH_BYTES, Root, is_normalised,
    lexical::{beneath, collapse},
};
use crate::wire::{Code, Error, Result};

/// Characters of an over-long path that an error repeats.
const SHOWN_CHARS: usize = 80;

/// The roots of one profile, in order; the first is primary.
#[derive(Debug, Clone)]
pub struct RootTable {
    roots: Vec<Root>,
    /// Absolute bytes of each root, normalised, no trailing slash.
    prefixes: Vec<Vec<u8>>,
    /// Whether one of the roots is inside another.
    is_nested: bool,
}

/// Why a root number and bytes are not a path of the jail. Only a planted note or a broken check leads here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("no such root")]
    Root,
    #[error("too long, or not normalised")]
    Relative,
}

impl RootTable {
    /// # Panics
    /// Without a root, or with more than `u16::MAX`: the policy refuses both before a profile exists.
    pub fn new(roots: Vec<Root>) -> Self {
        assert!(!roots.is_empty(), "a profile has at least one root");
        assert!(roots.len() <= usize::from(u16::MAX), "roots are numbered by u16");
        let prefixes: Vec<Vec<u8>> =
            roots.iter().map(|root| collapse(b"", root.path.as_os_str().as_bytes()).path).collect();
        let lies_in_another =
            |inner: &Vec<u8>| prefixes.iter().any(|outer| beneath(inner, outer).is_some_and(|below| !below.is_empty()));
        let is_nested = prefixes.iter().any(lies_in_another);
        Self { roots, prefixes, is_nested }
    }

    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    pub fn primary(&self) -> &Root {
        &self.roots[0]
    }

    /// The root that the path is relative to. Its rules need not be the path's: see `rules`.
    pub fn root(&self, path: &JailPath) -> &Root {
        &self.roots[usize::from(path.root())]
    }

    /// The rules for a path: those of the innermost root that holds it. A walk can reach an inner root by a path that is
    /// relative to an outer one.
    pub fn rules(&self, path: &JailPath) -> &Root {
        if !self.is_nested {
            return self.root(path);
        }
        let inner = self.innermost_path(&self.absolute_bytes(path));
        inner.map_or_else(|| self.root(path), |inner| &self.roots[usize::from(inner.root())])
    }

    /// Whether `path` is `above` or lies below it, whichever roots the two are relative to.
    pub fn is_at_or_below(&self, path: &JailPath, above: &JailPath) -> bool {
        path.is_at_or_below(above)
            || (self.is_nested && beneath(&self.absolute_bytes(path), &self.absolute_bytes(above)).is_some())
    }

    /// Whether one of the roots is inside another.
    pub fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// The roots that `path` enters on its way down from its own: the lengths of their paths in it, outermost first.
    pub fn inner_roots(&self, path: &JailPath) -> Vec<usize> {
        let outer = self.prefixes[usize::from(path.root())].as_slice();
        let inner = self.prefixes.iter().filter_map(|inner| beneath(inner, outer));
        let entered = inner.filter(|at| !at.is_empty() && beneath(path.rel(), at).is_some());
        let mut lengths: Vec<usize> = entered.map(<[u8]>::len).collect();
        lengths.sort_unstable();
        lengths
    }

    /// The full name, for results. Never opened: only descriptors of roots are.
    pub fn absolute(&self, path: &JailPath) -> PathBuf {
        let mut bytes = self.absolute_bytes(path);
        if bytes.is_empty() {
            bytes.push(b'/');
        }
        PathBuf::from(std::ffi::OsString::from_vec(bytes))
    }

    /// A path below a root that is normalised already.
    pub fn check(&self, root: u16, rel: &[u8]) -> Result<JailPath, BadPath> {
        if usize::from(root) >= self.roots.len() {
            return Err(BadPath::Root);
        }
        if is_normalised(rel) { Ok(JailPath::new(root, rel.to_vec())) } else { Err(BadPath::Relative) }
    }

    /// The path of a request. Relative ones anchor at `base_dir`, else at the primary root.
    pub fn locate(&self, raw: &RawPath, base_dir: Option<&RawPath>) -> Result<JailPath> {
        check_raw(raw, "")?;
        #[cfg(feature = "weakened")]
        if crate::sys::weakened::is_off(crate::sys::weakened::CHECKS) {
            return Ok(JailPath::new(0, raw.as_bytes().to_vec()));
        }
        let path = match base_dir {
            None => self.locate_anywhere(raw)?,
            Some(base) => self.locate_below(raw, base)?,
        };
        if path.rel().len() > MAX_PATH_BYTES {
            return Err(too_long(raw, ""));
        }
        Ok(path)
    }

    fn locate_anywhere(&self, raw: &RawPath) -> Result<JailPath> {
        if is_absolute(raw) {
            let walk = collapse(b"", raw.as_bytes());
            return self.innermost_path(&walk.path).ok_or_else(|| self.outside_all(raw));
        }
        let primary = &self.prefixes[0];
        let walk = collapse(primary, raw.as_bytes());
        // A path that climbs above its root is refused even if it comes back or ends in another root: clients must not depend
        // on names above a root.
        if walk.min_len < primary.len() {
            return Err(outside_root(raw, &self.roots[0]));
        }
        self.innermost_path(&walk.path).ok_or_else(|| outside_root(raw, &self.roots[0]))
    }

    fn locate_below(&self, raw: &RawPath, base_dir: &RawPath) -> Result<JailPath> {
        check_raw(base_dir, "base_dir ")?;
        let base = self.locate_anywhere(base_dir).map_err(|_| self.bad_base(base_dir))?;
        let anchor = self.absolute_bytes(&base);
        let (walk, climbed) = if is_absolute(raw) {
            (collapse(b"", raw.as_bytes()), false)
        } else {
            let walk = collapse(&anchor, raw.as_bytes());
            let climbed = walk.min_len < self.prefixes[usize::from(base.root())].len();
            (walk, climbed)
        };
        match (self.innermost_path(&walk.path), beneath(&walk.path, &anchor).is_some()) {
            (Some(path), true) if !climbed => Ok(path),
            (Some(_), false) => Err(outside_base(raw, base_dir)),
            _ if is_absolute(raw) => Err(self.outside_all(raw)),
            _ => Err(outside_root(raw, self.root(&base))),
        }
    }

    // Deepest root first: with nested roots one name then has one identity, and the inner root's rules
    // (its mode, its deny view) are the ones that the operator wrote for exactly this place.
    fn innermost_path(&self, absolute: &[u8]) -> Option<JailPath> {
        let mut best: Option<(usize, &[u8])> = None;
        for (index, prefix) in self.prefixes.iter().enumerate() {
            if let Some(rel) = beneath(absolute, prefix)
                && best.is_none_or(|(_, shortest)| rel.len() < shortest.len())
            {
                best = Some((index, rel));
            }
        }
        best.map(|(index, rel)| JailPath::new(index as u16, rel.to_vec()))
    }

    fn absolute_bytes(&self, path: &JailPath) -> Vec<u8> {
        let prefix = &self.prefixes[usize::from(path.root())];
        if path.is_root() { prefix.clone() } else { [prefix, &b"/"[..], path.rel()].concat() }
    }

    fn allowed(&self) -> String {
        let names: Vec<_> = self.roots.iter().map(|root| root.path.to_string_lossy()).collect();
        format!("Allowed roots: {}", names.join(", "))
    }

    fn outside_all(&self, raw: &RawPath) -> Error {
        Error::new(Code::OutsideRoots, format!("{}: outside every allowed root. {}", raw.display(), self.allowed()))
    }

    fn bad_base(&self, base_dir: &RawPath) -> Error {
        let text = format!("{}: base_dir is outside every allowed root. {}", base_dir.display(), self.allowed());
        Error::new(Code::OutsideRoots, text)
    }
}

fn outside_root(raw: &RawPath, root: &Root) -> Error {
    let root = root.path.to_string_lossy();
    Error::new(
        Code::OutsideRoots,
        format!("{}: leaves {root}, where relative paths begin; give a path below it", raw.display()),
    )
}

fn outside_base(raw: &RawPath, base_dir: &RawPath) -> Error {
    let text = format!(
        "{}: inside an allowed root, but outside this call's base_dir {}; give a path below base_dir",
        raw.display(),
        base_dir.display()
    );
    Error::new(Code::OutsideBaseDir, text)
}

fn too_long(raw: &RawPath, what: &str) -> Error {
    let shown: String = raw.display().chars().take(SHOWN_CHARS).collect();
    Error::bad_input(format!(
        "{what}{shown}…: too long; a path has at most {MAX_PATH_BYTES} bytes and each name in it at most {MAX_COMPONENT_BYTES}"
    ))
}

/// `what` is a prefix of the text ("" or "base_dir ").
fn check_raw(raw: &RawPath, what: &str) -> Result<()> {
    let bytes = raw.as_bytes();
    if bytes.len() > MAX_PATH_BYTES {
        return Err(too_long(raw, what));
    }
    if memchr::memchr(0, bytes).is_some() {
        let shown = raw.display().replace('\0', "\\0");
        return Err(Error::bad_input(format!("{what}{shown}: a path cannot hold a NUL byte")));
    }
    if bytes.split(|&byte| byte == b'/').any(|name| name.len() > MAX_COMPONENT_BYTES) {
        return Err(too_long(raw, what));
    }
    Ok(())
}

fn is_absolute(raw: &RawPath) -> bool {
    raw.as_bytes().first() == Some(&b'/')
}

#[cfg(test)]
mod tests;
