//! The scope of find and search: resolves the entries of `paths` to files, folders and globs. A path without `*` and `?` that
//! exists as it is written is never read as a glob or a list.

use globset::GlobSet;

use super::names::decode_path;
use crate::{
    broker::Intent,
    jail::{Call, Jail, JailEntry, Located},
    path::RawPath,
    sys::fs::FileKind,
    text::globs::{self, StarAtSlash},
    wire::{Code, Error, Result},
};

/// One file or folder to search.
#[derive(Debug)]
pub(super) struct ScopeTarget {
    pub(super) name: Located,
    pub(super) kind: TargetKind,
    /// Index of the first entry of the request that named it.
    pub(super) entry: usize,
    /// Only the first target stays open; one descriptor per target would exhaust the limit.
    opened: Option<JailEntry>,
}

#[derive(Debug)]
pub(super) enum TargetKind {
    /// The file itself, whatever its name.
    File,
    /// Everything below the folder, or the paths that match the globs.
    Folder(Option<FolderGlobs>),
}

impl TargetKind {
    fn of(opened: &JailEntry) -> Self {
        if opened.kind() == FileKind::Dir { Self::Folder(None) } else { Self::File }
    }
}

/// Globs of one folder, for paths below it.
#[derive(Debug)]
pub(super) struct FolderGlobs {
    set: GlobSet,
    texts: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct ResolvedScope {
    /// Each folder only once.
    pub(super) targets: Vec<ScopeTarget>,
    /// Entries that exist.
    pub(super) existing: usize,
    /// Entries that do not exist, as sent.
    pub(super) missing: Vec<String>,
    /// Names that are not there, and are looked for at any depth.
    pub(super) sought: Vec<String>,
}

impl FolderGlobs {
    fn new(texts: Vec<String>) -> Result<Self> {
        let set = globs::compile(&texts, StarAtSlash::Stops)
            .map_err(|wrong| Error::bad_input(format!("paths: bad glob {wrong}")))?;
        Ok(Self { set, texts })
    }

    pub(super) fn has(&self, below: &[u8]) -> bool {
        globs::matches(&self.set, below)
    }

    /// How many levels below the folder a hit can be; `None` if there is no limit.
    pub(super) fn max_depth(&self) -> Option<u32> {
        let depth = |text: &String| {
            let is_open = text.contains("**") || text.contains(['{', '[', '\\']);
            (!is_open).then(|| text.split('/').count() as u32)
        };
        self.texts.iter().map(depth).try_fold(0, |deepest, depth| Some(deepest.max(depth?)))
    }

    /// Folder names that a glob contains literally: a caller that names a folder wants to see what is in it.
    pub(super) fn named_folders(&self) -> Vec<Vec<u8>> {
        let names = self.texts.iter().flat_map(|text| text.split('/').rev().skip(1));
        names.filter(|name| first_glob(name).is_none()).map(|name| name.as_bytes().to_vec()).collect()
    }
}

/// The form of an entry of `paths`, as far as its text shows it.
enum ScopePathForm {
    Plain,
    Glob { base: String, glob: String },
}

/// `*`, `?`, `[` and `{`; a backslash before one makes it plain again, for the glob and so for us.
fn first_glob(text: &str) -> Option<usize> {
    text.find(['*', '?', '[', '{'])
}

fn parse_form(text: &str) -> ScopePathForm {
    let Some(at) = first_glob(text) else { return ScopePathForm::Plain };
    match text[..at].rfind('/') {
        // In the first name: at any depth.
        None if text.starts_with("**/") => ScopePathForm::Glob { base: ".".into(), glob: text.into() },
        None => ScopePathForm::Glob { base: ".".into(), glob: format!("**/{text}") },
        Some(0) => ScopePathForm::Glob { base: "/".into(), glob: text[1..].into() },
        Some(slash) => ScopePathForm::Glob { base: text[..slash].into(), glob: text[slash + 1..].into() },
    }
}

/// An entry of `paths`, as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopePath {
    pub(super) path: RawPath,
    /// It was given as `path_bytes`: a name, and neither a glob nor a list.
    pub(super) is_literal: bool,
}

impl ScopePath {
    pub(super) fn text(path: &str) -> Self {
        Self { path: RawPath::text(path), is_literal: false }
    }

    /// `path` or `path_bytes`, not both; None when neither is there.
    pub(super) fn of(path: Option<&str>, path_bytes: Option<&str>) -> Result<Option<Self>> {
        let is_literal = path_bytes.is_some();
        Ok(decode_path(path, path_bytes)?.map(|path| Self { path, is_literal }))
    }
}

/// What becomes of a path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingPath {
    Reported,
    /// A name without a folder is looked for at any depth, and reported if it is nowhere.
    SoughtByName,
}

/// Resolves the entries. C211 if none of them exists.
pub(super) fn resolve(
    jail: &Jail,
    call: &mut Call,
    sent: &[ScopePath],
    base_dir: Option<&RawPath>,
    missing_path: MissingPath,
) -> Result<ResolvedScope> {
    let (found, missing, sought) = Default::default();
    let mut resolver = ScopeResolver { jail, call, base_dir, missing_path, found, existing: 0, missing, sought };
    for (index, sent) in sent.iter().enumerate() {
        if sent.path.as_bytes().is_empty() {
            return Err(Error::bad_input(format!(
                "paths[{index}]: empty; expected a glob, a folder or a file, for example \"src\" or \"*.rs\""
            )));
        }
        resolver.call.checkpoint()?;
        resolver.resolve_entry(index, sent)?;
    }
    let ScopeResolver { found, existing, missing, sought, .. } = resolver;
    match missing.first() {
        Some(first) if found.is_empty() => Err(Error::not_found(first)),
        _ => {
            let target = |(target, globs): (ScopeTarget, Option<Vec<String>>)| match (&target.kind, globs) {
                (TargetKind::Folder(_), Some(globs)) => {
                    Ok(ScopeTarget { kind: TargetKind::Folder(Some(FolderGlobs::new(globs)?)), ..target })
                }
                _ => Ok(target),
            };
            let targets = found.into_iter().map(target).collect::<Result<_>>()?;
            Ok(ResolvedScope { targets, existing, missing, sought })
        }
    }
}

struct OpenedPath {
    name: Located,
    entry: usize,
    opened: JailEntry,
    /// `None` for everything below a folder, or for a file itself.
    glob: Option<String>,
}

struct ScopeResolver<'a> {
    jail: &'a Jail,
    call: &'a mut Call,
    base_dir: Option<&'a RawPath>,
    /// Each folder once, with all globs that were given for it; None: all below.
    found: Vec<(ScopeTarget, Option<Vec<String>>)>,
    existing: usize,
    missing: Vec<String>,
    missing_path: MissingPath,
    sought: Vec<String>,
}

impl ScopeResolver<'_> {
    fn resolve_entry(&mut self, entry: usize, sent: &ScopePath) -> Result<()> {
        let raw = &sent.path;
        if sent.is_literal {
            match self.open_plain(entry, raw)? {
                Some(place) => {
                    self.existing += 1;
                    self.add_target(place);
                }
                None => self.missing.push(raw.display().to_owned()),
            }
            return Ok(());
        }
        // A list that contains a glob looks like one long glob, so its parts are tried first.
        let may_be_list = raw.display().contains(['*', '?']) && split_outside_braces(raw.display()).len() > 1;
        if may_be_list && self.add_list_parts(entry, raw)? {
            self.existing += 1;
            return Ok(());
        }
        match self.open_entry(entry, raw)? {
            Some(place) => self.add_target(place),
            None if !may_be_list && self.add_list_parts(entry, raw)? => {}
            None => {
                let sought = self.by_name(entry, raw)?;
                if sought.is_none() {
                    self.missing.push(raw.display().to_owned());
                }
                sought.into_iter().for_each(|place| {
                    self.sought.push(raw.display().to_owned());
                    self.add_target(place);
                });
                return Ok(());
            }
        }
        self.existing += 1;
        Ok(())
    }

    /// A name that is not there, as a glob for any depth. None if it is no name, or shall not be looked for.
    fn by_name(&mut self, entry: usize, raw: &RawPath) -> Result<Option<OpenedPath>> {
        let name = std::str::from_utf8(raw.as_bytes()).ok().filter(|name| {
            let is_name = !name.contains('/') && matches!(parse_form(name), ScopePathForm::Plain);
            is_name && self.missing_path == MissingPath::SoughtByName
        });
        let Some(name) = name else { return Ok(None) };
        let folder = self.open_plain(entry, &RawPath::text("."))?;
        let escaped: String =
            name.chars().flat_map(|c| [Some('\\').filter(|_| "\\]}!-".contains(c)), Some(c)]).flatten().collect();
        let is_folder = |place: &OpenedPath| place.opened.kind() == FileKind::Dir;
        Ok(folder.filter(is_folder).map(|place| OpenedPath { glob: Some(format!("**/{escaped}")), ..place }))
    }

    fn add_target(&mut self, OpenedPath { name, entry, opened, glob }: OpenedPath) {
        if let Some((_, globs)) = self.found.iter_mut().find(|(target, _)| target.name.path == name.path) {
            match (globs.as_mut(), glob) {
                (Some(globs), Some(glob)) => globs.push(glob),
                _ => *globs = None,
            }
            return;
        }
        let kind = TargetKind::of(&opened);
        let opened = self.found.is_empty().then_some(opened);
        self.found.push((ScopeTarget { name, kind, entry, opened }, glob.map(|glob| vec![glob])));
    }

    /// `None` if it does not exist.
    fn open_entry(&mut self, entry: usize, raw: &RawPath) -> Result<Option<OpenedPath>> {
        // Bytes that are not text are not a glob either.
        let form = std::str::from_utf8(raw.as_bytes()).map_or(ScopePathForm::Plain, parse_form);
        let ScopePathForm::Glob { base, glob } = form else { return self.open_plain(entry, raw) };
        // A file is hardly ever named `*.rs`, but some are named `[id].ts`.
        if !raw.display().contains(['*', '?'])
            && let Some(place) = self.open_plain(entry, raw)?
        {
            return Ok(Some(place));
        }
        if glob.split('/').any(|name| name == "..") {
            return Err(Error::bad_input(format!("{}: no .. behind a glob", raw.display())));
        }
        let Some(place) = self.open_plain(entry, &RawPath::text(base))? else { return Ok(None) };
        match place.opened.kind() {
            FileKind::Dir => Ok(Some(OpenedPath { glob: Some(glob), ..place })),
            // A link is not followed: the error for it differs from that for a missing path.
            FileKind::Symlink => place.opened.check_dir(self.jail, self.call).map(|()| None),
            _ => Ok(None),
        }
    }

    fn open_plain(&mut self, entry: usize, raw: &RawPath) -> Result<Option<OpenedPath>> {
        let located = self.jail.locate(self.call, raw, self.base_dir);
        let opened = located.and_then(|name| {
            let opened = self.jail.open(self.call, &name, Intent::Read)?;
            Ok(OpenedPath { name, entry, opened, glob: None })
        });
        match opened {
            Ok(place) => Ok(Some(place)),
            Err(error) if error.code == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Several paths in one text: joined by commas or semicolons if one of them is there, by spaces if all are.
    fn add_list_parts(&mut self, entry: usize, raw: &RawPath) -> Result<bool> {
        let Ok(text) = std::str::from_utf8(raw.as_bytes()) else { return Ok(false) };
        let listed = split_outside_braces(text);
        let spaced: Vec<&str> = text.split_whitespace().collect();
        let parts = if listed.len() > 1 && self.count_existing(entry, &listed)? > 0 {
            listed
        } else if spaced.len() > 1 && self.count_existing(entry, &spaced)? == spaced.len() {
            spaced
        } else {
            return Ok(false);
        };
        for part in parts {
            if let Ok(Some(place)) = self.open_entry(entry, &RawPath::text(part)) {
                self.add_target(place);
            }
        }
        Ok(true)
    }

    fn count_existing(&mut self, entry: usize, texts: &[&str]) -> Result<usize> {
        let mut count = 0;
        for text in texts {
            self.call.checkpoint()?;
            // An error also means only that this part does not exist: the text was only guessed to be a list.
            count += usize::from(matches!(self.open_entry(entry, &RawPath::text(*text)), Ok(Some(_))));
        }
        Ok(count)
    }
}

fn split_outside_braces(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = text.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, ',' | ';')
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

impl ScopeTarget {
    /// A folder with all below it, or a file, which is open already.
    pub(super) fn opened(name: Located, opened: JailEntry) -> Self {
        Self { name, kind: TargetKind::of(&opened), entry: 0, opened: Some(opened) }
    }

    pub(super) fn open(&mut self, jail: &Jail, call: &mut Call) -> Result<JailEntry> {
        self.opened.take().map_or_else(|| jail.open(call, &self.name, Intent::Read), Ok)
    }
}
