//! Paths as requests carry them, and as results show them.

use std::os::unix::ffi::OsStrExt;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    jail::Jail,
    path::{JailPath, RawPath},
    wire::{Error, Result, compat::WireVersion},
};

/// `path` or `path_bytes`, not both; None when neither is there.
pub(super) fn decode_path(path: Option<&str>, path_bytes: Option<&str>) -> Result<Option<RawPath>> {
    decode_path_field("path", path, path_bytes)
}

/// Like `decode_path`, for another field.
pub(super) fn decode_path_field(field: &str, text: Option<&str>, bytes: Option<&str>) -> Result<Option<RawPath>> {
    match (text, bytes) {
        (Some(_), Some(_)) => Err(Error::bad_input(format!("give {field} or {field}_bytes, not both"))),
        (Some(path), None) => Ok(Some(RawPath::text(path))),
        (None, Some(bytes)) => STANDARD.decode(bytes).map(|bytes| Some(RawPath::bytes(bytes))).map_err(|_| {
            Error::bad_input(format!(
                "{field}_bytes: not base64; expected standard base64 with padding, for example \"YS50eHQ=\""
            ))
        }),
        (None, None) => Ok(None),
    }
}

/// A name for a result: text, lossy if need be, and then also base64.
pub(super) fn encode_name(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(STANDARD.encode(bytes))),
    }
}

/// Like `encode_name`, for the canonical absolute path; relative to its root in a wire that has no other paths.
pub(super) fn encode_path(jail: &Jail, path: &JailPath) -> (String, Option<String>) {
    if jail.settings().wire == WireVersion::V02 {
        return encode_name(if path.is_root() { b"." } else { path.rel() });
    }
    encode_name(jail.roots().absolute(path).as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    #[test]
    fn both_names_are_refused() {
        let error = decode_path(Some("a"), Some("YQ==")).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.message.contains("not both"));
    }

    #[test]
    fn bad_base64_names_the_field_and_an_example() {
        for bad in ["*", "YQ", "YQ==\n"] {
            let error = decode_path(None, Some(bad)).unwrap_err();
            assert_eq!(error.code, Code::BadInput);
            assert!(error.message.contains("path_bytes") && error.message.contains("YS50eHQ="), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_is_shown_twice() {
        assert_eq!(encode_name(b"a\xff"), ("a\u{fffd}".to_owned(), Some("Yf8=".to_owned())));
        assert_eq!(encode_name("é".as_bytes()), ("é".to_owned(), None));
    }
}
