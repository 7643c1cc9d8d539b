//! The order of paths: component by component, each by its bytes. So a folder's content stands together, where plain
//! byte order would put `a.txt` between `a` and `a/b`.

use std::cmp::Ordering;

/// A slash is smaller than every byte of a name: no name has a NUL.
pub fn by_component(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.iter().zip(b).position(|(a, b)| a != b);
    let Some(at) = common else { return a.len().cmp(&b.len()) };
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    rank(a[at]).cmp(&rank(b[at]))
}

/// The part of `path` after `folder`, by whole components; None if it is not below.
pub fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    match (folder, path.strip_prefix(folder)?) {
        (_, []) => None,
        (b"" | [.., b'/'], rest) | (_, [b'/', rest @ ..]) => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn paths_compare_as_lists_of_names(a in "[!-1a]{1,2}(/[!-1a]{1,2}){0,2}", b in "[!-1a]{1,2}(/[!-1a]{1,2}){0,2}") {
            let names = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
            prop_assume!(!a.contains("//") && !b.contains("//") && !a.ends_with('/') && !b.ends_with('/'));
            prop_assert_eq!(by_component(a.as_bytes(), b.as_bytes()), names(&a).cmp(&names(&b)));
        }
    }

    #[test]
    fn below_goes_by_whole_names() {
        for (path, folder, rest) in [
            ("a/b", "a", Some("b")),
            ("a/b", "", Some("a/b")),
            ("/a/b", "/", Some("a/b")),
            ("a", "a", None),
            ("ab/c", "a", None),
            ("a", "a/b", None),
            ("", "", None),
        ] {
            assert_eq!(below(path.as_bytes(), folder.as_bytes()), rest.map(str::as_bytes), "{path} {folder}");
        }
    }
}
