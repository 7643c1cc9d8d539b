//! Runs in the worker: which files a search reads, by their names and paths. Pure. Trusts no glob of the request: all are bounded
//! before they are compiled.
//!
//! A glob without a slash is for a name at any depth; one with a slash is for the path below the folder that is searched, or below
//! the root. In wire 0.2 every glob is for the path below the root.

use globset::GlobSet;

use crate::{
    text::{
        file_types,
        globs::{self, MAX_GLOBS, StarAtSlash},
        name_globs::{NameGlobs, is_plain},
    },
    wire::{
        Error, Result,
        nearest::nearest,
        types::search::{FileTypes, SearchRequest},
    },
};

#[derive(Debug, Default)]
pub(super) struct FileSelection {
    include: Option<GlobList>,
    exclude: Option<GlobList>,
    /// Folders `X` of exclude globs `X/**`.
    exclude_below: Option<GlobList>,
    types: Option<NameGlobs>,
    excluded_types: Option<NameGlobs>,
    /// A folder that an exclude glob matches is left out with all that it holds.
    prunes: bool,
}

impl FileSelection {
    pub(super) fn new(request: &SearchRequest, is_wire_02: bool) -> Result<Self> {
        let list = |globs: &[String], field| GlobList::new(globs, field, is_wire_02);
        let excluded = request.exclude_globs.as_deref().unwrap_or_default();
        let below: Vec<String> = excluded.iter().filter_map(|glob| glob.strip_suffix("/**")).map(Into::into).collect();
        Ok(Self {
            include: list(request.include_globs.as_deref().unwrap_or_default(), "include_globs")?,
            exclude: list(excluded, "exclude_globs")?,
            // Without its leading folder such a glob may have no slash. It still means one folder, not every folder of this name.
            exclude_below: GlobList::of_paths(&below, "exclude_globs", !is_wire_02)?,
            types: types(request.file_type.as_ref(), "type")?,
            excluded_types: types(request.type_not.as_ref(), "type_not")?,
            prunes: !is_wire_02,
        })
    }

    /// Whether a file is searched. `prefix` is the length of the path of the folder that is searched, with its slash.
    pub(super) fn has_file(&self, name: &[u8], path: &[u8], prefix: usize) -> bool {
        self.include.as_ref().is_none_or(|include| include.has(name, path, prefix))
            && !self.exclude.as_ref().is_some_and(|exclude| exclude.has(name, path, prefix))
            && self.types.as_ref().is_none_or(|types| types.has_name(name))
            && !self.excluded_types.as_ref().is_some_and(|types| types.has_name(name))
    }

    /// Whether nothing in a folder can be searched.
    pub(super) fn excludes_folder(&self, name: &[u8], path: &[u8], prefix: usize) -> bool {
        let Some(exclude) = &self.exclude else { return false };
        let is_hit = |list: &GlobList| list.has(name, path, prefix);
        (self.prunes && is_hit(exclude)) || self.exclude_below.as_ref().is_some_and(is_hit)
    }
}

fn types(sent: Option<&FileTypes>, field: &str) -> Result<Option<NameGlobs>> {
    let names: &[String] = match sent {
        None => return Ok(None),
        Some(FileTypes::One(name)) => std::slice::from_ref(name),
        Some(FileTypes::Many(names)) => names,
    };
    if names.len() > MAX_GLOBS {
        return Err(Error::bad_input(format!("{field}: {} types, at most {MAX_GLOBS}", names.len())));
    }
    if names.is_empty() {
        return Ok(None);
    }
    file_types::select(names.iter().map(String::as_str)).map(Some).map_err(|unknown| {
        let near = nearest(unknown, file_types::names()).map(|near| format!("did you mean {near}? "));
        let unknown: String = unknown.chars().take(64).collect();
        Error::bad_input(format!(
            "{field}: no file type is named {unknown:?}; {}there are types such as rust, py, js, md; other files take include_globs, for \
             example [\"*.rs\"]",
            near.unwrap_or_default()
        ))
    })
}

/// A list of globs; names decide where they can.
#[derive(Debug)]
struct GlobList {
    names: NameGlobs,
    /// For paths.
    paths: GlobSet,
    /// Those without a slash, for names.
    by_name: GlobSet,
    /// Paths are also tried below the folder that is searched.
    is_relative: bool,
}

impl GlobList {
    /// None if the list is empty.
    fn new(globs: &[String], field: &str, is_wire_02: bool) -> Result<Option<Self>> {
        if is_wire_02 {
            return Self::of_paths(globs, field, false);
        }
        if globs.is_empty() {
            return Ok(None);
        }
        let anchored = |glob: &String| glob.strip_prefix("./").or_else(|| glob.strip_prefix('/')).map(str::to_owned);
        let paths: Vec<String> = globs.iter().map(|glob| anchored(glob).unwrap_or_else(|| glob.clone())).collect();
        let has_slash = |glob: &&String| glob.contains('/');
        let by_name: Vec<String> = globs.iter().filter(|glob| !has_slash(glob)).cloned().collect();
        // A plain name is found by its name alone; other shapes keep what they mean for paths.
        let names: Vec<String> = globs
            .iter()
            .zip(&paths)
            .map(|(glob, path)| if is_plain(glob) { format!("**/{glob}") } else { path.clone() })
            .collect();
        Ok(Some(Self {
            names: NameGlobs::new(names.iter().map(String::as_str)),
            paths: compile(&paths, field)?,
            by_name: compile(&by_name, field)?,
            is_relative: true,
        }))
    }

    /// Every glob is for the whole path.
    fn of_paths(globs: &[String], field: &str, is_relative: bool) -> Result<Option<Self>> {
        if globs.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            names: NameGlobs::new(globs.iter().map(String::as_str)),
            paths: compile(globs, field)?,
            by_name: GlobSet::empty(),
            is_relative,
        }))
    }

    fn has(&self, name: &[u8], path: &[u8], prefix: usize) -> bool {
        self.names.has_name(name)
            || (self.names.needs_path()
                && (globs::matches(&self.paths, path)
                    || (!self.by_name.is_empty() && globs::matches(&self.by_name, name))
                    || (self.is_relative && prefix > 0 && globs::matches(&self.paths, &path[prefix..]))))
    }
}

fn compile(globs: &[String], field: &str) -> Result<GlobSet> {
    globs::compile(globs, StarAtSlash::Crosses).map_err(|wrong| Error::bad_input(format!("{field}: bad glob {wrong}")))
}
