//! Runs in the worker and in `policy explain`, never in the supervisor: tests for denied and protected names that concern whole
//! folders, entries of walks and links, and finds the rule that decides. The supervisor repeats the plain tests (`denied`, `deny`,
//! `protect`). Pure.

use globset::{Candidate, GlobSet};

use super::{
    Denied, DenyGlobs, JailPath, PRIVATE_FOLDER, ProtectGlobs,
    deny::is_private,
    fold::fold_path,
    glob_list::{GlobList, folded, folded_below, glob},
    lexical::beneath,
};

/// The reason why a name is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedBy<'a> {
    Glob(&'a str),
    /// The service's state at the top of a root.
    Private,
    /// A file of the service that is inside a root.
    ServiceFile,
}

impl Denied {
    pub fn globs(&self) -> &DenyGlobs {
        &self.globs
    }

    pub fn protect(&self) -> &ProtectGlobs {
        &self.protect
    }

    /// Whether globs alone do not decide: files of the service lie in a root, or a root lies in another one.
    pub fn depends_on_location(&self) -> bool {
        !self.literals.is_empty() || !self.nested.is_empty() || !self.root_names.is_empty()
    }

    pub fn is_denied(&self, path: &JailPath) -> bool {
        self.is_denied_at(path.root(), path.rel())
    }

    /// Whether a path is, or lies in, the service's state at the top of this root or of a root inside it.
    pub fn is_private(&self, path: &JailPath) -> bool {
        is_private(&fold_path(path.rel())) || self.is_private_below(path.root(), path.rel())
    }

    /// The reason why a path is denied, for `policy explain`.
    pub fn denied_by(&self, path: &JailPath) -> Option<DeniedBy<'_>> {
        let (root, rel) = (path.root(), path.rel());
        if self.is_literal(root, rel) {
            return Some(DeniedBy::ServiceFile);
        }
        let by_glob = self.find_from_anchors(root, rel, |rel| match self.globs.deciding(rel) {
            Some(PRIVATE_FOLDER) => Some(DeniedBy::Private),
            glob => glob.map(DeniedBy::Glob),
        });
        by_glob.or_else(|| self.is_private_below(root, rel).then_some(DeniedBy::Private))
    }

    /// For both ends of move, copy and restore, and for delete: also a folder whose whole content is denied, or that
    /// holds a file of the service or the name of a root.
    pub fn is_denied_operand(&self, path: &JailPath) -> bool {
        let (root, rel) = (path.root(), path.rel());
        self.is_literal(root, rel)
            || self.literals.iter().any(|(at, name)| *at == root && beneath(name, rel).is_some())
            || self.is_root_name(root, rel)
            || self.root_names.iter().any(|name| name.below == root && beneath(&name.rel, rel).is_some())
            || self.hides_content(path)
            || self.is_private_below(root, rel)
    }

    /// Whether a folder is denied, or all that it may hold.
    pub fn hides_content(&self, path: &JailPath) -> bool {
        self.any_anchor(path.root(), path.rel(), |rel| self.globs.covers_folder(rel))
    }

    /// Like `protected_by`, but also finds a glob that protects all content of a folder. For source and destination of a move, for
    /// deletes and restores, and for the destination of a copy.
    pub fn operand_protected_by(&self, path: &JailPath) -> Option<u32> {
        self.find_from_anchors(path.root(), path.rel(), |rel| self.protect.rule_of_folder(rel))
    }

    /// Like `operand_protected_by`, for the new name of a link.
    pub fn link_protected_by(&self, path: &JailPath) -> Option<u32> {
        self.find_from_anchors(path.root(), path.rel(), |rel| self.protect.rule_of_link(rel))
    }

    /// For the entries of a folder that is moved, copied, deleted or restored as a whole.
    pub fn is_denied_in_tree(&self, path: &JailPath) -> bool {
        self.is_denied(path) || self.is_root_name(path.root(), path.rel())
    }
}

impl DenyGlobs {
    pub fn patterns(&self) -> &[String] {
        self.0.globs.patterns()
    }

    pub fn exceptions(&self) -> &[String] {
        self.0.except.patterns()
    }

    /// The folder is denied as operand of move, copy or delete: `X/**` hides everything below `X`, and a renamed
    /// `X` would show it.
    pub fn covers_folder(&self, rel: &[u8]) -> bool {
        self.matches(rel) || (!rel.is_empty() && self.hit(&folded_below(rel)))
    }

    /// The pattern that decides about this path, for `policy explain`.
    pub fn deciding(&self, rel: &[u8]) -> Option<&str> {
        let path = fold_path(rel);
        if is_private(&path) {
            return Some(PRIVATE_FOLDER);
        }
        let first = || self.0.globs.hits(&path).first().map(|index| self.patterns()[*index].as_str());
        if self.hit(&path) { first() } else { None }
    }

    /// Which patterns, by number, cover this name; of a folder also those that cover only what is in it.
    pub fn matching(&self, rel: &[u8], is_folder: bool) -> impl Iterator<Item = usize> {
        let path = fold_path(rel);
        let mut found = if path.is_empty() { Vec::new() } else { self.0.globs.hits(&path) };
        if is_folder {
            found.extend(self.0.globs.hits(&folded_below(rel)));
        }
        found.into_iter()
    }
}

impl ProtectGlobs {
    pub fn patterns(&self) -> &[String] {
        self.0.globs.patterns()
    }

    pub fn exceptions(&self) -> &[String] {
        self.0.except.patterns()
    }

    /// Like `rule`, but also finds a pattern that protects all content of the folder. For a folder that is moved, deleted or
    /// replaced as a whole.
    pub fn rule_of_folder(&self, rel: &[u8]) -> Option<u32> {
        self.rule(rel).or_else(|| if rel.is_empty() { None } else { self.first(&folded_below(rel)) })
    }

    /// Like `rule_of_folder`, for a new link with this name. A pattern that has this folder in the middle also counts: names
    /// behind the link would then be protected under the new name, but could be changed under their old one.
    pub fn rule_of_link(&self, rel: &[u8]) -> Option<u32> {
        let folded = fold_path(rel);
        let behind = || {
            let (folders, rules) = self.1.get_or_init(|| folders_of(self.patterns()));
            // A list that could not be compiled may mean any name.
            let first_of =
                |folders: &GlobSet| folders.matches_candidate(&Candidate::from_bytes(&folded)).first().copied();
            let first = folders.as_ref().map_or(Some(0), first_of);
            first.filter(|_| self.0.excepted_end(&folded).is_none()).and_then(|index| rules.get(index).copied())
        };
        self.rule_of_folder(rel).or_else(behind)
    }
}

/// `**/.cargo/config*` → `**/.cargo`. Not `**`: what such a pattern names is protected wherever a link leads.
fn folders_of(patterns: &[String]) -> (Option<GlobSet>, Vec<u32>) {
    let (mut folders, mut rules) = (Vec::new(), Vec::new());
    for (rule, pattern) in (0u32..).zip(patterns) {
        for (slash, _) in pattern.match_indices('/') {
            let folder = &pattern[..slash];
            // Half of an alternative or of a class is no pattern.
            let glob = folded(folder).and_then(|folded| glob(&folded));
            if let Ok(glob) = glob
                && folder.split('/').any(|name| name != "**")
            {
                folders.push(glob);
                rules.push(rule);
            }
        }
    }
    (GlobSet::new(folders).ok(), rules)
}

impl GlobList {
    pub(super) fn patterns(&self) -> &[String] {
        &self.patterns
    }
}
