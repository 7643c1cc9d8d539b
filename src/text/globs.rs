//! Globs of a request. Bounded before they are compiled: a glob becomes a regex, and a client's must not become a large
//! one.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use super::quote::quote;

/// Globs of one list.
pub const MAX_GLOBS: usize = 100;
/// Bytes of all globs of one list.
pub const MAX_GLOBS_BYTES: usize = 8 << 10;
/// Braces within braces.
const MAX_NESTING: usize = 8;
/// Characters of a glob that an error text shows.
const MAX_QUOTED_CHARS: usize = 60;

/// Whether a star matches a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StarAtSlash {
    /// globset's default, and the policy's: `*` and `?` cross it.
    Crosses,
    /// As in a shell: only `**` matches a slash.
    Stops,
}

/// The error names the wrong glob and the mistake.
pub fn compile(globs: &[String], star: StarAtSlash) -> Result<GlobSet, String> {
    if globs.len() > MAX_GLOBS {
        return Err(format!("{} globs are too many; at most {MAX_GLOBS}", globs.len()));
    }
    let bytes: usize = globs.iter().map(String::len).sum();
    if bytes > MAX_GLOBS_BYTES {
        return Err(format!("{bytes} bytes of globs are too many; at most {MAX_GLOBS_BYTES}"));
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        if nesting(glob) > MAX_NESTING {
            return Err(format!(
                "{}: braces nest too deep; at most {MAX_NESTING} levels",
                quote(glob, MAX_QUOTED_CHARS)
            ));
        }
        let built = GlobBuilder::new(glob).literal_separator(star == StarAtSlash::Stops).build();
        set.add(built.map_err(|error| format!("{}: {}", quote(glob, MAX_QUOTED_CHARS), error.kind()))?);
    }
    // Each compiled alone; together they may still be too large for the regex engine.
    set.build().map_err(|error| format!("the globs are too large when compiled: {}", error.kind()))
}

pub fn matches(set: &GlobSet, path: &[u8]) -> bool {
    set.is_match_candidate(&Candidate::from_bytes(path))
}

fn nesting(glob: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in glob.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(glob: &str, star: StarAtSlash, path: &str) -> bool {
        matches(&compile(&[glob.to_owned()], star).unwrap(), path.as_bytes())
    }

    #[test]
    fn a_star_crosses_slashes_or_stops_at_them() {
        assert!(hits("*.rs", StarAtSlash::Crosses, "a/b.rs") && !hits("*.rs", StarAtSlash::Stops, "a/b.rs"));
        assert!(hits("**/*.rs", StarAtSlash::Stops, "a/b.rs") && hits("**/*.rs", StarAtSlash::Stops, "b.rs"));
        assert!(hits("{a,b}/?.rs", StarAtSlash::Stops, "b/c.rs") && !hits("a?b", StarAtSlash::Stops, "a/b"));
    }

    #[test]
    fn bombs_are_refused_before_they_are_compiled() {
        let refused = |globs: &[String]| compile(globs, StarAtSlash::Crosses).unwrap_err();
        assert!(refused(&vec!["*".to_owned(); 101]).contains("at most 100"));
        assert!(refused(&["a".repeat(9000)]).contains("at most 8192"));
        assert!(refused(&["{".repeat(4000)]).contains("nest too deep"));
        assert!(refused(&["[a".to_owned()]).contains("\"[a\": "));
        assert!(refused(&["é[".repeat(200)]).contains('…'));
    }

    #[test]
    fn the_largest_that_is_allowed_compiles_or_is_refused_within_a_moment() {
        let start = std::time::Instant::now();
        for glob in ["{a,b}", "[a-\u{10ffff}]", "**/*?", "{*,?}{*,?}"] {
            let _ = compile(&[glob.repeat(MAX_GLOBS_BYTES / glob.len())], StarAtSlash::Stops);
        }
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
