//! What `Jail::is_denied` says about the entries of a walk, faster: most deny globs are decided by a name alone. Only for
//! entries of folders that are themselves not denied.

use crate::{
    path::{Denied, JailPath, fold_path, is_private_name},
    text::name_globs::NameGlobs,
};

#[derive(Debug)]
pub(super) struct DeniedNames {
    /// In lower case, as names are compared.
    globs: NameGlobs,
    /// There are rules that only the whole path can decide.
    by_path: bool,
}

impl DeniedNames {
    pub(super) fn new(denied: &Denied) -> Self {
        let patterns = denied.globs().patterns();
        let folded: Vec<String> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
        let globs = NameGlobs::new(folded.iter().map(String::as_str));
        let is_ascii = patterns.iter().all(|pattern| pattern.is_ascii());
        let by_path = denied.depends_on_place() || !globs.others().is_empty() || !is_ascii;
        Self { globs, by_path }
    }

    pub(super) fn has(&self, denied: &Denied, folder: &JailPath, name: &[u8]) -> bool {
        if self.by_path || !name.is_ascii() {
            return denied.is_denied(&folder.join(name));
        }
        let is_hit = |name: &[u8]| self.globs.has_name(name) || (folder.is_root() && is_private_name(name));
        with_lower_case(name, is_hit)
    }

    /// All that lies in this folder is denied. It must not be opened: `has` decides about what is in it by names alone.
    pub(super) fn has_all_of(&self, name: &[u8]) -> bool {
        if name.is_ascii() {
            return with_lower_case(name, |name| self.globs.has_folder(name));
        }
        // A letter that is not ASCII may be another way to write one that is: `ſecrets` is `secrets`.
        self.globs.has_folder(&fold_path(name))
    }
}

/// Without an allocation: names have at most 255 bytes.
fn with_lower_case(name: &[u8], test: impl Fn(&[u8]) -> bool) -> bool {
    if !name.iter().any(u8::is_ascii_uppercase) {
        return test(name);
    }
    let mut buffer = [0; 256];
    let Some(lower) = buffer.get_mut(..name.len()) else { return false };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    test(lower)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::{AccessTimes, DenyGlobs, Hardlinks, Mode, Root, RootNames, RootTable, Symlinks};

    fn root(path: &str) -> Root {
        Root {
            path: path.into(),
            mode: Mode::Ro,
            symlinks: Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: Hardlinks::Allow,
            access_times: AccessTimes::OwnerOnly,
        }
    }

    /// As a walk asks, from the root down; None where it would not have come.
    fn walked(names: &DeniedNames, denied: &Denied, table: &RootTable, path: &str) -> Option<bool> {
        let mut folder = table.check(0, b"").unwrap();
        let mut rest = path.split('/').peekable();
        while let Some(name) = rest.next() {
            let is_denied = names.has(denied, &folder, name.as_bytes());
            if rest.peek().is_none() {
                return Some(is_denied);
            }
            if is_denied || names.has_all_of(name.as_bytes()) {
                return None;
            }
            folder = folder.join(name.as_bytes());
        }
        None
    }

    proptest! {
        #[test]
        fn a_walk_denies_what_the_jail_denies(
            globs in proptest::collection::vec("\\*\\*/[aBsKé.]{1,2}[*]?[aB.]{0,2}(/\\*\\*)?|[ab*]{1,2}(/[aB]{1,2})?", 0..4),
            is_nested: bool,
            // ſ and the Kelvin sign fold to letters of ASCII.
            path in "([abABéÉsſK\u{212a}][aBſ]{0,2}|\\.[sSſ]tockade(-[0aF]{16}|-a)?)(/([abABéÉſ\u{212a}][aB.]{0,2}|\\.[sſ]tockade(-[0aF]{16})?)){0,3}",
        ) {
            let valid = globs.into_iter().filter(|glob| DenyGlobs::new(std::slice::from_ref(glob)).is_ok());
            let globs = DenyGlobs::new(&valid.collect::<Vec<_>>()).unwrap();
            let mut roots = vec![root("/r")];
            roots.extend(is_nested.then(|| root("/r/a")));
            let denied = Denied::new(globs, &roots, &[], RootNames::default()).unwrap();
            let table = RootTable::new(roots);
            let names = DeniedNames::new(&denied);
            let expected = denied.is_denied(&table.check(0, path.as_bytes()).unwrap());
            match walked(&names, &denied, &table, &path) {
                Some(is_denied) => prop_assert_eq!(is_denied, expected),
                None => prop_assert!(expected, "a walk does not come to what is allowed"),
            }
        }
    }
}
