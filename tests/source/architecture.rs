//! The shape of the code, as data: who may import whom, who may use what, how large what is trusted may become.
//! A rule is changed here, in the open, or not at all.

mod auditing;
mod source;
mod source_tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use source::{ALL, PRODUCT, Source, UNSAFE, pattern};

/// `(module, what it may import of this crate)`. A longer entry allows that part alone.
///
/// The two chains: `sys ← broker ← resolve ← supervisor` is trusted, `sys ← jail ← ops ← worker` is confined. The
/// supervisor's line has no `ops`, `jail`, `text` or `worker`: it never runs code that looks at content.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("terms", &[]),
    ("edit_distance", &[]),
    ("text", &[]),
    ("wire", &["terms", "edit_distance"]),
    // Of `wire` the errors that a client reads, in `path::locate`, which never runs in the supervisor.
    ("path", &["terms", "wire::Code", "wire::Error", "wire::Result", "sys::weakened"]),
    // Of `sys` what opens the policy and the roots, and tells who could have chosen them.
    (
        "policy",
        &["edit_distance", "path", "terms", "sys::file", "sys::host", "sys::lookup", "sys::process", "sys::user"],
    ),
    ("broker", &["path", "terms", "sys"]),
    // Of the channel it knows questions and refusals, nothing else.
    ("resolve", &["broker::Intent", "broker::Question", "broker::Refusal", "path", "terms", "sys"]),
    // A worker's set-up is what its jail is planned from.
    ("confine", &["broker::setup", "path", "terms", "sys"]),
    // Of `wire` the names of functions, for the audit.
    ("supervisor", &["broker", "confine", "resolve", "policy", "path", "terms", "wire::function::FUNCTIONS", "sys"]),
    // Of `text` the rules of walks: globs, ignore files, the order of paths.
    ("jail", &["broker", "path", "terms", "wire", "sys", "text"]),
    // Operations see descriptors only as `jail` types; of `sys` they know the kinds of files, what statx returns, and why a
    // folder could not be opened.
    (
        "ops",
        &["jail", "broker", "path", "terms", "text", "wire", "sys::fs::FileKind", "sys::fs::FileStat", "sys::Errno"],
    ),
    ("worker", &["ops", "jail", "confine", "broker", "path", "terms", "wire", "sys"]),
    // Ordinary clients: nothing that serves or confines. The account files are for `policy check`, and the rules and the
    // resolver of the supervisor for `policy explain`, which both say what a service would do.
    (
        "frontends",
        &[
            "broker::Intent",
            "broker::Question",
            "broker::Refusal",
            "path",
            "policy",
            "resolve",
            "sys::file",
            // For `--version`.
            "sys::raw::landlock_abi",
            "sys::stdio",
            "sys::terminal",
            "sys::user",
            "terms",
            "text",
            "wire",
        ],
    ),
    ("bin", &["stockaded", "stockade_worker", "stockade"]),
    ("lib", &[]),
];

/// `(file or folder in src/worker, its neighbours that it may import)`, in the order in which they build on each other.
const WORKER_MAY_IMPORT: &[(&str, &[&str])] = &[
    ("scheduler", &[]),
    ("dispatch", &[]),
    ("reader", &[]),
    ("outbox", &["scheduler"]),
    ("threads", &["scheduler", "sync"]),
    ("connection", &["dispatch", "outbox", "reader", "scheduler", "threads"]),
    ("sentinel", &["connection", "reader", "scheduler"]),
    ("start", &["connection", "scheduler", "sentinel"]),
];

/// Names of the crate's root that everybody may use.
const FOR_ALL: &[&str] = &["VERSION", "BUILD", "functions"];

/// `(crate or part of it, the modules that may name it)`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("tokio", &["supervisor", "frontends"]),
    ("clap", &["frontends"]),
    ("clap_complete", &["frontends"]),
    ("clap_mangen", &["frontends"]),
    // The client and the oracle of tests; no program contains it.
    ("rmcp", &[]),
    ("lexopt", &["supervisor"]),
    // The configuration of Codex is TOML.
    ("toml", &["policy", "frontends"]),
    ("tracing_subscriber", &["supervisor"]),
    ("libc", &["sys"]),
    ("nix", &["sys"]),
    ("rustix", &["sys", "resolve", "confine"]),
    ("landlock", &["confine"]),
    ("seccompiler", &["confine"]),
    ("std::fs", &["policy", "sys"]),
];

/// Modules that run in the supervisor, counted as a reader counts them: lines that are neither blank, nor comment, nor test.
const TRUSTED: &[&str] =
    &["supervisor", "broker", "resolve", "confine", "path", "policy", "sys", "terms", "edit_distance"];
const MAX_TRUSTED_LINES: usize = 7_976;
/// Files of those modules that never run there, and what runs them instead. What a system of its own has is compiled
/// nowhere else, and macOS has no jail to be trusted.
const NOT_IN_THE_SUPERVISOR: &[(&str, &str)] = &[
    ("src/broker/ask_supervisor.rs", "the worker, which alone asks"),
    ("src/broker/channel.rs", "the worker's end of the channel, confined"),
    ("src/broker/channel/mailbox.rs", "the same"),
    ("src/broker/codec/worker.rs", "the same"),
    ("src/broker/lease.rs", "the same"),
    ("src/confine/darwin.rs", "macOS"),
    ("src/confine/linux/seccomp.rs", "the worker, before it serves"),
    ("src/confine/linux/attempt_calls.rs", "the worker, before it serves"),
    ("src/confine/worker.rs", "the worker, before it serves"),
    ("src/path/jail_path.rs", "the worker, which keeps its paths in it"),
    ("src/path/locate/mod.rs", "the worker, which reads what a client sent"),
    ("src/path/locate/raw.rs", "the same"),
    ("src/path/operands.rs", "the worker and `policy explain`"),
    ("src/policy/unused.rs", "`stockade policy check`"),
    ("src/resolve/no_openat2.rs", "macOS"),
    ("src/sys/change.rs", "the worker, which alone changes files"),
    ("src/sys/darwin/change.rs", "macOS"),
    ("src/sys/darwin/hangups.rs", "macOS"),
    ("src/sys/darwin/mod.rs", "macOS"),
    ("src/sys/darwin/process.rs", "macOS"),
    ("src/sys/darwin/raw.rs", "macOS"),
    ("src/sys/darwin/socket.rs", "macOS"),
    ("src/sys/darwin/volume.rs", "macOS"),
    ("src/sys/fault.rs", "test builds, never a release"),
    ("src/sys/file.rs", "clients"),
    ("src/sys/file/replace.rs", "clients"),
    ("src/sys/linux/change.rs", "the worker, which alone changes files"),
    ("src/sys/linux/entries.rs", "the worker, which lists what it opened"),
    ("src/sys/linux/wake.rs", "the worker, whose threads wake one another"),
    ("src/sys/linux/worker.rs", "the worker, before it serves"),
    ("src/sys/opened.rs", "the worker, which reads what it opened"),
    ("src/sys/poll.rs", "the worker, which waits for its two sockets"),
    ("src/sys/posix/change.rs", "macOS, and tests"),
    ("src/sys/posix/channel.rs", "macOS, and tests"),
    ("src/sys/posix/children.rs", "macOS, and tests"),
    ("src/sys/posix/entries.rs", "macOS, and tests"),
    ("src/sys/posix/fs.rs", "macOS, and tests"),
    ("src/sys/posix/mod.rs", "macOS, and tests"),
    ("src/sys/posix/program.rs", "macOS, and tests"),
    ("src/sys/posix/wake.rs", "macOS, and tests"),
    ("src/sys/stdio.rs", "clients"),
    ("src/sys/terminal.rs", "clients"),
    ("src/sys/weakened.rs", "test builds, never a release"),
    ("src/sys/worker.rs", "the worker, before it serves"),
];
/// Tests whose links lead to files of the host: none of them writes by the name of such a link.
const LINKS_TO_HOST: &[&str] = &[
    "src/jail/tests.rs",
    "src/jail/walk/tests.rs",
    "src/ops/find/tests.rs",
    "src/ops/read_file/special_tests.rs",
    "src/ops/search/tests.rs",
    "src/policy/unused.rs",
    "tests/source/docs/examples.rs",
    "tests/impostor/main.rs",
    "tests/frontends/mcp/faults.rs",
    "tests/service/policy.rs",
    "tests/service/objects.rs",
    "tests/service/socket.rs",
    "tests/frontends/terminal.rs",
];
const MAX_UNSAFE: usize = 20;
const MAX_FILE_LINES: usize = 500;
const MAX_MEDIAN_LINES: usize = 200;

fn covers(rule: &str, path: &str) -> bool {
    path == rule || path.strip_prefix(rule).is_some_and(|rest| rest.starts_with("::"))
}

/// Imports that the table does not allow.
fn wrong_imports(source: &Source) -> Vec<String> {
    let own = source.module();
    let allowed = MAY_IMPORT.iter().find(|(module, _)| *module == own).map(|(_, allowed)| *allowed);
    let Some(allowed) = allowed else { return vec![format!("{}: no rule for module {own}", source.path)] };
    let rules = allowed.iter().chain(FOR_ALL).chain(std::iter::once(&own));
    let wrong = |path: &&String| !rules.clone().any(|rule| covers(rule, path));
    source.own_imports().iter().filter(wrong).map(|path| format!("{}: {own} → {path}", source.path)).collect()
}

/// Crates named where they may not be.
fn wrong_uses(source: &Source) -> Vec<String> {
    let own = source.module();
    let mut wrong = Vec::new();
    for (name, modules) in MAY_USE.iter().filter(|(_, modules)| !modules.contains(&own)) {
        let (root, part) = name.split_once("::").unwrap_or((name, ""));
        for path in source.paths_from(root) {
            if part.is_empty() || covers(part, &path) {
                wrong.push(format!("{}: {root}::{path} (only {})", source.path, modules.join(", ")));
            }
        }
    }
    wrong
}

/// Looks at the disk through a path, without naming `std::fs`. Frontends may: they are nobody's jail.
fn hidden_file_access(source: &Source) -> Vec<String> {
    static METHODS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"\.(exists|try_exists|canonicalize|metadata|symlink_metadata|read_dir|read_link|is_file|is_dir)\(\)")
    });
    if ["policy", "sys", "frontends"].contains(&source.module()) {
        return Vec::new();
    }
    source.lines_with(&METHODS).iter().map(|(line, text)| at(source, *line, text)).collect()
}

fn at(source: &Source, line: usize, text: &str) -> String {
    format!("{}:{line}: {}", source.path, text.trim())
}

#[track_caller]
fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

#[test]
fn imports_go_in_one_direction() {
    assert_none(PRODUCT.iter().flat_map(wrong_imports).collect());
}

/// The scheduler decides and does nothing else: it knows neither threads nor descriptors nor the clock.
#[test]
fn parts_of_the_worker_build_on_each_other_in_one_direction() {
    let mut wrong = Vec::new();
    for source in PRODUCT.iter().filter(|source| source.module() == "worker") {
        let inner = source.path.trim_start_matches("src/worker/").trim_end_matches(".rs");
        let part = inner.split('/').next().expect("not empty");
        if part == "mod" {
            continue;
        }
        let place = WORKER_MAY_IMPORT.iter().position(|(known, _)| *known == part);
        let Some(place) = place else {
            wrong.push(format!("{}: no rule for {part}", source.path));
            continue;
        };
        let below: Vec<&str> = WORKER_MAY_IMPORT[..place].iter().map(|(known, _)| *known).chain(["sync"]).collect();
        let allowed = WORKER_MAY_IMPORT[place].1;
        assert!(allowed.iter().all(|import| below.contains(import)), "{part} builds on what builds on it");
        let imports = source.own_imports();
        let neighbours = imports.iter().filter_map(|path| path.strip_prefix("worker::"));
        for neighbour in neighbours.filter_map(|path| path.split("::").next()) {
            if neighbour != part && !allowed.contains(&neighbour) {
                wrong.push(format!("{}: {part} → {neighbour}", source.path));
            }
        }
    }
    assert_none(wrong);
    let forbidden = pattern(r"\b(Instant::now|SystemTime|Mutex|Condvar|thread::|std::os|std::io|println!)");
    let scheduler = PRODUCT.iter().filter(|source| source.path.starts_with("src/worker/scheduler/"));
    let impure = scheduler
        .flat_map(|source| source.lines_with(&forbidden).into_iter().map(|(line, text)| at(source, line, text)));
    assert_none(impure.collect());
}

#[test]
fn the_table_itself_has_no_circles() {
    let first = |path: &'static str| path.split("::").next().expect("not empty");
    let direct: BTreeMap<&str, BTreeSet<&str>> = MAY_IMPORT
        .iter()
        .map(|(module, allowed)| {
            let whole = allowed.iter().filter(|path| **path != "sys::weakened").map(|path| first(path));
            (*module, whole.collect())
        })
        .collect();
    for module in direct.keys() {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![*module];
        while let Some(next) = open.pop() {
            for import in direct.get(next).into_iter().flatten().filter(|import| reached.insert(import)) {
                open.push(*import);
            }
        }
        assert!(!reached.contains(module), "{module} imports itself by way of {reached:?}");
    }
}

/// The supervisor takes no path as a client sent it.
#[test]
fn what_clients_send_is_named_only_where_it_is_read() {
    let sent = pattern(r"\b(RawPath|RootTable)\b");
    let trusted = ["supervisor", "broker", "resolve", "confine", "policy", "sys"];
    let named = PRODUCT
        .iter()
        .filter(|source| trusted.contains(&source.module()))
        .flat_map(|source| source.lines_with(&sent).into_iter().map(move |(line, text)| at(source, line, text)));
    assert_none(named.collect());
}

#[test]
fn crates_stay_where_they_belong() {
    assert_none(PRODUCT.iter().flat_map(wrong_uses).collect());
}

#[test]
fn only_policy_and_sys_touch_the_disk_by_name() {
    assert_none(PRODUCT.iter().flat_map(hidden_file_access).collect());
}

/// What other systems lack, by the names it has in code; and the places that only Linux compiles. scripts/check-macos
/// sees more of it, but few machines can run that.
#[test]
fn what_only_linux_has_is_named_where_only_linux_compiles() {
    let linux = ["src/sys/linux/", "src/confine/linux/", "src/resolve/openat2.rs"];
    let own = pattern(
        r"\bOFlags::(PATH|TMPFILE)\b|\bos::linux\b|\b(openat2|statx|eventfd|pidfd_\w+|getrandom)\(|\bepoll\b|\bSYS_\w+",
    );
    let elsewhere = PRODUCT.iter().filter(|source| !linux.iter().any(|place| source.path.starts_with(place)));
    let named =
        elsewhere.flat_map(|source| source.lines_with(&own).into_iter().map(|(line, text)| at(source, line, text)));
    assert_none(named.collect());
}

#[test]
fn unsafe_code_is_rare_fenced_and_explained() {
    let blocks: Vec<String> = ALL
        .iter()
        .filter(|source| source.path.starts_with("src/"))
        .flat_map(|source| source.lines_with(&UNSAFE).into_iter().map(|(line, text)| at(source, line, text)))
        .collect();
    println!("{} unsafe blocks of at most {MAX_UNSAFE}", blocks.len());
    assert!(blocks.len() <= MAX_UNSAFE, "{blocks:#?}");
    assert_none(blocks.into_iter().filter(|block| !block.starts_with("src/sys/")).collect());
    // Tests may need it, too, but never without a reason.
    let silent = ALL.iter().flat_map(|source| {
        source.unexplained_unsafe().into_iter().map(|line| format!("{}:{line}: no SAFETY above", source.path))
    });
    assert_none(silent.collect());
}

#[test]
fn what_is_trusted_does_not_grow() {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let elsewhere = |path: &str| NOT_IN_THE_SUPERVISOR.iter().any(|(file, _)| *file == path);
    for (file, _) in NOT_IN_THE_SUPERVISOR {
        assert!(PRODUCT.iter().any(|source| source.path == *file), "{file} is gone");
    }
    for source in PRODUCT.iter().filter(|source| !elsewhere(&source.path)) {
        *lines.entry(source.module()).or_default() += source.code_lines();
    }
    for (module, count) in &lines {
        println!("{count:6}  {module}{}", if TRUSTED.contains(module) { "  trusted" } else { "" });
    }
    let trusted: usize = TRUSTED.iter().map(|module| lines[module]).sum();
    println!("{trusted:6}  trusted in all, of at most {MAX_TRUSTED_LINES}");
    assert!(trusted <= MAX_TRUSTED_LINES, "{trusted} lines are trusted: {lines:?}");
}

#[test]
fn files_are_short() {
    let mut lengths: Vec<(usize, &str)> =
        ALL.iter().map(|source| (source.raw.lines().count(), source.path.as_str())).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2].0;
    println!("{} files, median {median} lines, longest {:?}", lengths.len(), lengths.last());
    assert!(median < MAX_MEDIAN_LINES, "the median file has {median} lines");
    let long = lengths.iter().filter(|(lines, _)| *lines > MAX_FILE_LINES);
    assert_none(long.map(|(lines, path)| format!("{path}: {lines} lines")).collect());
}

#[test]
fn names_say_what_is_inside() {
    let empty = pattern(r"(^|[/_-])(utils?|helpers?|common|managers?|misc)([/_.-]|$)");
    let inline = pattern(r"\bmod (\w+_)?(utils?|helpers?|common|managers?|misc)\b");
    let wrong = ALL.iter().filter(|source| empty.is_match(&source.path) || inline.is_match(&source.code));
    assert_none(wrong.map(|source| source.path.clone()).collect());
}

#[test]
fn nothing_that_serves_gives_up_by_panic() {
    let gives_up = pattern(r"\.unwrap\(\)|\b(todo|dbg|unimplemented)!");
    let wrong = PRODUCT
        .iter()
        .flat_map(|source| source.lines_with(&gives_up).into_iter().map(move |(line, text)| at(source, line, text)));
    assert_none(wrong.collect());
}

/// Tests run as root, and a writer that follows a link writes where it leads.
#[test]
fn links_to_the_host_stand_only_in_tests_that_read() {
    // Over the whole text: the formatter may put the target on a line of its own.
    let to_host = pattern(r#"symlink\(\s*"/[^"]*"#);
    let wrong = ALL.iter().filter(|source| !LINKS_TO_HOST.contains(&source.path.as_str())).flat_map(|source| {
        let links = to_host.find_iter(&source.raw).filter(|link| !link.as_str().contains("\"/nowhere"));
        links.map(move |link| at(source, 1 + source.raw[..link.start()].matches('\n').count(), link.as_str()))
    });
    assert_none(wrong.collect());
}

#[test]
fn every_file_says_first_what_it_is() {
    let wrong = PRODUCT.iter().filter(|source| !source.raw.starts_with("//! "));
    assert_none(wrong.map(|source| source.path.clone()).collect());
}

/// A command with `--root` writes an audit into the state folder of its user, which is nobody's business in a test.
#[test]
fn no_test_lets_a_command_write_into_the_home_of_its_user() {
    let starts = pattern(r#"\.join\("stockade"\)|Command::new\((.|\n)*"--root"|"--root"(.|\n)*Command::new\("#);
    let is_guarded = |raw: &str| ["NO_STATE", "env_clear()", "XDG_STATE_HOME"].iter().any(|word| raw.contains(word));
    let asks_only = ["benches/service/main.rs"];
    let wrong = ALL.iter().filter(|source| {
        starts.is_match(&source.raw)
            && !source.path.starts_with("src/")
            && !asks_only.contains(&source.path.as_str())
            && !is_guarded(&source.raw)
    });
    assert_none(wrong.map(|source| source.path.clone()).collect());
}
