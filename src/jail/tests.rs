use std::os::unix::fs::symlink;

use super::{
    testing::{TestJail, TestJailOptions},
    *,
};
use crate::{
    path::{Hardlinks, Symlinks},
    sys::fs::FileKind,
    wire::Code,
};

fn located(test: &TestJail, name: &str) -> Located {
    locate(test, name).unwrap()
}

fn locate(test: &TestJail, name: &str) -> Result<Located> {
    test.jail.locate(&test.call(), &RawPath::text(name), None)
}

fn open(test: &TestJail, name: &str) -> Result<JailEntry> {
    test.jail.open(&mut test.call(), &located(test, name), Intent::Read)
}

fn open_content(test: &TestJail, name: &str) -> Result<JailFile> {
    open(test, name)?.open_content(&test.jail, &test.call())
}

fn content(file: &JailFile) -> Vec<u8> {
    let mut buffer = [0; 64];
    let len = file.read_full_at(&mut buffer, 0).unwrap();
    buffer[..len].to_vec()
}

#[test]
fn denied_and_missing_answer_alike() {
    let test = TestJail::new();
    test.write("a/.env", "secret");
    let denied = locate(&test, "a/.env").unwrap_err();
    let missing = open(&test, "a/env").unwrap_err();
    assert_eq!(denied.code, Code::NotFound);
    assert_eq!(denied.code, missing.code);
    assert_eq!(denied.message.replace("a/.env", "a/env"), missing.message);
    assert!(denied.message.contains("not found or not accessible"));
}

#[test]
fn denied_names_are_refused_before_the_supervisor_is_asked() {
    let test = TestJail::new();
    for name in ["a/.env", "a/.ENV", "secrets/x", "x/../secrets/y/z", ".stockade", ".stockade/1/journal"] {
        assert_eq!(locate(&test, name).unwrap_err().code, Code::NotFound, "{name}");
    }
    assert!(test.broker.messages.lock().unwrap().is_empty());
}

#[test]
fn what_is_refused_without_a_question_is_reported_once_and_nothing_else_is() {
    let test = TestJail::with(TestJailOptions { hardlinks: Hardlinks::Refuse, ..TestJailOptions::default() });
    test.write("a", "");
    test.write("d/b", "");
    std::fs::hard_link(test.path("d/b"), test.path("hard")).unwrap();
    symlink("a", test.path("link")).unwrap();
    let folder = |name: &str| open(&test, name).and_then(|entry| entry.open_dir(&test.jail, &test.call()));
    for (name, code, reported) in [
        ("a/.env", Code::NotFound, true),
        ("../x", Code::OutsideRoots, true),
        ("/etc/passwd", Code::OutsideRoots, true),
        ("hard", Code::OutsideRoots, true),
        ("link", Code::OutsideRoots, true),
        ("no-such-name", Code::NotFound, false),
        ("d", Code::BadInput, false),
        ("nul\0", Code::BadInput, false),
        // The supervisor saw this one itself.
        ("link/x", Code::OutsideRoots, false),
    ] {
        let raw = RawPath::text(name);
        let _ = test.jail.locate_early(&raw, None);
        let error = test.jail.locate(&test.call(), &raw, None).and_then(|located| {
            let entry = test.jail.open(&mut test.call(), &located, Intent::Read)?;
            entry.open_content(&test.jail, &test.call())
        });
        assert_eq!(error.unwrap_err().code, code, "{name}");
        let reports = std::mem::take(&mut *test.broker.reports.lock().unwrap());
        let expected = if reported { vec![(code, name.as_bytes().to_vec())] } else { Vec::new() };
        assert_eq!(reports, expected, "{name}");
    }
    assert_eq!(folder("link").unwrap_err().code, Code::OutsideRoots);
    assert_eq!(test.broker.reports.lock().unwrap().len(), 1);
    assert_eq!(open_content(&test, "a").err(), None);
}

#[test]
fn a_refusal_of_the_supervisor_is_told_with_the_code_that_the_audit_has() {
    let test = TestJail::new();
    let name = located(&test, "a");
    for refusal in [
        Refusal::NotFound,
        Refusal::Denied,
        Refusal::Escape,
        Refusal::Mount,
        Refusal::NotDirectory,
        Refusal::ReadOnly,
        Refusal::Protected(0),
        Refusal::Busy,
        Refusal::Unsettled,
        Refusal::Io(5),
    ] {
        assert_eq!(refusal::error(&test.jail, &name, refusal).code, refusal.code(), "{refusal:?}");
    }
}

#[test]
fn an_entry_tells_what_fstat_told() {
    let test = TestJail::new();
    test.write("a", "12345");
    test.set_mode("a", 0o640);
    let entry = open(&test, "a").unwrap();
    assert_eq!((entry.kind(), entry.stat().size_bytes, entry.stat().mode), (FileKind::File, 5, 0o640));
    assert_eq!(entry.stat().nlink, 1);
}

#[test]
fn the_root_itself_opens() {
    let test = TestJail::new();
    for name in ["", ".", "a/.."] {
        let entry = open(&test, name).unwrap();
        assert_eq!(entry.kind(), FileKind::Dir);
        assert!(entry.open_dir(&test.jail, &test.call()).is_ok());
    }
}

#[test]
fn questions_go_in_messages_of_at_most_32() {
    let test = TestJail::new();
    let names: Vec<Located> = (0..100).map(|i| located(&test, &format!("f{i}"))).collect();
    let opened = test.jail.ask(&mut test.call(), &names, Intent::Read);
    assert_eq!(opened.len(), 100);
    let messages = test.broker.messages.lock().unwrap();
    assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 32, 4]);
}

#[test]
fn long_paths_go_in_smaller_messages() {
    let test = TestJail::new();
    let long = vec!["d".repeat(200); 20].join("/");
    let names: Vec<Located> = (0..32).map(|i| located(&test, &format!("{long}/{i}"))).collect();
    test.jail.ask(&mut test.call(), &names, Intent::Read);
    let messages = test.broker.messages.lock().unwrap();
    assert_eq!(messages.iter().map(Vec::len).sum::<usize>(), 32);
    for message in messages.iter() {
        assert!(message.iter().map(|question| question.path.len()).sum::<usize>() <= 60 * 1024);
    }
}

#[test]
fn fetched_answers_are_not_asked_for_again() {
    let test = TestJail::new();
    test.write("a", "x");
    let name = located(&test, "a");
    let question = name.question(Intent::Read);
    let answer = test.broker.ask(test.call().caller(), std::slice::from_ref(&question)).remove(0);
    let mut call = test.call();
    call.add_answer(question, answer);
    assert!(test.jail.open(&mut call, &name, Intent::Read).is_ok());
    assert_eq!(test.broker.messages.lock().unwrap().len(), 1, "only the fetch itself");
    assert!(test.jail.open(&mut call, &name, Intent::Read).is_ok());
    assert_eq!(test.broker.messages.lock().unwrap().len(), 2, "an answer is used once");
}

#[test]
fn each_refusal_has_its_code() {
    let test = TestJail::new();
    let cases = [
        (Refusal::NotFound, Code::NotFound, "not found or not accessible"),
        (Refusal::Denied, Code::NotFound, "not found or not accessible"),
        (Refusal::Escape, Code::OutsideRoots, "links are not followed"),
        (Refusal::Mount, Code::OutsideRoots, "mount point"),
        (Refusal::NotDirectory, Code::Io, "not a directory"),
        (Refusal::ReadOnly, Code::ReadOnly, "read-only"),
        (Refusal::Protected(0), Code::ReadOnly, "protected by **/.lock: clients can read but not change it"),
        (Refusal::Busy, Code::Busy, "retry"),
        (Refusal::Unsettled, Code::Busy, "was interrupted and is being undone; retry"),
        (Refusal::Io(5), Code::Io, "Input/output error"),
    ];
    for (refusal, code, text) in cases {
        test.interfere(move |_, _| Some(refusal));
        let error = open(&test, "d/a").unwrap_err();
        assert_eq!(error.code, code, "{refusal:?}");
        assert!(error.message.starts_with("d/a: ") && error.message.contains(text), "{error}");
    }
}

#[test]
fn an_escape_names_the_allowed_roots_and_nothing_else() {
    let test = TestJail::new();
    let root = test.root().to_str().unwrap().to_owned();
    symlink("/etc", test.path("out")).unwrap();
    let relative = open(&test, "out/passwd").unwrap_err();
    assert_eq!(relative.code, Code::OutsideRoots);
    assert!(relative.message.contains(&root) && !relative.message.contains("/etc"), "{relative}");
    let absolute = open(&test, &format!("{root}/out/passwd")).unwrap_err();
    assert!(absolute.message.contains(&format!("Allowed roots: {root}")), "{absolute}");
}

#[test]
fn a_broker_out_of_time_is_a_deadline_and_not_busy() {
    let test = TestJail::new();
    test.interfere(|_, _| Some(Refusal::Busy));
    let error = test.jail.open(&mut test.expired_call(), &located(&test, "a"), Intent::Read).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
}

#[test]
fn a_file_replaced_between_look_and_open_is_resolved_again() {
    let test = TestJail::new();
    test.write("a", "old");
    let entry = open(&test, "a").unwrap();
    test.write("b", "new");
    std::fs::rename(test.path("b"), test.path("a")).unwrap();
    let file = entry.open_content(&test.jail, &test.call()).unwrap();
    assert_eq!(content(&file), b"new");
    assert_eq!(file.stat().size_bytes, 3);
    assert_eq!(test.broker.messages.lock().unwrap().len(), 2);
}

#[test]
fn a_second_try_uses_no_answer_from_before_the_race() {
    let test = TestJail::new();
    test.write("d/a", "old");
    let name = located(&test, "d/a");
    let questions = [name.question(Intent::Read), name.question(Intent::Read)];
    let answers = test.broker.ask(test.call().caller(), &questions);
    let mut call = test.call();
    for (question, answer) in questions.into_iter().zip(answers) {
        call.add_answer(question, answer);
    }
    let entry = test.jail.open(&mut call, &name, Intent::Read).unwrap();
    // Kept, so that its number is not given to the next file.
    std::fs::rename(test.path("d/a"), test.path("old")).unwrap();
    std::fs::rename(test.path("d"), test.path("moved")).unwrap();
    test.write("moved/a", "moved away");
    test.write("d/a", "new");
    assert_eq!(content(&entry.open_content(&test.jail, &call).unwrap()), b"new");
}

#[test]
fn what_a_name_became_between_look_and_open_decides() {
    let become_link = |test: &TestJail| symlink("/etc/passwd", test.path("a")).unwrap();
    type Change<'a> = &'a dyn Fn(&TestJail);
    let cases: [(&str, Change<'_>, Code); 4] = [
        ("nothing", &|_| {}, Code::NotFound),
        ("a link", &become_link, Code::OutsideRoots),
        ("a FIFO", &|test| test.fifo("a"), Code::BadInput),
        ("a folder", &|test| std::fs::create_dir(test.path("a")).unwrap(), Code::BadInput),
    ];
    for (what, change, code) in cases {
        let test = TestJail::new();
        test.write("a", "old");
        let entry = open(&test, "a").unwrap();
        std::fs::remove_file(test.path("a")).unwrap();
        change(&test);
        let error = entry.open_content(&test.jail, &test.call()).unwrap_err();
        assert_eq!(error.code, code, "{what}");
    }
}

#[test]
fn unreadable_is_an_io_error_after_one_more_try() {
    let test = TestJail::new();
    test.write("a", "x");
    test.set_mode("a", 0);
    test.obey_permissions();
    let error = open_content(&test, "a").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::Io, "a: permission denied"));
    assert_eq!(test.broker.messages.lock().unwrap().len(), 2);
}

#[test]
fn unreadable_in_a_folder_that_was_swapped_is_busy() {
    let test = TestJail::new();
    test.write("d/a", "x");
    test.set_mode("d/a", 0);
    test.obey_permissions();
    let entry = open(&test, "d/a").unwrap();
    std::fs::rename(test.path("d"), test.path("moved")).unwrap();
    test.write("d/a", "x");
    test.set_mode("d/a", 0);
    assert_eq!(entry.open_content(&test.jail, &test.call()).unwrap_err().code, Code::Busy);
}

#[test]
fn a_folder_that_may_not_be_searched_hides_what_it_holds() {
    let test = TestJail::new();
    test.write("d/a", "x");
    test.set_mode("d", 0);
    test.obey_permissions();
    let there = open(&test, "d/a").unwrap_err();
    let missing = open(&test, "d/b").unwrap_err();
    assert_eq!((there.code, missing.code), (Code::NotFound, Code::NotFound));
    test.set_mode("d", 0o700);
}

#[test]
fn several_hard_links_are_refused_where_the_root_says_so() {
    for (hardlinks, expected) in [(Hardlinks::Allow, None), (Hardlinks::Refuse, Some(Code::OutsideRoots))] {
        let test = TestJail::with(TestJailOptions { hardlinks, ..TestJailOptions::default() });
        test.write("a", "x");
        assert!(open_content(&test, "a").is_ok());
        std::fs::hard_link(test.path("a"), test.path("b")).unwrap();
        assert_eq!(open_content(&test, "a").err().map(|error| error.code), expected);
    }
}

#[test]
fn a_leaf_link_is_a_race_where_links_are_followed_for_us() {
    let test = TestJail::with(TestJailOptions { symlinks: Symlinks::Beneath, ..TestJailOptions::default() });
    symlink("b", test.path("a")).unwrap();
    assert_eq!(open_content(&test, "a").unwrap_err().code, Code::Busy);
}

#[test]
fn a_mount_point_is_refused_and_named_as_such() {
    for resolver in [Resolver::Openat2, Resolver::Stepwise] {
        let test = TestJail::with(TestJailOptions { root_folder: Some("/"), resolver, ..TestJailOptions::default() });
        let error = open(&test, "proc").unwrap_err();
        assert_eq!(error.code, Code::OutsideRoots);
        assert!(error.message.contains("mount point"), "{error}");
        let top = open(&test, ".").unwrap().open_dir(&test.jail, &test.call()).unwrap();
        assert_eq!(top.stat_entry(b"proc"), Some(EntryStat::MountPoint));
        assert!(matches!(top.stat_entry(b"etc"), Some(EntryStat::Entry(stat)) if stat.kind == FileKind::Dir));
    }
}

#[test]
fn a_folder_is_read_from_its_start_every_time() {
    let test = TestJail::new();
    test.write("d/a", "");
    let dir = open(&test, "d").unwrap().open_dir(&test.jail, &test.call()).unwrap();
    for _ in 0..2 {
        let mut names = Vec::new();
        dir.for_each(&test.call(), |entry| {
            names.push((entry.name.to_vec(), entry.kind));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(names, [(b"a".to_vec(), FileKind::File)]);
    }
    assert_eq!(dir.stat_entry(b"gone"), None);
}

#[test]
fn a_folder_removed_after_its_open_is_missing() {
    let test = TestJail::new();
    std::fs::create_dir(test.path("d")).unwrap();
    let dir = open(&test, "d").unwrap().open_dir(&test.jail, &test.call()).unwrap();
    std::fs::remove_dir(test.path("d")).unwrap();
    let error = dir.for_each(&test.call(), |_| std::ops::ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error, Error::not_found("d"));
}

#[test]
fn questions_asked_together_never_hold_more_than_eight_folders() {
    let jail = TestJail::new().jail;
    let mut together = QuestionBatch::default();
    let question = |path: String| Question { root: 0, path: path.into_bytes(), intent: Intent::Read };
    let admitted = (0..100).take_while(|i| together.admit(&jail, &question(format!("folder{i}/file")))).count();
    assert_eq!(admitted, BATCH_PARENTS);
    let mut together = QuestionBatch::default();
    let admitted = (0..100).take_while(|i| together.admit(&jail, &question(format!("folder/file{i}")))).count();
    assert_eq!(admitted, BATCH_QUESTIONS);
}

#[test]
fn where_links_are_followed_every_question_may_hold_a_folder_of_its_own() {
    let jail = TestJail::with(TestJailOptions { symlinks: Symlinks::Beneath, ..TestJailOptions::default() }).jail;
    let mut together = QuestionBatch::default();
    let question = |path: String| Question { root: 0, path: path.into_bytes(), intent: Intent::Read };
    let admitted = (0..100).take_while(|i| together.admit(&jail, &question(format!("folder/{i}")))).count();
    assert_eq!(admitted, BATCH_PARENTS);
}

fn open_dir(test: &TestJail, name: &str) -> Dir {
    open(test, name).unwrap().open_dir(&test.jail, &test.call()).unwrap()
}

const RESOLVERS: [Resolver; 2] = [Resolver::Openat2, Resolver::Stepwise];

#[test]
fn a_walk_opens_folders_by_path_and_nothing_else() {
    for resolver in RESOLVERS {
        let test = TestJail::with(TestJailOptions { resolver, ..TestJailOptions::default() });
        test.write("d/sub/deep/file", "");
        symlink("sub", test.path("d/link")).unwrap();
        let dir = open_dir(&test, "d");
        let below = dir.open_dir(b"sub/deep", "x".into()).unwrap();
        assert_eq!((below.path().rel(), below.stat_entry(b"file").is_some()), (&b"d/sub/deep"[..], true));
        assert!(dir.open_dir(b"sub", "x".into()).unwrap().stat_entry(b"deep").is_some());
        for (path, code) in [
            ("link", Code::Io),
            ("link/deep", Code::Io),
            ("sub/deep/file", Code::Io),
            ("..", Code::Io),
            ("sub/../..", Code::Io),
            ("gone", Code::NotFound),
            ("gone/deep", Code::NotFound),
        ] {
            let error = dir.open_dir(path.as_bytes(), path.to_owned()).unwrap_err();
            assert_eq!(error.code, code, "{resolver:?} {path}: {error}");
        }
    }
}

#[test]
fn a_walk_does_not_enter_what_is_mounted() {
    for resolver in RESOLVERS {
        let test = TestJail::with(TestJailOptions { root_folder: Some("/"), resolver, ..TestJailOptions::default() });
        let top = open_dir(&test, "/");
        for path in [&b"proc"[..], b"proc/self"] {
            assert_eq!(top.open_dir(path, "x".into()).unwrap_err().code, Code::Io, "{resolver:?}");
        }
    }
}

#[test]
fn private_state_is_known_from_every_root_around_it() {
    let test = TestJail::new();
    let outer = test.jail.roots().primary().clone();
    let inner = crate::path::Root { path: outer.path.join("in"), ..outer.clone() };
    let roots = vec![outer, inner];
    let globs = (crate::path::DenyGlobs::new(&[], &[]).unwrap(), crate::path::ProtectGlobs::new(&[], &[]).unwrap());
    let denied = Denied::new(globs, &roots, &[], crate::path::RootNames::default()).unwrap();
    let jail = Jail::new(RootTable::new(roots), denied, test.broker.clone(), test.jail.settings().clone());
    let folder = |root: u16, path: &str| jail.roots().check(root, path.as_bytes()).unwrap();
    for name in [".stockade", ".Stockade", ".stockade-0123456789abcdef"] {
        let is_private = |folder: JailPath| jail.is_private_entry(&folder, name.as_bytes());
        assert!(is_private(folder(0, "")) && is_private(folder(1, "")) && is_private(folder(0, "in")));
        assert!(!is_private(folder(0, "in/in")) && !is_private(folder(0, "other")));
    }
    for name in ["stockade", ".stockade-", ".stockade-tmp-0"] {
        assert!(!jail.is_private_entry(&folder(0, ""), name.as_bytes()));
    }
}
