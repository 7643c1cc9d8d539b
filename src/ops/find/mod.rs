//! `coder::find`: files and folders by name. Names are matched while folders are listed. Only entries that are shown, or that
//! have to be compared by time or size, are stat-ed.

mod collect;
mod grouped;
mod missing;
mod visit;

use std::{sync::Arc, time::Duration};

use self::{
    collect::{FindCollector, FindHit, FindOrder},
    missing::MissingNames,
    visit::{FindFilters, FindVisitor},
};
use super::{
    Handler,
    cursor::RequestFingerprint,
    folder::wire_kind,
    names::encode_name,
    near::explain_missing,
    scope::{self, MissingPath, ResolvedScope, ScopePath, ScopeTarget, TargetKind},
};
use crate::{
    broker::Question,
    jail::{
        Call, Clock, Dir, EntryStat, Jail, JailEntry,
        walk::{TreeWalk, WalkEnd, WalkRules},
    },
    path::{JailPath, RawPath},
    text::order,
    wire::{
        Code, Error, Result, decode,
        function::Function,
        types::find::{
            Find, FindEntryPath, FindKind, FindRender, FindRequest, FindResponse, FindSkipped, FindSort, FindTruncated,
            Found,
        },
    },
};

const DEFAULT_LIMIT: u32 = 200;
const MAX_LIMIT: u32 = 10_000;
/// Seconds.
const DEFAULT_TIMEOUT_SECONDS: f64 = 5.0;
const TIMEOUT_RANGE_SECONDS: (f64, f64) = (0.5, 60.0);

impl Handler for Find {
    // Which names to open depends on earlier answers, so no question can be asked early.
    fn questions(_: &Jail, _: &FindRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: FindRequest) -> Result<FindResponse> {
        let mut run = FindRun::new(jail, call, &request)?;
        let paths = sent_paths(call, &request)?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let resolved = scope::resolve(jail, call, &paths, base_dir.as_ref(), MissingPath::SoughtByName);
        // If nothing is there, the first path is not.
        let mut scope =
            resolved.map_err(|error| explain_missing(jail, call, &paths[0].path, base_dir.as_ref(), error))?;
        run.missing_names = MissingNames::new(&scope.sought).map(Arc::new);
        for target in &mut scope.targets {
            match &run.reached {
                None => run.find_in_target(call, target)?,
                // The deadline has passed, and this target was not examined.
                Some(_) => run.record_reached(absolute_path(jail, &target.name.path)),
            }
        }
        run.report_missing(&paths, &mut scope)?;
        Ok(run.respond(&scope))
    }
}

/// A parsed request, and how far the search has come.
struct FindRun<'a> {
    jail: &'a Jail,
    request: &'a FindRequest,
    filters: FindFilters,
    limit: usize,
    clock: Clock,
    fingerprint: RequestFingerprint,
    collector: Arc<FindCollector>,
    /// Set at the deadline: the first path, in the order of paths, that was not examined. Absolute.
    reached: Option<Vec<u8>>,
    missing_names: Option<Arc<MissingNames>>,
}

impl<'a> FindRun<'a> {
    fn new(jail: &'a Jail, call: &Call, request: &'a FindRequest) -> Result<Self> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT) as usize;
        if limit == 0 {
            return Err(Error::bad_input("limit: 0 entries; expected 1 to 10000, for example 200"));
        }
        let most = call.limits.max_batch_entries as usize;
        if request.paths.len() > most {
            let text = format!("paths: {} entries, at most {most} in one call", request.paths.len());
            return Err(Error::new(Code::TooLarge, text));
        }
        if request.paths.is_empty() {
            return Err(Error::bad_input("paths: empty; expected globs, folders or files, for example [\"*.rs\"]"));
        }
        let timeout =
            request.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS).clamp(TIMEOUT_RANGE_SECONDS.0, TIMEOUT_RANGE_SECONDS.1);
        let same = FindRequest { cursor: None, limit: None, timeout: None, render: None, ..request.clone() };
        let fingerprint = RequestFingerprint::of(Find::NAME, &same);
        let order = FindOrder::new(request.sort.unwrap_or(FindSort::Mtime), fingerprint, request.cursor.as_deref())?;
        let has_size = request.min_size.is_some() || request.max_size.is_some();
        let filters = FindFilters {
            kind: request.kind.unwrap_or(FindKind::Any),
            size: has_size.then(|| request.min_size.unwrap_or(0)..=request.max_size.unwrap_or(u64::MAX)),
            after: request.modified_after,
            before: request.modified_before,
        };
        Ok(Self {
            jail,
            request,
            filters,
            limit,
            clock: call.clock().for_partial_work(Duration::from_secs_f64(timeout)),
            fingerprint,
            collector: Arc::new(FindCollector::new(order, limit)),
            reached: None,
            missing_names: None,
        })
    }

    /// Names that were not found at any depth are missing. C211 if nothing else was asked for.
    fn report_missing(&self, paths: &[ScopePath], scope: &mut ResolvedScope) -> Result<()> {
        // A later page, or a search that ran out of time, has not seen every entry.
        let Some(names) =
            self.missing_names.as_ref().filter(|_| self.request.cursor.is_none() && self.reached.is_none())
        else {
            return Ok(());
        };
        let missing = names.not_found();
        let nothing_else = scope.existing == 0 && missing.len() == scope.sought.len();
        if let Some((name, near)) = missing.first().filter(|_| nothing_else) {
            let mut error = Error::not_found(name).with_near_names(near);
            if let ignored @ 1.. = self.collector.ignored() {
                let entries = if ignored == 1 { "entry" } else { "entries" };
                error
                    .message
                    .push_str(&format!("; ignore files hid {ignored} {entries}, gitignore: false also looks there"));
            }
            return Err(error);
        }
        scope.missing.extend(missing.into_iter().map(|(name, _)| name));
        scope.missing.sort_by_key(|missing| paths.iter().position(|sent| sent.path.display() == missing));
        Ok(())
    }

    fn find_in_target(&mut self, call: &mut Call, target: &mut ScopeTarget) -> Result<()> {
        let entry = match target.open(self.jail, call) {
            // It was removed after its meaning was determined.
            Err(error) if error.code == Code::NotFound => return Ok(()),
            other => other?,
        };
        let TargetKind::Folder(globs) = &mut target.kind else {
            self.new_visitor(&target.name.path, None).add(target.name.path.rel(), &EntryStat::Entry(*entry.stat()));
            return Ok(());
        };
        let globs = globs.take();
        let Some(top) = self.open_folder(call, entry)? else { return Ok(()) };
        let path = top.path().clone();
        let Some(from) = self.first_path(&path) else { return Ok(()) };
        let rules = WalkRules {
            // A caller that names an excluded folder wants to see it.
            uses_excludes: self.request.use_default_excludes != Some(false) && !self.jail.excludes().has_folder(&path),
            entered_folders: globs.as_ref().map(scope::FolderGlobs::named_folders).unwrap_or_default(),
            skips_hidden: self.request.hidden == Some(false),
            skipped_folder: Some(".git"),
            uses_ignore_files: self.request.gitignore != Some(false),
            start_path: from,
        };
        let top = Arc::new(top);
        let visitor = Arc::new(self.new_visitor(&path, globs));
        let end = TreeWalk::run(self.jail, call, &self.clock, Arc::clone(&top), rules, &visitor)?;
        self.collector.stat_hits(&top, &absolute_path(self.jail, &path));
        if let WalkEnd::Deadline { reached } = end {
            self.record_reached([visitor.root.as_slice(), &reached].concat());
        }
        Ok(())
    }

    fn new_visitor(&self, top: &JailPath, globs: Option<scope::FolderGlobs>) -> FindVisitor {
        FindVisitor {
            collector: Arc::clone(&self.collector),
            filters: self.filters.clone(),
            max_depth: globs.as_ref().and_then(scope::FolderGlobs::max_depth),
            globs,
            root: root_prefix(self.jail, top),
            prefix_bytes: if top.is_root() { 0 } else { top.rel().len() + 1 },
            missing_names: self.missing_names.clone(),
        }
    }

    /// `None` if the folder cannot be listed. That is counted and not an error, because other folders can be.
    fn open_folder(&self, call: &Call, entry: JailEntry) -> Result<Option<Dir>> {
        match entry.open_dir(self.jail, call) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if matches!(error.code, Code::Deadline | Code::OutsideRoots) => Err(error),
            Err(_) => {
                self.collector.count_skipped(FindSkipped { unreadable: 1, ..FindSkipped::default() });
                Ok(None)
            }
        }
    }

    /// Where the walk of a folder begins if this reply continues another one. `None` if the replies before cover the whole
    /// folder.
    fn first_path(&self, top: &JailPath) -> Option<Option<Vec<u8>>> {
        let Some(first) = self.collector.order.first_path() else { return Some(None) };
        let root = root_prefix(self.jail, top);
        match order::below(first, &root) {
            Some(below) => Some(Some(below.to_vec())),
            None => order::by_component(first, &root).is_le().then_some(None),
        }
    }

    fn record_reached(&mut self, path: Vec<u8>) {
        if self.reached.as_ref().is_none_or(|reached| order::by_component(&path, reached).is_lt()) {
            self.reached = Some(path);
        }
    }

    fn respond(&self, scope: &ResolvedScope) -> FindResponse {
        let (mut hits, skipped) = self.collector.finish();
        let is_by_path = self.collector.order.sort == FindSort::Path;
        if let Some(reached) = self.reached.as_ref().filter(|_| is_by_path) {
            // Everything before that path is complete, and the next call continues there.
            hits.retain(|hit| order::by_component(&hit.path, reached).is_lt());
        }
        let limit_reached = hits.len() > self.limit;
        hits.truncate(self.limit);
        let timed_out = self.reached.is_some();
        let order = &self.collector.order;
        let next_cursor = match (&self.reached, hits.last()) {
            (_, Some(last)) if limit_reached => Some(order.cursor(self.fingerprint, last)),
            (Some(reached), _) if is_by_path => Some(order.cursor_at(self.fingerprint, reached)),
            _ => None,
        };
        let truncated_reason = match (limit_reached, timed_out) {
            (true, _) => Some(FindTruncated::Limit),
            (false, true) => Some(FindTruncated::Deadline),
            (false, false) => None,
        };
        let scope_path = self.scope_path(scope);
        let is_grouped = self.request.render == Some(FindRender::Grouped);
        FindResponse {
            file_count: hits.len() as u64,
            truncated: truncated_reason.is_some(),
            truncated_reason,
            limit_reached,
            timed_out,
            next_cursor,
            missing_paths: scope.missing.clone(),
            text: is_grouped.then(|| grouped::text(&hits, &scope_path)),
            scope_path: encode_name(&scope_path).0,
            skipped,
            files: hits.iter().map(to_found).collect(),
        }
    }

    fn scope_path(&self, scope: &ResolvedScope) -> Vec<u8> {
        let folder = |target: &ScopeTarget| {
            let path = absolute_path(self.jail, &target.name.path);
            match (&target.kind, memchr::memrchr(b'/', &path)) {
                (TargetKind::File, Some(slash)) => path[..slash].to_vec(),
                _ => path,
            }
        };
        grouped::common_folder(&scope.targets.iter().map(folder).collect::<Vec<_>>())
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

fn to_found(hit: &FindHit) -> Found {
    let (path, path_bytes) = encode_name(&hit.path);
    Found { path, path_bytes, kind: wire_kind(hit.kind), size: hit.size, mtime: hit.mtime }
}

fn sent_paths(call: &mut Call, request: &FindRequest) -> Result<Vec<ScopePath>> {
    let mut paths = Vec::with_capacity(request.paths.len());
    for (index, value) in request.paths.iter().enumerate() {
        let at = format!("paths[{index}]");
        let path = match value {
            serde_json::Value::String(path) => Some(ScopePath::text(path)),
            serde_json::Value::Object(_) => {
                let entry: FindEntryPath = decode::decode(value.clone(), &at, &mut call.warnings)?;
                ScopePath::of(entry.path.as_deref(), entry.path_bytes.as_deref())?
            }
            _ => None,
        };
        paths.push(path.ok_or_else(|| {
            Error::bad_input(format!(
                "{at}: expected a text or an object, for example \"*.rs\" or {{\"path\": \"src\"}}"
            ))
        })?);
    }
    Ok(paths)
}

#[cfg(test)]
mod missing_tests;
#[cfg(test)]
mod tests;
