//! Hits for reading: names under their folders. Pure.

use std::borrow::Cow;

use super::collect::FindHit;
use crate::{sys::fs::FileKind, text::order};

/// A longer text is cut, and ends with a line that says so.
const MAX_TEXT_BYTES: usize = 50 << 10;
const CUT_LINE: &str = "… more entries in `files`\n";

/// Those of the folder itself first, then one heading per folder below it.
pub(super) fn text(hits: &[FindHit], scope: &[u8]) -> String {
    if hits.is_empty() {
        return "no files found\n".into();
    }
    let mut named: Vec<(&[u8], Cow<'_, str>)> = hits.iter().map(|hit| folder_and_name(hit, scope)).collect();
    // Stable: within a folder the order of the reply stays.
    named.sort_by(|a, b| order::by_component(a.0, b.0));
    let mut text = String::new();
    let mut folder: &[u8] = b"";
    for (at, name) in named {
        let heading = if at == folder { String::new() } else { format!("\n# {}/\n", String::from_utf8_lossy(at)) };
        if text.len() + heading.len() + name.len() + 1 > MAX_TEXT_BYTES - CUT_LINE.len() {
            text.push_str(CUT_LINE);
            break;
        }
        text.push_str(if text.is_empty() { heading.trim_start() } else { &heading });
        text.push_str(&name);
        text.push('\n');
        folder = at;
    }
    text
}

/// Its folder below the scope, and its name.
fn folder_and_name<'a>(hit: &'a FindHit, scope: &[u8]) -> (&'a [u8], Cow<'a, str>) {
    let below = order::below(&hit.path, scope).unwrap_or(&hit.path);
    let (folder, name) = match memchr::memrchr(b'/', below) {
        Some(slash) => (&below[..slash], &below[slash + 1..]),
        None => (&b""[..], below),
    };
    let name = String::from_utf8_lossy(name);
    (folder, if hit.kind == FileKind::Dir { name + "/" } else { name })
}

/// The nearest folder around all of them, absolute.
pub(super) fn common_folder(folders: &[Vec<u8>]) -> Vec<u8> {
    let Some((first, others)) = folders.split_first() else { return b"/".to_vec() };
    let mut common = first.as_slice();
    for other in others {
        while common != other.as_slice() && order::below(other, common).is_none() {
            let slash = memchr::memrchr(b'/', common).unwrap_or(0);
            common = &common[..slash];
        }
    }
    if common.is_empty() { b"/".to_vec() } else { common.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(paths: &[&str]) -> Vec<FindHit> {
        let kind = |path: &str| if path.ends_with("dir") { FileKind::Dir } else { FileKind::File };
        paths.iter().map(|path| FindHit::without_stat(path.as_bytes().to_vec(), kind(path))).collect()
    }

    #[test]
    fn names_stand_under_their_folders_and_the_scope_comes_first() {
        let hits = hits(&["/r/b/x", "/r/top", "/r/a/y", "/r/b/w", "/r/a/dir", "/r/a/c/z"]);
        assert_eq!(text(&hits, b"/r"), "top\n\n# a/\ny\ndir/\n\n# a/c/\nz\n\n# b/\nx\nw\n");
        assert_eq!(text(&hits[..1], b"/r"), "# b/\nx\n");
        assert_eq!(text(&[], b"/r"), "no files found\n");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let many: Vec<String> = (0..9000).map(|i| format!("/r/{i:09}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = text(&hits(&many), b"/r");
        assert!(text.len() <= MAX_TEXT_BYTES && text.ends_with(CUT_LINE));
    }

    #[test]
    fn the_common_folder_goes_by_whole_names() {
        let common = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
            String::from_utf8(common_folder(&paths)).unwrap()
        };
        assert_eq!(common(&["/r/a", "/r/ab"]), "/r");
        assert_eq!(common(&["/r/a", "/r/a/b"]), "/r/a");
        assert_eq!(common(&["/r/a/b", "/r/a"]), "/r/a");
        assert_eq!(common(&["/x", "/y"]), "/");
    }
}
