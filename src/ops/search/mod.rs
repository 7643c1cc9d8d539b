//! `coder::search`: text in files, and files by path. Every file below a folder is read once, in regions; a page of
//! matches is kept and nothing behind it is looked at.

mod collect;
mod file;
mod page;
mod plan;
mod visit;

use std::sync::Arc;

use self::{
    collect::Collector,
    plan::{Lines, Plan},
    visit::Searching,
};
use super::{
    Handler,
    names::named,
    scope::{self, Target, What},
};
use crate::{
    broker::{Intent, Question},
    jail::{
        Call, Entry, Halt, Jail, Unopened,
        walk::{End, Rules, Visitor as _, Walk},
    },
    path::{JailPath, RawPath},
    text::order,
    wire::{
        Code, Error, Result,
        compat::Wire,
        types::search::{Search, SearchRequest, SearchResponse},
    },
};

impl Handler for Search {
    fn questions(jail: &Jail, request: &SearchRequest) -> Vec<Question> {
        match &request.paths {
            // What those mean is found out by asking.
            Some(_) => Vec::new(),
            None => {
                let sent = sent_folder(request).ok();
                let folder = sent.and_then(|(name, base_dir)| jail.foresee(&name, base_dir.as_ref()));
                folder.iter().map(|folder| folder.question(Intent::Read)).collect()
            }
        }
    }

    fn run(jail: &Jail, call: &mut Call, request: SearchRequest) -> Result<SearchResponse> {
        plan::check(&request)?;
        let mut places = Places::find(jail, call, &request)?;
        let plan = Arc::new(Plan::new(call, &request)?);
        let collector = Arc::new(Collector::new(&plan));
        let mut run = Run { jail, plan: &plan, collector: &collector, reached: None };
        for target in &mut places.targets {
            match &run.reached {
                None => run.target(call, target, &places.lines)?,
                // The time is up: here nothing was looked at.
                Some(_) => run.reach(absolute(jail, &target.name.path)),
            }
        }
        let reached = run.reached.take();
        let mut response = page::respond(&plan, &collector, reached.as_deref(), places.missing);
        if jail.settings().wire == Wire::V02 {
            make_relative(jail, &mut response);
        }
        Ok(response)
    }
}

/// The older wire names everything below its one root.
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
    let name = named(request.path.as_deref(), request.path_bytes.as_deref())?;
    Ok((name.unwrap_or_else(|| RawPath::text(".")), request.base_dir.as_deref().map(RawPath::text)))
}

/// Where to look.
struct Places {
    targets: Vec<Target>,
    /// Of each entry of `paths`.
    lines: Vec<Lines>,
    missing: Vec<String>,
}

impl Places {
    /// Comes before the pattern is compiled: so the contract orders the errors.
    fn find(jail: &Jail, call: &mut Call, request: &SearchRequest) -> Result<Self> {
        let Some(paths) = &request.paths else {
            let (name, base_dir) = sent_folder(request)?;
            let folder = jail.locate(call, &name, base_dir.as_ref())?;
            let entry = jail.open(call, &folder, Intent::Read)?;
            entry.check_dir(jail, call)?;
            let targets = vec![Target::folder(folder, entry)];
            return Ok(Self { targets, lines: vec![Lines::new()], missing: Vec::new() });
        };
        let (sent, lines) = plan::sent_paths(call, paths)?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let scope = scope::resolve(jail, call, &sent, base_dir.as_ref())?;
        for target in &scope.targets {
            if matches!(target.what, What::Folder(_)) && !lines[target.entry].is_empty() {
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
struct Run<'a> {
    jail: &'a Jail,
    plan: &'a Arc<Plan>,
    collector: &'a Arc<Collector>,
    /// The time was up here: absolute, in the order of paths.
    reached: Option<Vec<u8>>,
}

impl Run<'_> {
    fn target(&mut self, call: &mut Call, target: &mut Target, lines: &[Lines]) -> Result<()> {
        let entry = match target.open(self.jail, call) {
            // Gone since its meaning was found out.
            Err(error) if error.code == Code::NotFound => return Ok(()),
            other => other?,
        };
        match &mut target.what {
            What::Folder(globs) => self.folder(call, entry, globs.take()),
            What::File => self.file(call, entry, &target.name.path, &lines[target.entry]),
        }
    }

    fn folder(&mut self, call: &mut Call, entry: Entry, globs: Option<scope::Globs>) -> Result<()> {
        let top = Arc::new(entry.open_dir(self.jail, call)?);
        let path = top.path().clone();
        let Some(from) = self.first_path(&path) else { return Ok(()) };
        let rules = Rules {
            // Who names an excluded folder wants to see it.
            excludes: self.plan.uses_excludes && !self.jail.excludes().has_folder(&path),
            entered: globs.as_ref().map(scope::Globs::named_folders).unwrap_or_default(),
            ignore_files: self.plan.obeys_ignore_files,
            from,
            ..Rules::default()
        };
        let searching = Arc::new(Searching::new(self.jail, self.plan, self.collector, &path, globs));
        let clock = &self.plan.clock;
        if let End::Deadline { reached } = Walk::run(self.jail, call, clock, top, rules, &searching)? {
            self.reach(searching.absolute(&reached));
        }
        Ok(())
    }

    /// A file that was named itself: whatever its name, and an error if it cannot be read.
    fn file(&mut self, call: &mut Call, entry: Entry, path: &JailPath, lines: &Lines) -> Result<()> {
        let searching = Searching::new(self.jail, self.plan, self.collector, path, None);
        let absolute = absolute(self.jail, path);
        if !self.plan.is_due(&absolute) {
            return Ok(());
        }
        entry.check_content(self.jail, call)?;
        let mut local = searching.local();
        searching.match_path(&mut local, path.rel());
        if self.plan.searches_content {
            let file = entry.open_content(self.jail, call).map_err(|_| Unopened::Unreadable);
            if let Err(halt) = searching.search_file(&mut local, path.rel(), file, lines) {
                if halt == Halt::Cancelled {
                    return Err(self.plan.clock.error(halt));
                }
                self.reach(absolute);
            }
        }
        searching.leave(local);
        Ok(())
    }

    /// Where the walk of a folder begins when a reply is continued; None if all of it was before.
    fn first_path(&self, top: &JailPath) -> Option<Option<Vec<u8>>> {
        let Some(from) = &self.plan.from else { return Some(None) };
        let root = root_prefix(self.jail, top);
        match order::below(&from.path, &root) {
            Some(below) => Some(Some(below.to_vec())),
            None => order::by_component(&from.path, &root).is_le().then_some(None),
        }
    }

    fn reach(&mut self, path: Vec<u8>) {
        if self.reached.as_ref().is_none_or(|reached| order::by_component(&path, reached).is_lt()) {
            self.reached = Some(path);
        }
    }
}

fn absolute(jail: &Jail, path: &JailPath) -> Vec<u8> {
    jail.roots().absolute(path).into_os_string().into_encoded_bytes()
}

/// What stands before a root-relative path in an absolute one.
fn root_prefix(jail: &Jail, path: &JailPath) -> Vec<u8> {
    let mut root = jail.roots().root(path).path.clone().into_os_string().into_encoded_bytes();
    if root.last() != Some(&b'/') {
        root.push(b'/');
    }
    root
}

#[cfg(test)]
mod tests;
