//! A checked path: an index into the root table and a normalised path below that root. Runs in the worker; the supervisor takes
//! root and path apart from a question and checks them again. Pure.

/// Normalised: no `.`, `..`, empty component, leading or trailing slash; empty = the root itself.
/// Made only by `RootTable` and by joining one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JailPath {
    root: u16,
    rel: Vec<u8>,
}

impl JailPath {
    pub(super) fn new(root: u16, rel: Vec<u8>) -> Self {
        // Not `is_normalised`: a path that a walk has joined may be longer.
        let is_bad = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.contains(&0);
        debug_assert!(
            is_unchecked() || rel.is_empty() || !rel.split(|byte| *byte == b'/').any(is_bad),
            "a JailPath is normalised"
        );
        Self { root, rel }
    }

    pub fn root(&self) -> u16 {
        self.root
    }

    pub fn rel(&self) -> &[u8] {
        &self.rel
    }

    pub fn is_root(&self) -> bool {
        self.rel.is_empty()
    }

    /// None for the root itself: its name belongs to the folder above, which is outside.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.parent_and_leaf().map(|(_, leaf)| leaf)
    }

    /// Relative path of the parent (empty = the root) and the last name; None for the root itself.
    pub fn parent_and_leaf(&self) -> Option<(&[u8], &[u8])> {
        if self.rel.is_empty() {
            return None;
        }
        Some(match memchr::memrchr(b'/', &self.rel) {
            Some(slash) => (&self.rel[..slash], &self.rel[slash + 1..]),
            None => (&[], &self.rel[..]),
        })
    }

    /// Both relative to the same root; `RootTable::is_at_or_below` also compares paths of nested roots.
    pub fn is_at_or_below(&self, above: &Self) -> bool {
        self.root == above.root && (above.is_root() || super::lexical::beneath(&self.rel, &above.rel).is_some())
    }

    /// One level down, for walks. `name` is an entry of a directory: one component, neither `.` nor `..`.
    /// The result may be longer than `MAX_PATH_BYTES` (a walk goes by descriptors); the supervisor then refuses it (`is_normalised`).
    pub fn join(&self, name: &[u8]) -> Self {
        let mut rel = Vec::with_capacity(self.rel.len() + 1 + name.len());
        rel.extend_from_slice(&self.rel);
        if !rel.is_empty() {
            rel.push(b'/');
        }
        rel.extend_from_slice(name);
        Self::new(self.root, rel)
    }
}

/// A weakened build lets `..` through to the kernel: the assertion would be a layer of its own and hide Landlock's.
fn is_unchecked() -> bool {
    #[cfg(feature = "weakened")]
    return crate::sys::weakened::is_off(crate::sys::weakened::CHECKS);
    #[cfg(not(feature = "weakened"))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_name_and_no_parent() {
        let root = JailPath::new(0, vec![]);
        assert!(root.is_root() && root.file_name().is_none() && root.parent_and_leaf().is_none());
        let child = root.join(b"a");
        assert_eq!(child.parent_and_leaf(), Some((&b""[..], &b"a"[..])));
        assert_eq!(child.join(b"b").join(b"c").parent_and_leaf(), Some((&b"a/b"[..], &b"c"[..])));
    }
}
