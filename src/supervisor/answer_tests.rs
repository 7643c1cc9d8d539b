use super::{super::unsettled::RecoveryStage, *};
use crate::{
    broker::CallId,
    path::{AccessTimes, DenyGlobs, Hardlinks, ProtectGlobs, RootNames, Symlinks},
    resolve::Openat2Resolver,
};

fn profile(dir: &std::path::Path, mode: Mode, symlinks: Symlinks) -> ServedProfile {
    let root = Root {
        path: dir.into(),
        mode,
        symlinks,
        cross_mounts: false,
        hardlinks: Hardlinks::Allow,
        access_times: AccessTimes::OwnerOnly,
    };
    let deny = DenyGlobs::new(&["**/.env".into()], &[]).expect("compiles");
    let protect = ["**/other".into(), "**/.git".into()];
    let protect = ProtectGlobs::new(&protect, &["**/.git/ok".into()]).expect("compiles");
    let names = RootNames { present: &[], absent: &[dir.join("a/later")] };
    let denied = Denied::new((deny, protect), std::slice::from_ref(&root), &[], names).expect("no root of ours");
    let fd = Arc::new(host::open_directory(dir).expect("opens"));
    ServedProfile { roots: vec![(root, fd)], denied, resolver: Box::new(Openat2Resolver) }
}

fn ask(path: &str, intent: Intent) -> ChannelQuestion {
    let question = Question { root: 0, path: path.into(), intent };
    ChannelQuestion { call: CallId(1), function: 0, deadline_ms: 1000, takes_leases: true, question }
}

fn answers(mode: Mode, asked: &[ChannelQuestion]) -> AnswerMessage {
    answers_with(mode, Symlinks::Refuse, asked)
}

fn answers_with(mode: Mode, symlinks: Symlinks, asked: &[ChannelQuestion]) -> AnswerMessage {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("a/b")).expect("made");
    std::fs::write(dir.path().join("file"), "").expect("made");
    for (target, name) in [("a", "link"), (".env", "innocent"), ("../file", "a/up"), ("a/up", "leaf")] {
        std::os::unix::fs::symlink(target, dir.path().join(name)).expect("made");
    }
    profile(dir.path(), mode, symlinks).answer(asked, None)
}

#[test]
fn equal_parents_share_one_descriptor() {
    let asked: Vec<_> = ["a/x", "a/y", "a/b/z", "top"].map(|path| ask(path, Intent::Read)).into();
    let reply = answers(Mode::Ro, &asked);
    assert_eq!(reply.fds.len(), 3);
    assert!(reply.checked_descriptors().is_some());
    let fds: Vec<u8> = reply
        .answers
        .iter()
        .map(|answer| match answer {
            ChannelAnswer::Parent { fd, .. } => *fd,
            ChannelAnswer::Refused(refusal) => panic!("{refusal:?}"),
        })
        .collect();
    assert_eq!(fds, [0, 0, 1, 2]);
}

#[test]
fn every_rule_is_checked_again_whatever_the_worker_did() {
    let refusals = [
        ("../x", Intent::Read, Refusal::Escape),
        ("a//b", Intent::Read, Refusal::Escape),
        ("/etc/passwd", Intent::Read, Refusal::Escape),
        ("a/.ENV", Intent::Read, Refusal::Denied),
        (".env/x", Intent::Read, Refusal::Denied),
        (".stockade/journal", Intent::Read, Refusal::Denied),
        ("a/x", Intent::Write, Refusal::ReadOnly),
        ("link/x", Intent::Read, Refusal::Escape),
        ("file/x", Intent::Read, Refusal::NotDirectory),
        ("missing/x", Intent::Read, Refusal::NotFound),
    ];
    for (path, intent, refusal) in refusals {
        let reply = answers(Mode::Ro, &[ask(path, intent)]);
        assert_eq!(reply.answers, [ChannelAnswer::Refused(refusal)], "{path}");
        assert!(reply.fds.is_empty());
    }
    let mut unknown_root = ask("a/x", Intent::Read);
    unknown_root.question.root = 7;
    assert_eq!(answers(Mode::Ro, &[unknown_root]).answers, [ChannelAnswer::Refused(Refusal::Escape)]);
}

#[test]
fn a_create_gets_the_longest_ancestor_and_a_key_for_its_lease() {
    for (path, missing, key, first_missing) in [
        ("a/b/new", 0, "new", "/a/b/new"),
        ("a/x/y/new", 2, "x/y/new", "/a/x"),
        ("n/e/w/f", 3, "n/e/w/f", "/n"),
        ("top", 0, "top", "/top"),
    ] {
        let reply = answers(Mode::Rw, &[ask(path, Intent::Create)]);
        assert!(
            matches!(&reply.answers[0], ChannelAnswer::Parent { missing: found, .. } if *found == missing),
            "{path}: {:?}",
            reply.answers
        );
        assert_eq!(reply.fds.len(), 1, "{path}");
        let name = &reply.lease_requests[0].name;
        assert_eq!(name.key.2, key.as_bytes(), "{path}");
        assert!(name.path.ends_with(first_missing.as_bytes()), "{path}: {name:?}");
    }
    let through_link = answers(Mode::Rw, &[ask("link/x/new", Intent::Create)]);
    assert_eq!(through_link.answers, [ChannelAnswer::Refused(Refusal::Escape)]);
}

#[test]
fn leases_are_taken_in_the_order_asked_up_to_the_first_that_is_held() {
    let leases = Leases::default();
    for worker in [1, 2, 7] {
        leases.add_worker(worker, Arc::new(host::open_null().expect("opens")), false);
    }
    let mut ours = answers(Mode::Rw, &["a/1", "a/2", "a/3"].map(|path| ask(path, Intent::Create)));
    let names: Vec<LeaseName> = ours.lease_requests.iter().map(|wanted| wanted.name.clone()).collect();
    leases.try_acquire(7, 7, &names[1]).expect("free");
    assert!(!ours.try_lease(1, &leases));
    assert_eq!(ours.lease_requests.len(), 2, "the first is ours, the others still to come");
    assert!(leases.try_acquire(2, 1, &names[0]).is_err());
    assert!(leases.try_acquire(2, 1, &names[2]).is_ok(), "nothing is held beyond what is waited for");
}

/// The path that was answered and the descriptor's number, or the refusal.
fn led(answer: &ChannelAnswer) -> Result<(u8, &str), Refusal> {
    match answer {
        ChannelAnswer::Parent { fd, path, .. } => Ok((*fd, std::str::from_utf8(path).expect("UTF-8"))),
        ChannelAnswer::Refused(refusal) => Err(*refusal),
    }
}

#[test]
fn where_links_are_followed_the_answer_is_the_real_path() {
    let asked = ["link/x", "a/y", "leaf", "file", "link", "innocent", "link/missing/x"];
    let asked = asked.map(|path| ask(path, Intent::Read));
    let reply = answers_with(Mode::Ro, Symlinks::Beneath, &asked);
    let led: Vec<_> = reply.answers.iter().map(led).collect();
    let (a, top) = (0, 1);
    let expected = [
        Ok((a, "a/x")),
        Ok((a, "a/y")),
        Ok((top, "file")),
        Ok((top, "file")),
        Ok((top, "a")),
        Err(Refusal::Denied),
        Err(Refusal::NotFound),
    ];
    assert_eq!(led, expected, "equal real parents share one descriptor");
}

#[test]
fn a_look_follows_links_on_the_way_and_not_the_last_one() {
    let asked = ["leaf", "link/up", "link"].map(|path| ask(path, Intent::Look));
    let reply = answers_with(Mode::Ro, Symlinks::Beneath, &asked);
    let led: Vec<_> = reply.answers.iter().map(|answer| led(answer).map(|(_, path)| path)).collect();
    assert_eq!(led, [Ok("leaf"), Ok("a/up"), Ok("link")]);
    assert!(reply.lease_requests.is_empty(), "a look changes nothing and waits for nobody");
}

#[test]
fn a_write_acts_on_the_link_an_edit_behind_it_and_both_lease_the_real_place() {
    for (path, intent, real, key) in [
        ("leaf", Intent::Write, "leaf", "leaf"),
        ("leaf", Intent::Edit, "file", "file"),
        ("link/up", Intent::Write, "a/up", "up"),
        ("link/n/e/w", Intent::Create, "a/n/e/w", "n/e/w"),
    ] {
        let reply = answers_with(Mode::Rw, Symlinks::Beneath, &[ask(path, intent)]);
        assert_eq!(led(&reply.answers[0]), Ok((0, real)));
        assert_eq!(reply.lease_requests[0].name.key.2, key.as_bytes());
    }
}

#[test]
fn what_is_unsettled_is_refused_before_the_disk_is_asked_and_also_behind_a_link() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("a")).expect("made");
    std::os::unix::fs::symlink("a", dir.path().join("link")).expect("made");
    let profile = profile(dir.path(), Mode::Rw, Symlinks::Beneath);
    let name = |path: &[u8]| profile.unsettled_name(0, path);
    let names = [name(b"a/x"), name(b"gone")].map(|name| (name.expect("of a root"), RecoveryStage::RunFailed));
    let unsettled = UnsettledNames::new(names.into_iter());
    let asked = ["a/x", "link/x", "gone/below", "a/.env", "a/y", "a"].map(|path| ask(path, Intent::Read));
    let reply = profile.answer(&asked, unsettled.as_deref());
    let refused = Some(Refusal::Unsettled);
    assert_eq!(reply.refusals(), [refused, refused, refused, Some(Refusal::Denied), None, None]);
    let unsettled = unsettled.expect("two names");
    assert!(!profile.must_wait_for_recovery(&asked, &unsettled), "reads never wait");
    assert!(profile.must_wait_for_recovery(&[ask("a", Intent::Write)], &unsettled));
    assert!(!profile.must_wait_for_recovery(&[ask("a/y", Intent::Create)], &unsettled));
    assert_eq!(profile.unsettled_name(1, b"x"), None, "no such root");
    assert_eq!(profile.unsettled_name(0, b"../x"), None);
}

#[test]
fn a_protected_name_is_read_and_not_changed_also_behind_a_link() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join(".git/ok")).expect("made");
    std::os::unix::fs::symlink(".git", dir.path().join("link")).expect("made");
    std::os::unix::fs::symlink(".git/config", dir.path().join("leaf")).expect("made");
    std::fs::write(dir.path().join(".git/config"), "").expect("made");
    let refusal = |symlinks, path, intent| {
        profile(dir.path(), Mode::Rw, symlinks).answer(&[ask(path, intent)], None).refusals()[0]
    };
    let protected = Some(Refusal::Protected(1));
    for symlinks in [Symlinks::Refuse, Symlinks::Beneath] {
        for path in [".git", ".GIT/hooks/x", "a/.git", ".git/config"] {
            for intent in [Intent::Write, Intent::Create, Intent::Edit] {
                assert_eq!(refusal(symlinks, path, intent), protected, "{path} {intent:?}");
            }
        }
        for intent in [Intent::Read, Intent::Look] {
            assert_eq!(refusal(symlinks, ".git/config", intent), None, "{intent:?}");
        }
        assert_eq!(refusal(symlinks, ".git/ok/x", Intent::Create), None, "an exception");
        assert_eq!(refusal(symlinks, "gitx", Intent::Create), None);
    }
    let beneath = Symlinks::Beneath;
    assert_eq!(refusal(beneath, "link/config", Intent::Write), protected);
    assert_eq!(refusal(beneath, "link/new/x", Intent::Create), protected);
    assert_eq!(refusal(beneath, "leaf", Intent::Edit), protected);
    assert_eq!(refusal(beneath, "leaf", Intent::Write), None, "the link itself is not protected");
    assert_eq!(refusal(beneath, "leaf", Intent::Read), None);
    assert_eq!(refusal(beneath, "link/ok/x", Intent::Create), None, "an exception");
    let read_only = profile(dir.path(), Mode::Ro, beneath).answer(&[ask(".git/x", Intent::Create)], None);
    assert_eq!(read_only.refusals(), [Some(Refusal::ReadOnly)]);
}

/// A resolver that always fails in the same way.
struct Failing(Refusal);

impl PathResolver for Failing {
    fn open_directory(&self, _: BorrowedFd<'_>, _: &[u8], _: &Root) -> Result<OwnedFd, Refusal> {
        Err(self.0)
    }

    fn kind(&self) -> crate::terms::Resolver {
        Openat2Resolver.kind()
    }
}

#[test]
fn journals_that_cannot_be_looked_for_may_be_there() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join(".stockade-0123456789abcdef")).expect("made");
    let mut profile = profile(dir.path(), Mode::Rw, Symlinks::Refuse);
    assert!(!profile.may_need_recovery());
    for (refusal, is_possible) in [
        (Refusal::NotFound, false),
        (Refusal::Escape, false),
        (Refusal::NotDirectory, false),
        (Refusal::Mount, false),
        (Refusal::Busy, true),
        (Refusal::Io(24), true),
    ] {
        profile.resolver = Box::new(Failing(refusal));
        assert_eq!(profile.may_need_recovery(), is_possible, "{refusal:?}");
    }
}
