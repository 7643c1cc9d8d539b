//! One folder's walk: which files are read, and what is found in them.

use std::sync::{Arc, Mutex};

use super::{
    collect::{Collector, Hits},
    file::{self, Room, Unsearched},
    plan::Plan,
    root_prefix,
};
use crate::{
    jail::{
        Dir, File, Halt, Jail, Unopened,
        walk::{LeftOut, Met, Visitor},
    },
    ops::scope::Globs,
    path::JailPath,
    sys::fs::Kind,
    text::search::{Scanner, Scratch, Wants},
    wire::types::search::Skipped,
};

pub(super) struct Searching {
    plan: Arc<Plan>,
    collector: Arc<Collector>,
    jail: Jail,
    /// Absolute path of the root with a final slash.
    root: Vec<u8>,
    /// For paths below the walk's folder, besides those of the request.
    globs: Option<Globs>,
    prefix: usize,
    /// Held by the one thread that needs a large buffer: lines and files for whole matches may have megabytes.
    large: Mutex<()>,
}

/// One thread's own room.
pub(super) struct Hand {
    scratch: Scratch,
    room: Room,
    wants: Wants,
    skipped: Skipped,
}

impl Searching {
    pub(super) fn new(
        jail: &Jail,
        plan: &Arc<Plan>,
        collector: &Arc<Collector>,
        top: &JailPath,
        globs: Option<Globs>,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            collector: Arc::clone(collector),
            jail: jail.clone(),
            root: root_prefix(jail, top),
            globs,
            prefix: if top.is_root() { 0 } else { top.rel().len() + 1 },
            large: Mutex::new(()),
        }
    }

    pub(super) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, path].concat()
    }

    pub(super) fn match_path(&self, hand: &mut Hand, path: &[u8]) {
        // A folder is met in one go, and a slow regex may take all the time there is for its names: then the walk, which
        // looks at the clock behind each folder, goes back to its beginning.
        let is_late = || self.plan.pattern.literal_len().is_none() && self.plan.clock.check().is_err();
        if !self.plan.searches_paths || is_late() || !self.plan.pattern.matches(&mut hand.scratch, path) {
            return;
        }
        let absolute = self.absolute(path);
        let is_shown = self.plan.left_in(&absolute).is_some_and(|from| from.in_content);
        if self.plan.is_due(&absolute) && !is_shown {
            self.collector.add(absolute, Hits { has_path: true, ..Hits::default() });
        }
    }

    pub(super) fn search_file(
        &self,
        hand: &mut Hand,
        path: &[u8],
        file: Result<File, Unopened>,
        lines: &[(u64, u64)],
    ) -> Result<(), Halt> {
        let file = match file {
            Ok(file) => file,
            Err(Unopened::Changed) => return Ok(()),
            Err(Unopened::Special) => {
                hand.skipped.special += 1;
                return Ok(());
            }
            Err(Unopened::Unreadable) => {
                hand.skipped.unreadable += 1;
                return Ok(());
            }
        };
        if let Some(from) = &self.plan.from {
            let is_here = from.path.len() == self.root.len() + path.len() && from.path.ends_with(path);
            hand.wants.after_offset = from.after_offset.filter(|_| is_here);
        }
        hand.wants.cost_each = (self.root.len() + path.len()) as u64;
        if hand.wants.lines != lines {
            hand.wants.lines = lines.to_vec();
        }
        let mut scanner = Scanner::new(&self.plan.pattern, &mut hand.scratch, &hand.wants);
        let unsearched = file::search(&self.plan, &file, &mut scanner, &mut hand.room, &self.large)?;
        let content = scanner.finish();
        hand.skipped.count(unsearched);
        if content.count > 0 || content.cut.is_some() {
            self.collector.add(self.absolute(path), Hits { has_path: false, content });
        }
        Ok(())
    }
}

impl Visitor for Searching {
    type Local = Hand;

    fn local(&self) -> Hand {
        let clock = self.plan.clock.clone();
        Hand {
            scratch: self.plan.pattern.scratch(move || clock.check().is_err()),
            room: Room::default(),
            wants: self.plan.wants.clone(),
            skipped: Skipped::default(),
        }
    }

    fn meet(&self, hand: &mut Hand, _: &Dir, entry: Met<'_>) -> bool {
        let is_special = match entry.kind {
            Kind::File => false,
            Kind::Fifo | Kind::Socket | Kind::Device => true,
            Kind::Dir | Kind::Symlink | Kind::Unknown => return false,
        };
        if !self.plan.selects(entry.name, entry.path)
            || !self.globs.as_ref().is_none_or(|globs| globs.has(&entry.path[self.prefix..]))
        {
            return false;
        }
        if is_special {
            hand.skipped.special += u64::from(self.plan.searches_content);
            return false;
        }
        self.match_path(hand, entry.path);
        self.plan.searches_content
    }

    fn enters(&self, folder: Met<'_>) -> bool {
        !self.plan.excludes_folder(folder.path)
    }

    fn visit(&self, hand: &mut Hand, dir: &Dir, entry: Met<'_>) -> Result<(), Halt> {
        self.search_file(hand, entry.path, self.jail.open_file(dir, entry.name), &[])
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.collector.is_beyond(|| self.absolute(&path()))
    }

    fn left_out(&self, hand: &mut Hand, why: LeftOut) {
        match why {
            LeftOut::Unreadable => hand.skipped.unreadable += 1,
            LeftOut::Special => hand.skipped.special += 1,
            LeftOut::TooDeep => hand.skipped.too_deep += 1,
        }
    }

    fn leave(&self, hand: Hand) {
        self.collector.count_skipped(hand.skipped);
    }
}

impl Skipped {
    fn count(&mut self, unsearched: Option<Unsearched>) {
        match unsearched {
            None => {}
            Some(Unsearched::Binary) => self.binary += 1,
            Some(Unsearched::Unreadable) => self.unreadable += 1,
            Some(Unsearched::LongLine) => self.long_line += 1,
            Some(Unsearched::TooLarge) => self.too_large += 1,
        }
    }
}
