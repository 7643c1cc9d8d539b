use std::{
    os::unix::fs::symlink,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;
use crate::{
    jail::{
        Call,
        testing::{TestHelpers, TestJail, TestJailOptions},
    },
    wire::{Code, Result},
};

/// Records what it meets and visits.
#[derive(Default)]
struct Notes {
    met: Mutex<Vec<String>>,
    visited: Mutex<Vec<String>>,
    left_out: Mutex<Vec<LeftOut>>,
    bound: Option<Vec<u8>>,
    panics_at: Option<&'static str>,
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

impl Visitor for Notes {
    type ThreadData = Vec<String>;

    fn new_thread_data(&self) -> Self::ThreadData {
        Vec::new()
    }

    fn admit(&self, _: &mut Self::ThreadData, _: &Dir, entry: WalkEntry<'_>) -> bool {
        self.met.lock().unwrap().push(text(entry.path));
        entry.kind == FileKind::File
    }

    fn visit(&self, local: &mut Self::ThreadData, dir: &Dir, entry: WalkEntry<'_>) -> Result<(), HaltReason> {
        assert!(self.panics_at != Some(&text(entry.name)), "as the test wants it");
        assert!(entry.path.ends_with(entry.name) && dir.stat_entry(entry.name).is_some());
        local.push(text(entry.path));
        Ok(())
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.bound.as_ref().is_some_and(|bound| order::by_component(&path(), bound).is_gt())
    }

    fn count_left_out(&self, _: &mut Self::ThreadData, why: LeftOut) {
        self.left_out.lock().unwrap().push(why);
    }

    fn finish_thread(&self, local: Self::ThreadData) {
        self.visited.lock().unwrap().extend(local);
    }
}

impl Notes {
    fn met(&self) -> Vec<String> {
        let mut met = self.met.lock().unwrap().clone();
        met.sort_by(|a, b| order::by_component(a.as_bytes(), b.as_bytes()));
        met
    }

    fn visited(&self) -> Vec<String> {
        self.visited.lock().unwrap().clone()
    }
}

struct Walked<'a> {
    test: &'a TestJail,
    top: &'a str,
    rules: WalkRules,
    notes: Notes,
    stock: SliceBudget,
    call: Call,
}

impl<'a> Walked<'a> {
    fn of(test: &'a TestJail) -> Self {
        let rules = WalkRules { uses_excludes: true, ..WalkRules::default() };
        Self { test, top: ".", rules, notes: Notes::default(), stock: SliceBudget::default(), call: test.call() }
    }

    fn run(mut self) -> (Arc<Notes>, Result<WalkEnd>) {
        let notes = Arc::new(self.notes);
        let clock = self.call.clock().clone();
        let top = Arc::new(self.test.open_dir(self.top));
        let end = TreeWalk::run_with(&self.test.jail, &mut self.call, &clock, top, self.rules, &notes, self.stock);
        (notes, end)
    }

    fn complete(self) -> Arc<Notes> {
        let (notes, end) = self.run();
        assert_eq!(end, Ok(WalkEnd::Complete));
        notes
    }
}

fn grove(test: &TestJail) -> Vec<String> {
    let mut files = Vec::new();
    for folder in ["a", "a/b", "a/b/c", "a.d", "b", "z/y/x/w"] {
        for file in 0..7 {
            files.push(format!("{folder}/{}", file * 3 % 7));
        }
    }
    files.push("a-file".into());
    files.iter().for_each(|file| test.write(file, "x"));
    files.sort_by(|a, b| order::by_component(a.as_bytes(), b.as_bytes()));
    files
}

#[test]
fn one_thread_visits_every_file_in_order() {
    let test = TestJail::new();
    let files = grove(&test);
    assert_eq!(Walked::of(&test).complete().visited(), files);
    let below = Walked { top: "a/b", ..Walked::of(&test) }.complete();
    assert_eq!(below.visited(), files.iter().filter(|f| f.starts_with("a/b/")).cloned().collect::<Vec<_>>());
}

#[test]
fn several_threads_visit_every_file_once() {
    let test = TestJail::new();
    let mut files = grove(&test);
    for top in 0..40 {
        (0..20).for_each(|file| files.push(format!("many{top}/{file}")));
    }
    files.iter().for_each(|file| test.write(file, ""));
    for helpers in [1, 3, 20] {
        let walked = Walked { call: test.call_with_helpers(helpers), ..Walked::of(&test) }.complete();
        let mut visited = walked.visited();
        visited.sort();
        files.sort();
        assert_eq!(visited, files);
    }
}

/// A helper that leaves after every task, because it is wanted elsewhere, and comes back.
#[derive(Debug)]
struct Restless(AtomicUsize);

impl Crew for Restless {
    fn size(&self) -> usize {
        2
    }

    fn invite(&self, work: Arc<dyn SharedWork>) {
        for _ in 0..50 {
            let work = Arc::clone(&work);
            std::thread::spawn(move || work.help(&Restless(AtomicUsize::new(1))));
        }
    }

    fn dismiss(&self, _: &Arc<dyn SharedWork>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn is_needed_elsewhere(&self) -> bool {
        true
    }
}

#[test]
fn helpers_that_leave_take_nothing_with_them() {
    let test = TestJail::new();
    let files = grove(&test);
    for _ in 0..20 {
        let crew = Arc::new(Restless(AtomicUsize::new(0)));
        let walked = Walked { call: test.call().with_crew(crew.clone()), ..Walked::of(&test) }.complete();
        let mut visited = walked.visited();
        visited.sort_by(|a, b| order::by_component(a.as_bytes(), b.as_bytes()));
        assert_eq!(visited, files);
        assert_eq!(crew.0.load(Ordering::Relaxed), 1, "invitations end with the walk");
    }
}

#[test]
fn links_and_special_files_are_met_and_never_entered() {
    let test = TestJail::new();
    test.write("d/file", "");
    symlink("d", test.path("to-folder")).unwrap();
    symlink("/etc/passwd", test.path("to-file")).unwrap();
    symlink(".", test.path("d/loop")).unwrap();
    test.fifo("pipe");
    let notes = Walked::of(&test).complete();
    assert_eq!(notes.met(), ["d", "d/file", "d/loop", "pipe", "to-file", "to-folder"]);
    assert_eq!(notes.visited(), ["d/file"]);
}

#[test]
fn denied_names_are_not_even_met() {
    let test = TestJail::new();
    for name in [".env", "a/.ENV", "secrets/key", "a/Secrets/deep/key", ".stockade/1/x", "a/.stockade/x", "a/ok"] {
        test.write(name, "");
    }
    let notes = Walked::of(&test).complete();
    assert_eq!(notes.met(), ["a", "a/.stockade", "a/.stockade/x", "a/Secrets", "a/ok", "secrets"]);
    let notes = Walked { top: "secrets", ..Walked::of(&test) }.complete();
    assert_eq!(notes.met(), Vec::<String>::new());
}

#[test]
fn globs_that_need_the_whole_path_hold_too() {
    let test = TestJail::with(TestJailOptions { deny: &["a/*/key", "b*d"], ..TestJailOptions::default() });
    ["a/x/key", "a/key", "b/d", "b/c", "bd"].iter().for_each(|name| test.write(name, ""));
    assert_eq!(Walked::of(&test).complete().met(), ["a", "a/key", "a/x", "b", "b/c"]);
}

#[test]
fn excluded_folders_are_not_entered_unless_they_are_named() {
    let test = TestJail::new();
    ["target/x", "a/target/y", "a/b.pyc", "a/c", "target2"].iter().for_each(|name| test.write(name, ""));
    assert_eq!(Walked::of(&test).complete().visited(), ["a/c", "target2"]);
    let rules = WalkRules { uses_excludes: true, entered_folders: vec![b"target".to_vec()], ..WalkRules::default() };
    let named = Walked { rules, ..Walked::of(&test) }.complete();
    assert_eq!(named.visited(), ["a/c", "a/target/y", "target/x", "target2"]);
    let all = Walked { rules: WalkRules::default(), ..Walked::of(&test) }.complete();
    assert_eq!(all.visited().len(), 5);
}

#[test]
fn hidden_names_and_one_kind_of_folder_can_be_left_out() {
    let test = TestJail::new();
    [".h/x", "a/.h", "a/b", ".git/c"].iter().for_each(|name| test.write(name, ""));
    let rules = WalkRules { skips_hidden: true, ..WalkRules::default() };
    assert_eq!(Walked { rules, ..Walked::of(&test) }.complete().visited(), ["a/b"]);
    let rules = WalkRules { skipped_folder: Some(".git"), ..WalkRules::default() };
    assert_eq!(Walked { rules, ..Walked::of(&test) }.complete().visited(), [".h/x", "a/.h", "a/b"]);
}

#[test]
fn ignore_files_hold_below_their_folder_and_dot_ignore_counts_more() {
    let test = TestJail::new();
    test.write(".gitignore", "*.o\n/top\nbuild/\n!keep.o\n");
    test.write("a/.gitignore", "!x.o\n/b\n");
    test.write("a/.ignore", "c\n!y.o\n");
    test.write(".git/info/exclude", "listed\n");
    for name in ["a/x.o", "a/y.o", "a/z.o", "a/b", "a/c", "a/d/b", "top", "a/top", "build/x", "a/build", "keep.o"] {
        test.write(name, "");
    }
    test.write("a/listed", "");
    let rules = || WalkRules { uses_ignore_files: true, skipped_folder: Some(".git"), ..WalkRules::default() };
    let visited = Walked { rules: rules(), ..Walked::of(&test) }.complete().visited();
    let expected = [".gitignore", "a/.gitignore", "a/.ignore", "a/build", "a/d/b", "a/top", "a/x.o", "a/y.o", "keep.o"];
    assert_eq!(visited, expected);
    let visited = Walked { rules: rules(), top: "a", ..Walked::of(&test) }.complete().visited();
    assert_eq!(visited, expected[1..8], "rules above the top hold, too");
    let visited = Walked { rules: rules(), top: "build", ..Walked::of(&test) }.complete().visited();
    assert_eq!(visited, ["build/x"], "who names an ignored folder wants to see it");
}

#[test]
fn an_ignore_file_that_is_a_link_or_denied_has_no_rules() {
    let test = TestJail::with(TestJailOptions { deny: &["d/.gitignore"], ..TestJailOptions::default() });
    test.write("rules", "x\n");
    symlink("rules", test.path(".gitignore")).unwrap();
    test.write("d/.gitignore", "x\n");
    ["x", "d/x"].iter().for_each(|name| test.write(name, ""));
    let rules = WalkRules { uses_ignore_files: true, ..WalkRules::default() };
    assert_eq!(Walked { rules, ..Walked::of(&test) }.complete().visited(), ["d/x", "rules", "x"]);
}

#[test]
fn a_walk_can_begin_anywhere_and_end_anywhere() {
    let test = TestJail::new();
    let files = grove(&test);
    for from in 0..files.len() {
        let rules = WalkRules { start_path: Some(files[from].clone().into_bytes()), ..WalkRules::default() };
        let to = (from + 5).min(files.len() - 1);
        let notes = Notes { bound: Some(files[to].clone().into_bytes()), ..Notes::default() };
        let visited = Walked { rules, notes, ..Walked::of(&test) }.complete().visited();
        // More than the page by up to one slice: the walk tests the bound only once per batch.
        assert!(visited.len() > to - from, "{visited:?}");
        assert_eq!(visited[..=to - from], files[from..=to]);
    }
    for (from, expected) in [("a/b/d", "a-file"), ("a/b/c", "a/b/c/0"), ("b0", "z/y/x/w/0"), ("a/b/1x", "a/b/2")] {
        let rules = WalkRules { start_path: Some(from.into()), ..WalkRules::default() };
        assert_eq!(Walked { rules, ..Walked::of(&test) }.complete().visited()[0], expected, "{from}");
    }
    let rules = WalkRules { start_path: Some(b"b".to_vec()), ..WalkRules::default() };
    assert!(Walked { rules, top: "a", ..Walked::of(&test) }.complete().visited().is_empty());
}

#[test]
fn large_folders_come_in_slices_and_nothing_is_lost() {
    let test = TestJail::new();
    let mut files: Vec<String> = (0..500).map(|i| format!("d/{:0200}", i * 7 % 500)).collect();
    files.extend((0..30).map(|i| format!("d/sub{i:02}/x")));
    files.iter().for_each(|file| test.write(file, ""));
    files.sort_by(|a, b| order::by_component(a.as_bytes(), b.as_bytes()));
    for helpers in [0, 3] {
        let (stock, call) = (SliceBudget::new(10_000), test.call_with_helpers(helpers));
        let walked = Walked { stock, call, ..Walked::of(&test) }.complete();
        let mut visited = walked.visited();
        if helpers > 0 {
            visited.sort_by(|a, b| order::by_component(a.as_bytes(), b.as_bytes()));
        }
        assert_eq!(visited, files);
        assert_eq!(walked.met().len(), 1 + 500 + 60);
    }
}

#[test]
fn more_folders_than_are_kept_open_are_opened_again() {
    let test = TestJail::new();
    let deep: Vec<String> = (0..60).map(|depth| format!("{}z", "d/".repeat(depth))).collect();
    deep.iter().for_each(|file| test.write(file, ""));
    let mut expected = deep.clone();
    expected.reverse();
    assert_eq!(Walked::of(&test).complete().visited(), expected);
}

#[test]
fn a_passed_deadline_says_how_far_it_came() {
    let test = TestJail::new();
    test.write("a", "");
    let (notes, end) = Walked { call: test.expired_call(), ..Walked::of(&test) }.run();
    assert_eq!(end, Ok(WalkEnd::Deadline { reached: vec![] }));
    assert!(notes.met().is_empty());
}

#[test]
fn a_helper_that_is_lost_fails_the_walk_and_nothing_hangs() {
    let test = TestJail::new();
    let files: Vec<String> = (0..60).map(|i| format!("d{i:02}/file")).collect();
    files.iter().for_each(|file| test.write(file, ""));
    test.write("d59/last", "");
    let notes = Notes { panics_at: Some("last"), ..Notes::default() };
    let walked = Walked { notes, call: test.call().with_crew(Arc::new(TestHelpers(3))), ..Walked::of(&test) };
    // A panic on the call's own thread is caught by the worker; on another thread it becomes an error.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walked.run().1));
    assert!(outcome.is_err() || outcome.is_ok_and(|end| end.unwrap_err().code == Code::Io));
}

#[test]
fn what_cannot_be_entered_is_told() {
    let test = TestJail::new();
    ["closed/x", "open/x"].iter().for_each(|name| test.write(name, ""));
    test.set_mode("closed", 0);
    test.obey_permissions();
    let notes = Walked::of(&test).complete();
    assert_eq!(notes.visited(), ["open/x"]);
    assert_eq!(*notes.left_out.lock().unwrap(), [LeftOut::Unreadable]);
    test.set_mode("closed", 0o700);
}

#[test]
fn what_is_mounted_is_not_entered() {
    let test = TestJail::with(TestJailOptions { root_folder: Some("/"), ..TestJailOptions::default() });
    let notes = Notes { bound: Some(b"proc/zzz".to_vec()), ..Notes::default() };
    let rules = WalkRules { start_path: Some(b"proc".to_vec()), ..WalkRules::default() };
    let notes = Walked { notes, rules, ..Walked::of(&test) }.complete();
    assert!(notes.met().contains(&"proc".into()) && !notes.met().contains(&"proc/self".into()));
    assert!(notes.left_out.lock().unwrap().contains(&LeftOut::Special));
}
