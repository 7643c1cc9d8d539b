//! Runs in the worker: a faster `Jail::is_denied` for the entries of a walk, because a name alone decides most deny globs. Trusts
//! the policy's globs; pure. Must only be used for entries of folders that are themselves not denied.

use crate::{
    path::{Denied, JailPath, fold_path, is_private_name},
    text::name_globs::{NameGlobs, is_plain},
};

#[derive(Debug)]
pub(in crate::jail) struct DeniedNames {
    /// In lower case, as names are compared.
    globs: NameGlobs,
    /// Last components, in lower case, of globs that need the whole path: other names cannot match these globs.
    path_dependent_names: Vec<Vec<u8>>,
    /// There are exceptions, so a name that a glob matches may still be allowed.
    has_exceptions: bool,
    /// There are rules that only the whole path can decide.
    needs_path: bool,
}

impl DeniedNames {
    pub(in crate::jail) fn new(denied: &Denied) -> Self {
        let patterns = denied.globs().patterns();
        let folded: Vec<String> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
        let globs = NameGlobs::new(folded.iter().map(String::as_str));
        let is_ascii = patterns.iter().all(|pattern| pattern.is_ascii());
        let last_names = globs.others().iter().map(|glob| last_name(glob));
        let doubtful: Option<Vec<Vec<u8>>> = last_names.map(|name| name.map(<[u8]>::to_vec)).collect();
        let by_path = denied.depends_on_location() || doubtful.is_none() || !is_ascii;
        let has_exceptions = !denied.globs().exceptions().is_empty();
        Self { globs, path_dependent_names: doubtful.unwrap_or_default(), has_exceptions, needs_path: by_path }
    }

    pub(in crate::jail) fn is_denied(&self, denied: &Denied, folder: &JailPath, name: &[u8]) -> bool {
        let by_path = || denied.is_denied(&folder.join(name));
        if self.needs_path || !name.is_ascii() {
            return by_path();
        }
        with_lower_case(name, |lower| {
            if (folder.is_root() && is_private_name(lower)) || (self.globs.has_name(lower) && !self.has_exceptions) {
                return true;
            }
            let is_doubtful =
                self.globs.has_name(lower) || self.path_dependent_names.iter().any(|known| known == lower);
            is_doubtful && by_path()
        })
    }

    /// Whether all content of the folder `name` with the path `path` is denied. A walk must not open such a folder, because `is_denied`
    /// decides by names alone.
    pub(in crate::jail) fn hides_content(&self, denied: &Denied, name: &[u8], path: impl FnOnce() -> JailPath) -> bool {
        // A character that is not ASCII may fold to one that is: `ſecrets` is `secrets`.
        let is_hit = match name.is_ascii() {
            true => with_lower_case(name, |name| self.globs.has_folder(name)),
            false => self.globs.has_folder(&fold_path(name)),
        };
        is_hit && (!self.has_exceptions || denied.hides_content(&path()))
    }
}

/// The last component of every path that a glob matches, if it is fixed.
fn last_name(glob: &str) -> Option<&[u8]> {
    let (_, name) = glob.rsplit_once('/')?;
    is_plain(name).then_some(name.as_bytes())
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
    use crate::path::{AccessTimes, DenyGlobs, Hardlinks, Mode, ProtectGlobs, Root, RootNames, RootTable, Symlinks};

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

    /// Tests a path as a walk would, from the root down; None if the walk would not have reached it.
    fn walked(names: &DeniedNames, denied: &Denied, table: &RootTable, path: &str) -> Option<bool> {
        let mut folder = table.check(0, b"").unwrap();
        let mut rest = path.split('/').peekable();
        while let Some(name) = rest.next() {
            let is_denied = names.is_denied(denied, &folder, name.as_bytes());
            if rest.peek().is_none() {
                return Some(is_denied);
            }
            if is_denied || names.hides_content(denied, name.as_bytes(), || folder.join(name.as_bytes())) {
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
            except in proptest::collection::vec("\\*\\*/[aBsKé.]{1,2}[*]?(/[aB]{1,2})?(/\\*\\*)?", 0..3),
            is_nested: bool,
            // ſ and the Kelvin sign fold to letters of ASCII.
            path in "([abABéÉsſK\u{212a}][aBſ]{0,2}|\\.[sSſ]tockade(-[0aF]{16}|-a)?)(/([abABéÉſ\u{212a}][aB.]{0,2}|\\.[sſ]tockade(-[0aF]{16})?)){0,3}",
        ) {
            let valid = |globs: Vec<String>| {
                let is_valid = |glob: &String| DenyGlobs::new(std::slice::from_ref(glob), &[]).is_ok();
                globs.into_iter().filter(is_valid).collect::<Vec<_>>()
            };
            let globs = DenyGlobs::new(&valid(globs), &valid(except)).unwrap();
            let globs = (globs, ProtectGlobs::new(&[], &[]).unwrap());
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

    /// A glob that falls back to whole paths would slow down every walk.
    #[cfg(feature = "policy")]
    #[test]
    fn default_globs_are_decided_by_names_alone() {
        let (deny, protect) = crate::policy::Policy::embedded(&[]).globs().unwrap();
        let denied = Denied::new((deny, protect), &[root("/r")], &[], RootNames::default()).unwrap();
        let names = DeniedNames::new(&denied);
        assert!(!names.needs_path && names.has_exceptions && names.path_dependent_names == [b"credentials"]);
        let table = RootTable::new(vec![root("/r")]);
        let asks = |path| walked(&names, &denied, &table, path);
        for path in ["a/.env", ".aws/credentials", "x/ID_RSA.pub", "a/.AWS/Credentials", "terraform.tfstate.1"] {
            assert_eq!(asks(path), Some(true), "{path}");
        }
        for path in ["a/credentials", "a/.env.example", ".ENV.Sample", ".aws/config", ".env.example/.env"] {
            assert_eq!(asks(path), Some(false), "{path}");
        }
        for path in [".env.d/.env.example", "secrets/.env.example", ".ssh/config"] {
            assert_eq!(asks(path), None, "{path}: a walk does not come there");
        }
    }
}
