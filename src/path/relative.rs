//! Runs in the supervisor on every question: checks that a path of a worker is normalised, before anything is opened with it.
//! Trusts no worker. Pure.

use super::{MAX_COMPONENT_BYTES, MAX_PATH_BYTES};

/// Why bytes are not a normalised relative path. Only a broken or hostile worker meets this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRelative {
    #[error("a NUL byte")]
    Nul,
    #[error("an empty, `.` or `..` component")]
    Component,
    #[error("too long")]
    TooLong,
    #[error("no such root")]
    Root,
}

/// Accepts only a normalised path, so that nothing that the supervisor tests lexically (deny globs, modes) can differ from what the
/// kernel resolves.
pub fn check_relative(rel: &[u8]) -> Result<(), BadRelative> {
    if memchr::memchr(0, rel).is_some() {
        return Err(BadRelative::Nul);
    }
    if rel.is_empty() {
        return Ok(());
    }
    for component in rel.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." | b".." => return Err(BadRelative::Component),
            long if long.len() > MAX_COMPONENT_BYTES => return Err(BadRelative::TooLong),
            _ => {}
        }
    }
    if rel.len() > MAX_PATH_BYTES { Err(BadRelative::TooLong) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normalised_paths_pass_the_check() {
        for good in ["", "a", "a/b", "..a", "a..", "...", ".a", " ", "a\\b", "~", "%2e%2e"] {
            assert_eq!(check_relative(good.as_bytes()), Ok(()), "{good:?}");
        }
        for bad in ["/", "/a", "a/", "a//b", ".", "..", "a/..", "a/../b", "./a", "a/."] {
            assert_eq!(check_relative(bad.as_bytes()), Err(BadRelative::Component), "{bad:?}");
        }
        assert_eq!(check_relative(b"a\0b"), Err(BadRelative::Nul));
    }

    #[test]
    fn lengths_are_bounded_exactly() {
        assert_eq!(check_relative(&[b'a'; 255]), Ok(()));
        assert_eq!(check_relative(&[b'a'; 256]), Err(BadRelative::TooLong));
        let mut path = b"ab/".repeat(1366);
        path.pop();
        assert_eq!(path.len(), 4097);
        assert_eq!(check_relative(&path), Err(BadRelative::TooLong));
        assert_eq!(check_relative(&path[..4096]), Ok(()));
    }
}
