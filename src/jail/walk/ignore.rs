//! Runs in the worker: the ignore files of a walk: those in its folders, those between the root and its top folder, and the root's
//! own `.git/info/exclude`. Does not trust their content, which is bounded. Never reads a file outside the root.

use std::sync::Arc;

use super::WalkFolder;
use crate::{
    broker::Intent,
    jail::{Call, Dir, Jail, JailFile, Located},
    path::JailPath,
    text::ignore::{IgnoreRules, IgnoreVerdict},
    wire::{Code, Result},
};

/// In order of precedence: a rule in any `.ignore` overrides all `.gitignore` files, as in ripgrep.
pub(super) const IGNORE_FILES: [&[u8]; 2] = [b".ignore", b".gitignore"];
/// Has the lowest precedence.
const EXCLUDE_FILE: &[u8] = b".git/info/exclude";
/// Larger files are ignored: rules take memory, and nobody writes so many by hand.
const MAX_RULE_BYTES: usize = 256 << 10;

/// The rules of one folder, and those above it.
#[derive(Debug)]
pub(super) struct IgnoreLevel {
    above: Option<Arc<IgnoreLevel>>,
    /// Length of the folder's path with its slash: rules are matched against the rest of a root-relative path.
    prefix: usize,
    files: [Option<IgnoreRules>; IGNORE_FILES.len()],
    exclude: Option<IgnoreRules>,
}

impl IgnoreLevel {
    pub(super) fn new(
        above: Option<Arc<IgnoreLevel>>,
        folder: &JailPath,
        files: [Option<IgnoreRules>; IGNORE_FILES.len()],
    ) -> Self {
        let prefix = if folder.is_root() { 0 } else { folder.rel().len() + 1 };
        Self { above, prefix, files, exclude: None }
    }

    /// The nearest folder with a rule for the path decides: first among all `.ignore` files, then among all `.gitignore` files.
    pub(super) fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        let ask = |level: &IgnoreLevel, rules: &Option<IgnoreRules>| {
            rules.as_ref().and_then(|rules| rules.verdict(&path[level.prefix..], is_dir))
        };
        let by_file =
            (0..IGNORE_FILES.len()).find_map(|file| self.up().find_map(|level| ask(level, &level.files[file])));
        let verdict = by_file.or_else(|| self.up().find_map(|level| ask(level, &level.exclude)));
        verdict == Some(IgnoreVerdict::Ignored)
    }

    /// From here to the root.
    fn up(&self) -> impl Iterator<Item = &IgnoreLevel> {
        std::iter::successors(Some(self), |level| level.above.as_deref())
    }
}

/// Rules of the folders above a walk, for walks of one thread.
#[derive(Debug, Default)]
pub struct RulesAbove(pub(super) Option<Arc<IgnoreLevel>>);

impl RulesAbove {
    pub fn read(jail: &Jail, call: &mut Call, top: &JailPath) -> Result<Self> {
        read_above(jail, call, top).map(Self)
    }
}

/// The rules of a folder's own ignore files, of those that it has.
pub(super) fn read_own(
    jail: &Jail,
    folder: &WalkFolder,
    dir: &Dir,
    has_file: [bool; IGNORE_FILES.len()],
) -> [Option<IgnoreRules>; IGNORE_FILES.len()] {
    std::array::from_fn(|at| {
        let file = IGNORE_FILES[at];
        let may_read = has_file[at] && !jail.is_denied(&folder.path().join(file));
        if may_read { read_rules(jail, dir, file) } else { None }
    })
}

/// Reads the ignore files of the folders above a walk's top folder, and the root's own list.
pub(super) fn read_above(jail: &Jail, call: &mut Call, top: &JailPath) -> Result<Option<Arc<IgnoreLevel>>> {
    let Ok(mut folder) = jail.roots.check(top.root(), b"") else { return Ok(None) };
    let mut level = IgnoreLevel::new(None, &folder, [None, None]);
    level.exclude = read_located(jail, call, &folder.join(EXCLUDE_FILE))?;
    let mut level = Arc::new(level);
    for name in top.rel().split(|&byte| byte == b'/').filter(|_| !top.is_root()) {
        if let Some(dir) = open_folder(jail, call, &folder)? {
            let read = |file| {
                let may_read = !jail.is_denied(&folder.join(file));
                may_read.then(|| read_rules(jail, &dir, file)).flatten()
            };
            level = Arc::new(IgnoreLevel::new(Some(level), &folder, IGNORE_FILES.map(read)));
        }
        folder = folder.join(name);
        call.checkpoint()?;
    }
    Ok(Some(level))
}

/// None if the folder cannot be opened: then it has no rules.
fn open_folder(jail: &Jail, call: &mut Call, path: &JailPath) -> Result<Option<Dir>> {
    let opened = name_for_errors(jail, path)
        .and_then(|name| jail.open(call, &name, Intent::Read))
        .and_then(|entry| entry.open_dir(jail, call));
    fail_if_temporary(opened)
}

fn read_located(jail: &Jail, call: &mut Call, path: &JailPath) -> Result<Option<IgnoreRules>> {
    if jail.is_denied(path) {
        return Ok(None);
    }
    let opened = name_for_errors(jail, path)
        .and_then(|name| jail.open(call, &name, Intent::Read))
        .and_then(|entry| entry.open_content(jail, call));
    Ok(fail_if_temporary(opened)?.and_then(|file| parse(&file)))
}

/// A name for errors, because no client sent this path.
fn name_for_errors(jail: &Jail, path: &JailPath) -> Result<Located> {
    let sent = String::from_utf8_lossy(if path.is_root() { b"." } else { path.rel() });
    Located::new(jail, path.clone(), sent)
}

/// Fails after the deadline or if the name is busy: without knowing the rules the walk would show too much.
fn fail_if_temporary<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code, Code::Deadline | Code::Busy) => Err(error),
        Err(_) => Ok(None),
    }
}

/// None for a link, a folder, or a file that cannot be read: it has no rules.
pub(super) fn read_rules(jail: &Jail, dir: &Dir, name: &[u8]) -> Option<IgnoreRules> {
    parse(&jail.open_file(dir, name).ok()?)
}

fn parse(file: &JailFile) -> Option<IgnoreRules> {
    let expected = usize::try_from(file.stat().size_bytes).unwrap_or(usize::MAX);
    let mut content = vec![0; expected.min(MAX_RULE_BYTES) + 1];
    let len = file.read_full_at(&mut content, 0).ok()?;
    (len <= MAX_RULE_BYTES).then(|| IgnoreRules::parse(&content[..len]))
}
