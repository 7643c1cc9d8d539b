//! A path as the client sent it, unchecked. Only `RootTable::locate` reads its content.

/// Either text (`path`) or bytes (`path_bytes`, for names that are not UTF-8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawPath {
    sent: RawPathForm,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RawPathForm {
    Text(String),
    Bytes { bytes: Vec<u8>, lossy: String },
}

impl RawPath {
    pub fn text(path: impl Into<String>) -> Self {
        Self { sent: RawPathForm::Text(path.into()) }
    }

    /// Bytes that happen to be UTF-8 are the same path as that text.
    pub fn bytes(path: Vec<u8>) -> Self {
        let sent = match String::from_utf8(path) {
            Ok(text) => RawPathForm::Text(text),
            Err(error) => {
                let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
                RawPathForm::Bytes { bytes: error.into_bytes(), lossy }
            }
        };
        Self { sent }
    }

    /// As sent, for error texts and the `path` of failed results; lossy when it was not UTF-8.
    pub fn display(&self) -> &str {
        match &self.sent {
            RawPathForm::Text(text) => text,
            RawPathForm::Bytes { lossy, .. } => lossy,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match &self.sent {
            RawPathForm::Text(text) => text.as_bytes(),
            RawPathForm::Bytes { bytes, .. } => bytes,
        }
    }
}

impl From<&str> for RawPath {
    fn from(path: &str) -> Self {
        Self::text(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_what_text_cannot_hold() {
        let raw = RawPath::bytes(b"a\xff".to_vec());
        assert_eq!((raw.as_bytes(), raw.display()), (&b"a\xff"[..], "a\u{fffd}"));
    }

    #[test]
    fn utf8_bytes_are_the_text() {
        assert_eq!(RawPath::bytes("é".into()), RawPath::text("é"));
    }
}
