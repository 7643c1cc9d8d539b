//! Runs in `stockade mcp`: contents of files that replies hold a place for while `rmcp` has them.
//! Does not trust names or contents: the mark of a place cannot be guessed, so that nothing in a file, a name or an id of the
//! host's can look like one.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use memchr::memmem;
use rmcp::model::RequestId;

use super::render::Written;

/// More are made whole.
const MAX_KEPT: usize = 256;
/// Hex digits of a number.
const DIGITS: usize = 16;

#[derive(Debug)]
pub(super) struct Contents {
    /// Begins every mark: hex digits that no message of this process has otherwise.
    secret: memmem::Finder<'static>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    by_number: HashMap<u64, (RequestId, Written<'static>)>,
}

impl Default for Contents {
    fn default() -> Self {
        let random = || RandomState::new().hash_one(0u8);
        let secret = format!("{:016x}{:016x}", random(), random());
        Self { secret: memmem::Finder::new(secret.as_bytes()).into_owned(), kept: Mutex::default() }
    }
}

impl Contents {
    /// The mark that stands for it in the reply to this request. Gives it back where there is no room for it.
    pub(super) fn keep(&self, id: &RequestId, content: Written<'static>) -> Result<String, Written<'static>> {
        let mut kept = self.kept();
        if kept.by_number.len() >= MAX_KEPT {
            return Err(content);
        }
        kept.last += 1;
        let number = kept.last;
        kept.by_number.insert(number, (id.clone(), content));
        Ok(format!("{}{number:016x}", String::from_utf8_lossy(self.secret.needle())))
    }

    /// A reply that will never be sent.
    pub(super) fn forget(&self, id: &RequestId) {
        self.kept().by_number.retain(|_, (of, _)| of != id);
    }

    /// Puts the content, which is JSON already, where the message from `begin` on has a mark.
    pub(super) fn insert_into(&self, lines: &mut Vec<u8>, begin: usize) {
        let Some(at) = self.secret.find(&lines[begin..]) else { return };
        let number = begin + at + self.secret.needle().len();
        let Some(content) = lines.get(number..number + DIGITS).and_then(|digits| self.take(digits)) else {
            return;
        };
        // The little that stands behind it moves, not the content.
        let behind = lines.split_off(number + DIGITS);
        lines.truncate(begin + at);
        lines.extend_from_slice(content.as_str().as_bytes());
        lines.extend_from_slice(&behind);
    }

    fn take(&self, digits: &[u8]) -> Option<Written<'static>> {
        let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        self.kept().by_number.remove(&number).map(|(_, content)| content)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Written<'static> {
        let json = serde_json::to_string(text).unwrap();
        serde_json::from_str::<Written<'_>>(&json).unwrap().into_owned()
    }

    #[test]
    fn a_content_comes_to_its_own_place_and_is_gone_then() {
        let contents = Contents::default();
        let texts = ["x\\ \u{1} \"é\"\n", "", "of another"];
        let ids = ["a", "a", "b"].map(|id| RequestId::String(id.into()));
        let marks: Vec<String> =
            texts.iter().zip(&ids).map(|(text, id)| contents.keep(id, written(text)).unwrap()).collect();
        for (text, mark) in texts.iter().zip(&marks).rev() {
            let mut lines = b"{\"of\":\"another message\"}\n".to_vec();
            let begin = lines.len();
            // Names that try to look like a place.
            let around = ("x\\u0001\u{1} 0000000000000001\n", "\nend \"quoted\"");
            let line = serde_json::to_string(&format!("{}{mark}{}", around.0, around.1)).unwrap();
            lines.extend_from_slice(line.as_bytes());
            contents.insert_into(&mut lines, begin);
            let said: String = serde_json::from_slice(&lines[begin..]).unwrap();
            assert_eq!(said, format!("{}{text}{}", around.0, around.1));
        }
        assert!(contents.kept().by_number.is_empty());
    }

    #[test]
    fn what_is_never_sent_is_forgotten_and_what_has_no_room_is_given_back() {
        let contents = Contents::default();
        let (gone, other) = (RequestId::Number(1), RequestId::Number(2));
        contents.keep(&gone, written("gone")).unwrap();
        contents.keep(&other, written("other")).unwrap();
        contents.forget(&gone);
        assert_eq!(contents.kept().by_number.len(), 1);
        while contents.keep(&other, written("")).is_ok() {}
        assert_eq!(contents.kept().by_number.len(), MAX_KEPT);
        assert_eq!(contents.keep(&gone, written("back")).unwrap_err(), written("back"));
    }
}
