//! Runs in the supervisor on every question: checks that a path of a worker is normalised, before anything is opened with it.
//! Trusts no worker. Pure.

use super::{MAX_COMPONENT_BYTES, MAX_PATH_BYTES};

/// Accepts only a normalised path, so that nothing that the supervisor tests lexically (deny globs, modes) can differ from what the
/// kernel resolves. The root itself is the empty path.
pub fn is_normalised(rel: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && name.len() <= MAX_COMPONENT_BYTES;
    let has_nul = memchr::memchr(0, rel).is_some();
    !has_nul && rel.len() <= MAX_PATH_BYTES && (rel.is_empty() || rel.split(|&byte| byte == b'/').all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normalised_paths_pass_the_check() {
        for good in ["", "a", "a/b", "..a", "a..", "...", ".a", " ", "a\\b", "~", "%2e%2e"] {
            assert!(is_normalised(good.as_bytes()), "{good:?}");
        }
        for bad in ["/", "/a", "a/", "a//b", ".", "..", "a/..", "a/../b", "./a", "a/.", "a\0b", "\0"] {
            assert!(!is_normalised(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_bounded_exactly() {
        assert!(is_normalised(&[b'a'; 255]) && !is_normalised(&[b'a'; 256]));
        let mut path = b"ab/".repeat(1366);
        path.pop();
        assert_eq!(path.len(), 4097);
        assert!(!is_normalised(&path) && is_normalised(&path[..4096]));
    }
}
