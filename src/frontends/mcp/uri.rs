//! Converts between `file:` URIs of this machine (RFC 8089) and paths. Runs in `stockade mcp`. Pure. Never guesses: a URI
//! that is not understood has no path.

/// The absolute path of a `file:` URI, without `.`, `..` and doubled slashes.
///
/// None if the scheme is another one, the host is not this machine, an escape is malformed, a name would hold a slash or
/// a NUL byte, the path is relative, climbs above `/` or is not UTF-8. Query and fragment are no part of a path (RFC 3986).
pub(super) fn path_of_uri(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/')?);
            let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
            is_here.then_some(path)?
        }
    };
    if !path.starts_with('/') {
        return None;
    }
    let names: Option<Vec<String>> = path.split('/').map(decode_percent).collect();
    normalise(names?.iter().map(String::as_str))
}

/// One name with its percent-encoded bytes decoded.
fn decode_percent(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut left = name.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(left.next())?, digit(left.next())?);
                u8::try_from(high << 4 | low).ok()?
            }
            other => other,
        });
    }
    let is_name = !bytes.iter().any(|byte| [b'/', 0].contains(byte));
    is_name.then(|| String::from_utf8(bytes).ok())?
}

/// An absolute path of these names, without `.`, `..` and empty ones; None if it climbs above `/`.
pub(super) fn normalise<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    for name in names {
        match name {
            "" | "." => {}
            ".." => {
                kept.pop()?;
            }
            name => kept.push(name),
        }
    }
    Some(format!("/{}", kept.join("/")))
}

/// The URI of an absolute path.
pub(super) fn uri_of_path(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(byte.into()),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_file_uri_has_its_path() {
        for uri in [
            "file:///srv/a%20b",
            "file:/srv/a%20b",
            "FILE:///srv/a%20b",
            "File:/srv/a%20b",
            "file://localhost/srv/a%20b",
            "file://LOCALHOST/srv/a%20b",
            "file:////srv//a%20b/",
            "file:///srv/./x/../a%20b/.",
            "file:///srv/%2E/x/%2e%2E/a%20b",
            "file:///srv/a%20b?query/../..",
            "file:///srv/a%20b#fragment",
            "file:///%73rv/a%20b",
        ] {
            assert_eq!(path_of_uri(uri).as_deref(), Some("/srv/a b"), "{uri}");
        }
        assert_eq!(path_of_uri("file:///").as_deref(), Some("/"));
        assert_eq!(path_of_uri("file:///%C3%A4").as_deref(), Some("/ä"));
    }

    #[test]
    fn what_is_not_understood_has_no_path() {
        for uri in [
            "",
            "/srv",
            "srv",
            "file:",
            "file://",
            "file:srv",
            "file://localhost",
            "file://srv",
            "file://other/srv",
            "file://localhost.evil/srv",
            "file://localhost:1/srv",
            "file://me@localhost/srv",
            "http:///srv",
            "files:///srv",
            " file:///srv",
            "file:///srv/%",
            "file:///srv/%2",
            "file:///srv/%zz",
            "file:///srv/%+1",
            "file:///srv/a%2Fb",
            "file:///srv/%00",
            "file:///srv/%ff",
            "file:///a/../..",
        ] {
            assert_eq!(path_of_uri(uri), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn a_path_survives_its_uri(names in prop::collection::vec("[^/\0]{1,8}", 0..4)) {
            let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| ![".", ".."].contains(name)).collect();
            let path = format!("/{}", names.join("/"));
            prop_assert_eq!(path_of_uri(&uri_of_path(&path)), Some(path));
        }
    }
}
