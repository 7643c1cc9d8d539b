//! Ignore files of a walk: those of its folders, those between the root and its top, and the root's own
//! `.git/info/exclude`. Nothing outside the root is ever consulted.

use std::sync::Arc;

use crate::{
    broker::Intent,
    jail::{Call, Dir, File, Jail, Located},
    path::JailPath,
    text::ignore::{IgnoreRules, Verdict},
    wire::{Code, Result},
};

/// In the order of their weight: whatever a `.ignore` says counts more than any `.gitignore`, as with ripgrep.
pub(super) const FILES: [&[u8]; 2] = [b".ignore", b".gitignore"];
/// Counts less than both.
const EXCLUDE: &[u8] = b".git/info/exclude";
/// A file of rules that is larger is left alone: rules cost memory, and this is no list that somebody wrote.
const MAX_RULE_BYTES: usize = 256 << 10;

/// The rules of one folder, and those above it.
#[derive(Debug)]
pub(super) struct Level {
    above: Option<Arc<Level>>,
    /// Bytes of a root-relative path before what its rules look at.
    prefix: usize,
    files: [Option<IgnoreRules>; FILES.len()],
    exclude: Option<IgnoreRules>,
}

impl Level {
    pub(super) fn new(
        above: Option<Arc<Level>>,
        folder: &JailPath,
        files: [Option<IgnoreRules>; FILES.len()],
    ) -> Self {
        let prefix = if folder.is_root() { 0 } else { folder.rel().len() + 1 };
        Self { above, prefix, files, exclude: None }
    }

    /// The nearest folder whose rules know the path decides, first for all `.ignore` files, then for all `.gitignore`.
    pub(super) fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        let ask = |level: &Level, rules: &Option<IgnoreRules>| {
            rules.as_ref().and_then(|rules| rules.verdict(&path[level.prefix..], is_dir))
        };
        let by_file =
            (0..FILES.len()).find_map(|file| self.up().find_map(|level| ask(level, &level.files[file])));
        let verdict = by_file.or_else(|| self.up().find_map(|level| ask(level, &level.exclude)));
        verdict == Some(Verdict::Ignored)
    }

    /// From here to the root.
    fn up(&self) -> impl Iterator<Item = &Level> {
        std::iter::successors(Some(self), |level| level.above.as_deref())
    }
}

/// What the folders above a walk's top say, and the root's own list.
pub(super) fn above(jail: &Jail, call: &mut Call, top: &JailPath) -> Result<Option<Arc<Level>>> {
    let Ok(mut folder) = jail.roots.check(top.root(), b"") else { return Ok(None) };
    let mut level = Level::new(None, &folder, [None, None]);
    level.exclude = read_located(jail, call, &folder.join(EXCLUDE))?;
    let mut level = Arc::new(level);
    for name in top.rel().split(|&byte| byte == b'/').filter(|_| !top.is_root()) {
        if let Some(dir) = open_folder(jail, call, &folder)? {
            let read = |file| {
                let may_read = !jail.is_denied(&folder.join(file));
                may_read.then(|| read(jail, &dir, file)).flatten()
            };
            level = Arc::new(Level::new(Some(level), &folder, FILES.map(read)));
        }
        folder = folder.join(name);
        call.checkpoint()?;
    }
    Ok(Some(level))
}

/// None if it cannot be opened: then it has no rules.
fn open_folder(jail: &Jail, call: &mut Call, path: &JailPath) -> Result<Option<Dir>> {
    let opened = shown(jail, path)
        .and_then(|name| jail.open(call, &name, Intent::Read))
        .and_then(|entry| entry.open_dir(jail, call));
    unless_not_now(opened)
}

fn read_located(jail: &Jail, call: &mut Call, path: &JailPath) -> Result<Option<IgnoreRules>> {
    if jail.is_denied(path) {
        return Ok(None);
    }
    let opened = shown(jail, path)
        .and_then(|name| jail.open(call, &name, Intent::Read))
        .and_then(|entry| entry.open_content(jail, call));
    Ok(unless_not_now(opened)?.and_then(|file| parse(&file)))
}

/// For errors: no client has sent this name.
fn shown(jail: &Jail, path: &JailPath) -> Result<Located> {
    let sent = String::from_utf8_lossy(if path.is_root() { b"." } else { path.rel() });
    Located::new(jail, path.clone(), sent)
}

/// Deadline or busy: the walk fails, because it does not know the rules and would show too much without them.
fn unless_not_now<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code, Code::C220 | Code::C222) => Err(error),
        Err(_) => Ok(None),
    }
}

/// A link, a folder, or what cannot be read has no rules.
pub(super) fn read(jail: &Jail, dir: &Dir, name: &[u8]) -> Option<IgnoreRules> {
    parse(&jail.open_file(dir, name).ok()?)
}

fn parse(file: &File) -> Option<IgnoreRules> {
    let expected = usize::try_from(file.stat().size_bytes).unwrap_or(usize::MAX);
    let mut content = vec![0; expected.min(MAX_RULE_BYTES) + 1];
    let len = file.read_full_at(&mut content, 0).ok()?;
    (len <= MAX_RULE_BYTES).then(|| IgnoreRules::parse(&content[..len]))
}
