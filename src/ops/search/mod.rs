//! `coder::search`: text in files, and files by path. Every file below a folder is read once, in regions. A page of matches
//! is kept, and nothing after it is searched.

mod collect;
mod file;
mod hint;
mod page;
mod plan;
mod select;
mod visit;

use std::sync::Arc;

use self::{
    collect::{FileKey, SearchCollector},
    plan::{LineRanges, SearchPlan},
    visit::{SearchVisitor, changed_at},
};
use super::{
    Handler,
    names::decode_path,
    near::explain_missing,
    scope::{self, MissingPath, ScopeTarget, TargetKind},
};
use crate::{
    broker::{Intent, Question},
    jail::{
        Call, EntryOpenError, HaltReason, Jail, JailEntry,
        walk::{TreeWalk, Visitor as _, WalkEnd, WalkRules},
    },
    path::{JailPath, RawPath},
    sys::fs::FileKind,
    text::order,
    wire::{
        Code, Error, Result,
        compat::WireVersion,
        types::search::{Search, SearchRequest, SearchResponse, SearchSort},
    },
};

impl Handler for Search {
    fn questions(jail: &Jail, request: &SearchRequest) -> Vec<Question> {
        match &request.paths {
            // Which names to open depends on earlier answers, so no question can be asked early.
            Some(_) => Vec::new(),
            None => {
                let sent = sent_folder(request).ok();
                let folder = sent.and_then(|(name, base_dir)| jail.locate_early(&name, base_dir.as_ref()));
                folder.iter().map(|folder| folder.question(Intent::Read)).collect()
            }
        }
    }

    fn run(jail: &Jail, call: &mut Call, request: SearchRequest) -> Result<SearchResponse> {
        plan::check_request(&request)?;
        let mut search_scope = SearchScope::find(jail, call, &request)?;
        let is_wire_02 = jail.settings().wire == WireVersion::V02;
        let plan = Arc::new(SearchPlan::new(call, &request, is_wire_02)?);
        let collector = Arc::new(SearchCollector::new(&plan));
        let mut run = SearchRun { jail, plan: &plan, collector: &collector, reached: None };
        for target in &mut search_scope.targets {
            match &run.reached {
                None => run.search_target(call, target, &search_scope.lines)?,
                // The deadline has passed, and this target was not searched.
                Some(_) => run.record_reached(absolute_path(jail, &target.name.path)),
            }
        }
        let reached = run.reached.take();
        let mut response = page::respond(&plan, &collector, reached.as_deref(), search_scope.missing);
        if is_empty(&response) && request.cursor.is_none() {
            response.hint = hint::of(&request);
        }
        if is_wire_02 {
            make_relative(jail, &mut response);
        }
        Ok(response)
    }
}

/// Nothing was found, and nothing is left to be searched.
fn is_empty(response: &SearchResponse) -> bool {
    response.content_matches.is_empty()
        && response.path_matches.is_empty()
        && response.files.as_ref().is_none_or(Vec::is_empty)
        && !response.truncated
}

/// In wire 0.2 all paths are relative to the only root.
fn make_relative(jail: &Jail, response: &mut SearchResponse) {
    let root = format!("{}/", jail.roots().primary().path.to_string_lossy());
    let contents = response.content_matches.iter_mut().map(|found| (&mut found.path, &mut found.path_bytes));
    let paths = response.path_matches.iter_mut().map(|found| (&mut found.path, &mut found.path_bytes));
    for (path, bytes) in contents.chain(paths) {
        if let Some(below) = path.strip_prefix(&root) {
            *path = below.to_owned();
            *bytes = None;
        }
    }
}

/// The folder to search and what it is relative to.
fn sent_folder(request: &SearchRequest) -> Result<(RawPath, Option<RawPath>)> {
    let name = decode_path(request.path.as_deref(), request.path_bytes.as_deref())?;
    Ok((name.unwrap_or_else(|| RawPath::text(".")), request.base_dir.as_deref().map(RawPath::text)))
}

/// The files and folders to search.
struct SearchScope {
    targets: Vec<ScopeTarget>,
    /// The line ranges of each entry of `paths`.
    lines: Vec<LineRanges>,
    missing: Vec<String>,
}

impl SearchScope {
    /// Runs before the pattern is compiled, because the contract defines the order of errors.
    fn find(jail: &Jail, call: &mut Call, request: &SearchRequest) -> Result<Self> {
        let Some(paths) = &request.paths else {
            let (name, base_dir) = sent_folder(request)?;
            let opened = jail.locate(call, &name, base_dir.as_ref()).and_then(|folder| {
                let entry = jail.open(call, &folder, Intent::Read)?;
                Ok((folder, entry))
            });
            let (folder, entry) =
                opened.map_err(|error| explain_missing(jail, call, &name, base_dir.as_ref(), error))?;
            if entry.kind() != FileKind::File {
                entry.check_dir(jail, call)?;
            }
            let targets = vec![ScopeTarget::opened(folder, entry)];
            return Ok(Self { targets, lines: vec![LineRanges::new()], missing: Vec::new() });
        };
        let (sent, lines) = plan::sent_paths(call, paths)?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let resolved = scope::resolve(jail, call, &sent, base_dir.as_ref(), MissingPath::Reported);
        // If nothing is there, the first path is not.
        let scope = resolved.map_err(|error| explain_missing(jail, call, &sent[0].path, base_dir.as_ref(), error))?;
        for target in &scope.targets {
            if matches!(target.kind, TargetKind::Folder(_)) && !lines[target.entry].is_empty() {
                return Err(Error::bad_input(format!(
                    "paths[{}].lines: only for a file, and {} is a folder or a glob",
                    target.entry, target.name.sent
                )));
            }
        }
        Ok(Self { targets: scope.targets, lines, missing: scope.missing })
    }
}

/// The work, place by place.
struct SearchRun<'a> {
    jail: &'a Jail,
    plan: &'a Arc<SearchPlan>,
    collector: &'a Arc<SearchCollector>,
    /// Set at the deadline: the first path, in the order of paths, that was not searched. Absolute.
    reached: Option<Vec<u8>>,
}

impl SearchRun<'_> {
    fn search_target(&mut self, call: &mut Call, target: &mut ScopeTarget, lines: &[LineRanges]) -> Result<()> {
        let entry = match target.open(self.jail, call) {
            // It was removed after its meaning was determined.
            Err(error) if error.code == Code::NotFound => return Ok(()),
            other => other?,
        };
        match &mut target.kind {
            TargetKind::Folder(globs) => self.search_folder(call, entry, globs.take()),
            TargetKind::File => self.search_named_file(call, entry, &target.name.path, &lines[target.entry]),
        }
    }

    fn search_folder(&mut self, call: &mut Call, entry: JailEntry, globs: Option<scope::FolderGlobs>) -> Result<()> {
        let top = Arc::new(entry.open_dir(self.jail, call)?);
        let path = top.path().clone();
        let Some(from) = self.first_path(&path) else { return Ok(()) };
        let rules = WalkRules {
            // A caller that names an excluded folder wants to see it.
            uses_excludes: self.plan.uses_excludes && !self.jail.excludes().has_folder(&path),
            entered_folders: globs.as_ref().map(scope::FolderGlobs::named_folders).unwrap_or_default(),
            uses_ignore_files: self.plan.obeys_ignore_files,
            start_path: from,
            ..WalkRules::default()
        };
        let searching = Arc::new(SearchVisitor::new(self.jail, self.plan, self.collector, &path, globs));
        let clock = &self.plan.clock;
        if let WalkEnd::Deadline { reached } = TreeWalk::run(self.jail, call, clock, top, rules, &searching)? {
            self.record_reached(searching.absolute(&reached));
        }
        Ok(())
    }

    /// Searches a file that the request names, whatever its name. An error if it cannot be read.
    fn search_named_file(
        &mut self,
        call: &mut Call,
        entry: JailEntry,
        path: &JailPath,
        lines: &LineRanges,
    ) -> Result<()> {
        let searching = SearchVisitor::new(self.jail, self.plan, self.collector, path, None);
        let absolute = absolute_path(self.jail, path);
        let changed = changed_at(entry.stat());
        let key_time = self.plan.time_in_order(|| Some(changed)).unwrap_or_default();
        if !self.plan.is_remaining(&FileKey { changed: key_time, path: absolute.clone() }) {
            return Ok(());
        }
        entry.check_content(self.jail, call)?;
        let mut local = searching.new_thread_data();
        searching.match_path(&mut local, path.rel(), || Some(changed));
        if self.plan.searches_content {
            let file = entry.open_content(self.jail, call).map_err(|_| EntryOpenError::Unreadable);
            if let Err(halt) = searching.search_file(&mut local, path.rel(), file, lines) {
                if halt == HaltReason::Cancelled {
                    return Err(self.plan.clock.error(halt));
                }
                self.record_reached(absolute);
            }
        }
        searching.finish_thread(local);
        Ok(())
    }

    /// Where the walk of a folder begins if this reply continues another one. `None` if the replies before cover the whole
    /// folder.
    fn first_path(&self, top: &JailPath) -> Option<Option<Vec<u8>>> {
        let from = match &self.plan.resume_point {
            Some(from) if self.plan.sort == SearchSort::Path => &from.key.path,
            _ => return Some(None),
        };
        let root = root_prefix(self.jail, top);
        match order::below(from, &root) {
            Some(below) => Some(Some(below.to_vec())),
            None => order::by_component(from, &root).is_le().then_some(None),
        }
    }

    fn record_reached(&mut self, path: Vec<u8>) {
        if self.reached.as_ref().is_none_or(|reached| order::by_component(&path, reached).is_lt()) {
            self.reached = Some(path);
        }
    }
}

fn absolute_path(jail: &Jail, path: &JailPath) -> Vec<u8> {
    jail.roots().absolute(path).into_os_string().into_encoded_bytes()
}

/// The absolute path of the root with a final slash, which precedes root-relative paths.
fn root_prefix(jail: &Jail, path: &JailPath) -> Vec<u8> {
    let mut root = jail.roots().root(path).path.clone().into_os_string().into_encoded_bytes();
    if root.last() != Some(&b'/') {
        root.push(b'/');
    }
    root
}

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod tests;
