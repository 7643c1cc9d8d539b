//! Everything denied to one profile: the operator's globs, files of the service that happen to lie inside a root (policy
//! file, audit log, socket folder, binaries), and for changes the names of roots and what protect globs match.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    DenyGlobs, ProtectGlobs, Root,
    deny::is_private,
    fold::fold_path,
    lexical::{beneath, relative_to},
};

/// Crosses to the worker as JSON. Root numbers are those of the profile's root table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Denied {
    pub(super) globs: DenyGlobs,
    pub(super) protect: ProtectGlobs,
    /// Denied names below a root. Everything below such a name is denied, too.
    pub(super) literals: Vec<(u16, Vec<u8>)>,
    /// Pairs of nested roots: number of the outer root, number of the inner root, path of the inner root below the outer one.
    pub(super) nested: Vec<(u16, u16, Vec<u8>)>,
    pub(super) root_names: Vec<RootName>,
}

/// The name of one of the policy's roots, inside a root of this profile. The next start opens whatever has this name as a
/// root, so no client may change it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RootName {
    pub(super) below: u16,
    pub(super) rel: Vec<u8>,
    /// An optional root that did not exist at the start. Nothing may be created below its name either.
    is_absent: bool,
}

/// The absolute real paths of all roots of the policy, for every profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct RootNames<'a> {
    pub present: &'a [PathBuf],
    /// Optional ones that do not exist.
    pub absent: &'a [PathBuf],
}

impl Denied {
    /// `own` are absolute real paths that no client may touch; paths outside of every root are ignored. Fails with the path
    /// that is a root itself, because everything in that root would be denied.
    pub fn new(
        (globs, protect): (DenyGlobs, ProtectGlobs),
        roots: &[Root],
        own: &[PathBuf],
        names: RootNames<'_>,
    ) -> Result<Self, PathBuf> {
        let mut denied = Self { globs, protect, literals: Vec::new(), nested: Vec::new(), root_names: Vec::new() };
        for (index, root) in (0u16..).zip(roots) {
            let all = names.present.iter().map(|path| (path, false));
            for (path, is_absent) in all.chain(names.absent.iter().map(|path| (path, true))) {
                let rel = relative_to(path.as_os_str(), root).filter(|rel| !rel.is_empty());
                denied.root_names.extend(rel.map(|rel| RootName { below: index, rel, is_absent }));
            }
            for path in own {
                match relative_to(path.as_os_str(), root) {
                    Some(rel) if rel.is_empty() => return Err(path.clone()),
                    Some(rel) => denied.literals.push((index, rel)),
                    None => {}
                }
            }
            for (inner_index, inner) in (0u16..).zip(roots) {
                match relative_to(inner.path.as_os_str(), root) {
                    Some(rel) if !rel.is_empty() => denied.nested.push((index, inner_index, rel)),
                    _ => {}
                }
            }
        }
        Ok(denied)
    }

    pub fn is_denied_at(&self, root: u16, rel: &[u8]) -> bool {
        self.is_literal(root, rel)
            || self.any_anchor(root, rel, |rel| self.globs.matches(rel))
            || self.is_private_below(root, rel)
    }

    /// Whether a path is, or lies in, the service's state of a root inside this one, also of one that only other profiles use.
    pub(super) fn is_private_below(&self, root: u16, rel: &[u8]) -> bool {
        let nested = self.nested.iter().map(|(outer, _, at)| (*outer, at));
        let mut inner = nested.chain(self.root_names.iter().map(|name| (name.below, &name.rel)));
        inner.any(|(outer, at)| outer == root && beneath(rel, at).is_some_and(|below| is_private(&fold_path(below))))
    }

    /// For every change: the number of the glob that protects this path, if one does.
    pub fn protected_by(&self, root: u16, rel: &[u8]) -> Option<u32> {
        self.find_from_anchors(root, rel, |rel| self.protect.rule(rel))
    }

    /// For every change: the name of a root, or a path below the name of one that did not exist at the start.
    pub fn is_root_name(&self, root: u16, rel: &[u8]) -> bool {
        self.root_names.iter().any(|name| {
            let is_meant = |below: &[u8]| below.is_empty() || name.is_absent;
            name.below == root && beneath(rel, &name.rel).is_some_and(is_meant)
        })
    }

    /// Whether the path lies in an inner root of this profile, whose own rules apply.
    pub fn is_in_inner_root(&self, root: u16, rel: &[u8]) -> bool {
        self.nested.iter().any(|(outer, _, at)| *outer == root && beneath(rel, at).is_some())
    }

    pub(super) fn is_literal(&self, root: u16, rel: &[u8]) -> bool {
        self.literals.iter().any(|(at, name)| *at == root && beneath(rel, name).is_some())
    }

    pub(super) fn any_anchor(&self, root: u16, rel: &[u8], test: impl Fn(&[u8]) -> bool) -> bool {
        self.find_from_anchors(root, rel, |rel| test(rel).then_some(())).is_some()
    }

    // With nested roots a name is denied or protected if a glob matches it relative to any of the roots around it. Otherwise a
    // client could evade a glob by naming the file below another root.
    pub(super) fn find_from_anchors<T>(&self, root: u16, rel: &[u8], test: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let nested = || {
            self.nested.iter().find_map(|(outer, inner, at)| {
                if *inner == root {
                    let from_outer = if rel.is_empty() { at.clone() } else { [&at[..], b"/", rel].concat() };
                    test(&from_outer)
                } else if *outer == root {
                    beneath(rel, at).and_then(&test)
                } else {
                    None
                }
            })
        };
        test(rel).or_else(nested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{AccessTimes, DeniedBy, Hardlinks, Mode, RawPath, RootTable, Symlinks};

    fn root(path: &str) -> Root {
        Root {
            path: path.into(),
            mode: Mode::Rw,
            symlinks: Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: Hardlinks::Allow,
            access_times: AccessTimes::OwnerOnly,
        }
    }

    fn globs_of(deny: &[&str], protect: &[&str]) -> (DenyGlobs, ProtectGlobs) {
        let strings = |globs: &[&str]| globs.iter().map(|glob| glob.to_string()).collect::<Vec<_>>();
        let deny = DenyGlobs::new(&strings(deny), &[]).expect("valid globs");
        (deny, ProtectGlobs::new(&strings(protect), &[]).expect("valid globs"))
    }

    fn jail(roots: &[&str], globs: &[&str], own: &[&str]) -> impl Fn(&str) -> (bool, bool) {
        let roots: Vec<_> = roots.iter().map(|path| root(path)).collect();
        let own: Vec<_> = own.iter().map(PathBuf::from).collect();
        let globs = globs_of(globs, &[]);
        let paths: Vec<_> = roots.iter().map(|root| root.path.clone()).collect();
        let names = RootNames { present: &paths, absent: &["/srv/p/sub/later".into()] };
        let denied = Denied::new(globs, &roots, &own, names).expect("no root is our own");
        // Sent through JSON, as the worker receives it.
        let json = serde_json::to_string(&denied).expect("serialises");
        let denied: Denied = serde_json::from_str(&json).expect("deserialises");
        let table = RootTable::new(roots);
        move |path| {
            let path = table.locate(&RawPath::text(path), None).expect("inside");
            (denied.is_denied(&path), denied.is_denied_operand(&path))
        }
    }

    #[test]
    fn our_own_names_are_denied_with_all_below_and_only_they() {
        let jail = jail(&["/srv/p", "/srv/q"], &[], &["/srv/p/etc/stockade.toml", "/srv/q/run", "/usr/bin/x"]);
        assert_eq!(jail("etc/stockade.toml"), (true, true));
        assert_eq!(jail("etc/stockade.toml.bak"), (false, false));
        assert_eq!(jail("etc/STOCKADE.toml"), (false, false), "literals are case-exact");
        assert_eq!(jail("etc"), (false, true), "a folder that holds one cannot be moved away");
        assert_eq!(jail("/srv/q/run/stockade.sock"), (true, true));
        assert_eq!(jail("run"), (false, false), "literals belong to one root");
        assert_eq!(jail("/srv/p"), (false, false), "the root itself never is");
    }

    #[test]
    fn a_root_cannot_be_our_own_name() {
        let globs = globs_of(&[], &[]);
        let error = Denied::new(globs, &[root("/run/s")], &["/run/s".into()], RootNames::default())
            .expect_err("all would be denied");
        assert_eq!(error, PathBuf::from("/run/s"));
    }

    #[test]
    fn with_nested_roots_a_glob_holds_from_every_anchor() {
        let jail = jail(&["/srv/p", "/srv/p/sub/in"], &["sub/in/outer-view/**", "inner-view"], &[]);
        assert_eq!(jail("/srv/p/sub/in/outer-view/x"), (true, true));
        assert_eq!(jail("sub/in/inner-view"), (true, true));
        for state in [".stockade", ".stockade-0123456789abcdef", ".STOCKADE-0123456789ABCDEF"] {
            let state = format!("sub/in/{state}/x");
            assert_eq!(jail(&state), (true, true), "private state of the inner root");
        }
        assert_eq!(jail("sub/.stockade/x"), (false, false), "no root's top");
        assert_eq!(jail("sub/in/x"), (false, false));
        assert_eq!(jail("sub"), (false, true), "it holds a root");
    }

    #[test]
    fn no_client_can_change_the_name_of_a_root() {
        let roots = [root("/srv/p"), root("/srv/q")];
        let names = RootNames {
            // The second one is a root of another profile.
            present: &["/srv/p".into(), "/srv/p/a/theirs".into()],
            absent: &["/srv/p/b/later".into()],
        };
        let globs = globs_of(&[], &[]);
        let denied = Denied::new(globs, &roots, &[], names).expect("valid");
        let json = serde_json::to_string(&denied).expect("serialises");
        let denied: Denied = serde_json::from_str(&json).expect("deserialises");
        let table = RootTable::new(roots.to_vec());
        for (path, is_name, is_operand) in [
            ("/srv/p", false, false),
            ("a", false, true),
            ("a/theirs", true, true),
            ("a/theirs/x", false, false),
            ("a/theirs2", false, false),
            ("b", false, true),
            ("b/later", true, true),
            ("b/later/x/y", true, true),
            ("b/latest", false, false),
            ("/srv/q/b/later", false, false),
            ("/srv/q/a/theirs/.stockade", false, false),
        ] {
            let path = table.locate(&RawPath::text(path), None).expect("inside");
            assert_eq!(denied.is_root_name(path.root(), path.rel()), is_name, "{path:?}");
            assert_eq!(denied.is_denied_operand(&path), is_operand, "{path:?}");
            assert!(!denied.is_denied(&path), "{path:?} can be read");
        }
        for state in ["a/theirs/.stockade/0/work", "a/theirs/.Stockade-0123456789abcdef", "a/theirs/.stockade"] {
            let path = table.locate(&RawPath::text(state), None).expect("inside");
            assert!(denied.is_denied(&path) && denied.is_denied_operand(&path) && denied.is_private(&path));
            assert_eq!(denied.denied_by(&path), Some(DeniedBy::Private));
        }
    }

    #[test]
    fn entries_of_a_walk_are_seen_from_the_inner_root_too() {
        let roots = [root("/srv/p"), root("/srv/p/in")];
        let globs = globs_of(&["key"], &[]);
        let denied = Denied::new(globs, &roots, &[], RootNames::default()).expect("valid");
        let table = RootTable::new(roots.to_vec());
        let top = table.check(0, b"in").expect("normalised");
        assert!(denied.is_denied(&top.join(b"key")) && denied.is_denied(&top.join(b".stockade")));
        assert!(!denied.is_denied(&top.join(b"lock")));
    }

    #[test]
    fn with_nested_roots_a_protect_glob_holds_from_every_anchor() {
        let roots = [root("/srv/p"), root("/srv/p/sub/in")];
        let globs = globs_of(&[], &["sub/in/outer", "inner", "**/all/**"]);
        let denied = Denied::new(globs, &roots, &[], RootNames::default()).expect("valid");
        let json = serde_json::to_string(&denied).expect("serialises");
        let denied: Denied = serde_json::from_str(&json).expect("deserialises");
        let table = RootTable::new(roots.to_vec());
        for (path, by, whole) in [
            ("/srv/p/sub/in/outer/x", Some(0), Some(0)),
            ("/srv/p/sub/in/inner", Some(1), Some(1)),
            ("inner/x", Some(1), Some(1)),
            ("sub/inner", None, None),
            ("all", None, Some(2)),
            ("ALL/x", Some(2), Some(2)),
            ("/srv/p", None, None),
        ] {
            let path = table.locate(&RawPath::text(path), None).expect("inside");
            assert_eq!(denied.protected_by(path.root(), path.rel()), by, "{path:?}");
            assert_eq!(denied.operand_protected_by(&path), whole, "{path:?}");
            assert!(!denied.is_denied(&path), "{path:?} can be read");
        }
    }
}
