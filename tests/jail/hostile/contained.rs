//! Orders the hostile worker about and compares what it reports with the closed list.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{
    attempts,
    payload::UNFILTERED,
    support::{Canaries, Options, TestJail, bin_dir},
};

/// `stockaded` as it is, with this program as its worker.
fn hostile_jail(suffix: &'static str) -> (TestJail, Canaries, tempfile::TempDir) {
    let bin = TestJail::directory();
    let worker = std::env::var_os("STOCKADE_TEST_HOSTILE").map_or_else(|| std::env::current_exe().unwrap(), Into::into);
    // Linked where that is possible: a debug build is large.
    for (from, name) in [(bin_dir(false).join("stockaded"), "stockaded"), (worker, "stockade-worker")] {
        let to = bin.path().join(name);
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to).unwrap();
        }
    }
    let mut inside = None;
    // The canaries' folder as a root of its own: what is outside elsewhere is read-only here.
    let mixed = "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"OUTSIDE\"\nmode = \"ro\"\n";
    let policy = (suffix == "mixed").then(|| mixed.to_owned());
    let suffix = if policy.is_some() { "" } else { suffix };
    let options = Options { suffix, policy, bin: Some(bin.path().into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| inside = Some(Canaries::plant(&root.join("inside"))));
    (jail, inside.unwrap(), bin)
}

/// A connection whose far end obeys.
struct Payload(BufReader<UnixStream>);

impl Payload {
    fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(BufReader::new(stream))
    }

    /// `None` if it did not live to finish its answer.
    fn order(&mut self, order: &str) -> Option<Vec<(String, String)>> {
        self.0.get_mut().write_all(format!("{order}\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        loop {
            let mut line = String::new();
            match self.0.read_line(&mut line) {
                Ok(0) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                read => read.expect("an answer, or the end"),
            };
            match line.trim_end().split_once(' ') {
                None if line == "end\n" => return Some(answer),
                Some((name, value)) => answer.push((name.into(), value.into())),
                // The supervisor's own last words to a client whose worker is gone.
                None => {}
            }
        }
    }

    fn fact(&mut self, name: &str) -> String {
        let facts: BTreeMap<_, _> = self.order("facts").unwrap().into_iter().collect();
        facts[name].clone()
    }
}

fn everything_is_refused(suffix: &'static str) {
    let (jail, inside, _bin) = hostile_jail(suffix);
    let mut payload = Payload::connect(&jail.socket);
    let mut sibling = Payload::connect(&jail.socket);
    let order = format!(
        "attempts {suffix} {} {} {} {} {}",
        jail.canaries.dir.display(),
        inside.dir.display(),
        jail.daemon.pid(),
        sibling.fact("pid"),
        std::process::id()
    );
    let reported = payload.order(&order).expect("the payload lives");
    let profile = attempts::On::of(suffix);
    let listed: Vec<_> = attempts::all(profile).map(|attempt| attempt.name).collect();
    let made: Vec<_> = reported.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(made, listed, "exactly the listed attempts were made");
    let went_wrong: Vec<_> = attempts::all(profile)
        .zip(&reported)
        .filter(|(attempt, (_, outcome))| !attempt.held.contains(&outcome.parse().unwrap()))
        .map(|(attempt, (name, outcome))| format!("{name}: {outcome}, expected {:?}", attempt.held))
        .collect();
    assert!(went_wrong.is_empty(), "{went_wrong:#?}");
    jail.canaries.assert_untouched();
    if suffix == ":ro" {
        inside.assert_untouched();
    }
    sibling.fact("pid");
    Payload::connect(&jail.socket).fact("pid");
}

#[test]
fn hostile_code_with_a_read_only_root_gets_nowhere() {
    everything_is_refused(":ro");
}

#[test]
fn hostile_code_with_a_writable_root_gets_nowhere_else() {
    everything_is_refused(":rw");
}

#[test]
fn hostile_code_with_a_writable_root_changes_no_content_of_a_read_only_one() {
    everything_is_refused("mixed");
}

#[test]
fn every_call_that_is_not_listed_is_refused() {
    for suffix in [":ro", ":rw"] {
        let (jail, _, _bin) = hostile_jail(suffix);
        let order = format!("every-syscall {suffix}");
        let mut answer = Payload::connect(&jail.socket).order(&order).expect("the payload lives");
        let (tried, count) = answer.pop().unwrap();
        assert_eq!(tried, "tried");
        assert!(count.parse::<u32>().unwrap() > 900, "{count}");
        assert!(answer.is_empty(), "not refused with {suffix}: {answer:?}");
    }
}

/// The two that no filter sees do nothing for a caller that is not the kernel's trampoline.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_that_no_filter_sees_end_the_caller_or_fail() {
    for number in UNFILTERED {
        let (jail, _, _bin) = hostile_jail("");
        let outcome = Payload::connect(&jail.socket).order(&format!("syscall {number}"));
        let held = [libc::EPERM, libc::ENXIO, libc::ENOSYS].map(|errno| errno.to_string());
        assert!(outcome.as_ref().is_none_or(|answer| held.contains(&answer[0].1)), "{number}: {outcome:?}");
        Payload::connect(&jail.socket).fact("pid");
    }
}

#[test]
fn a_worker_holds_its_channel_its_connection_its_bell_and_nothing_else() {
    let (jail, _, _bin) = hostile_jail("");
    let mut payload = Payload::connect(&jail.socket);
    assert_eq!(payload.fact("descriptors"), "[0, 1, 2, 3, 4]");
    assert_eq!(payload.fact("environment"), "0");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_of_the_32_bit_table_kills() {
    let (jail, _, _bin) = hostile_jail("");
    let mut payload = Payload::connect(&jail.socket);
    payload.fact("pid");
    assert_eq!(payload.order("int80"), None, "the call was answered");
    Payload::connect(&jail.socket).fact("pid");
}

/// A stated limit: see `limitations` of `coder::info`.
#[test]
fn limit_with_a_writable_root_hostile_code_can_change_attributes_of_a_read_only_one() {
    let limitation = "can change attributes (access lists among them) and the group of files in read-only roots";
    let policy = "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"OUTSIDE\"\nmode = \"ro\"\n";
    let info = TestJail::with_policy(policy).call("coder::info", crate::support::json!({})).unwrap();
    assert!(info.to_string().contains(limitation), "{info}");
    let (jail, _, _bin) = hostile_jail("mixed");
    let secret = jail.canaries.secret();
    let answer = Payload::connect(&jail.socket).order(&format!("attribute {}", secret.display())).unwrap();
    // Where the file system has attributes at all.
    assert!(["0", &libc::EOPNOTSUPP.to_string()].contains(&answer[0].1.as_str()), "{answer:?}");
    assert_eq!(std::fs::read_to_string(secret).unwrap(), crate::support::canary::SECRET.to_owned() + "\n");
}

/// A stated limit: see `limitations` of `coder::info`. If this test fails, the page that says so is out of date.
#[test]
fn limit_hostile_code_can_see_that_outside_names_exist() {
    let limitation = "hostile code inside a worker can see that outside names exist, and their metadata";
    let info = TestJail::new().call("coder::info", crate::support::json!({})).unwrap();
    assert!(info.to_string().contains(limitation), "{info}");
    let (jail, _, _bin) = hostile_jail("");
    let mut payload = Payload::connect(&jail.socket);
    let mut look = |name: &str| {
        let path = jail.canaries.dir.join(name);
        payload.order(&format!("look {}", path.display())).unwrap().remove(0).1
    };
    let size = std::fs::metadata(jail.canaries.secret()).unwrap().len();
    assert_eq!(look("secret.txt"), format!("0 {size}"));
    assert_eq!(look("no-such-name"), libc::ENOENT.to_string());
    jail.canaries.assert_untouched();
}
