//! What other file servers for agents get wrong, each as a claim about ours, through MCP. The same claim about a server that
//! has the fault (`naive`) must fail, or it would claim nothing.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::Duration,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{
    host::{Host, PATIENCE, Place, Said},
    naive::Naive,
    support::{Value, json},
};

/// A server of files, whatever it is made of.
pub trait Files {
    fn ask(&mut self, tool: &str, arguments: Value) -> u64;
    /// Nothing if it does not come.
    fn answer(&mut self, id: u64, within: Duration) -> Option<Said>;
    /// Of the processes that serve, where they are not this one.
    fn pids(&self) -> Vec<u32>;
}

impl Files for Host {
    fn ask(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send_tool(tool, arguments)
    }

    fn answer(&mut self, id: u64, within: Duration) -> Option<Said> {
        self.reply_within(id, within).map(|reply| Said::of(&reply["result"]))
    }

    fn pids(&self) -> Vec<u32> {
        self.processes()
    }
}

type Claim = Result<(), String>;

/// What the naive one is given to answer: it would take for ever.
const SHORT: Duration = Duration::from_secs(2);

fn check(is_true: bool, otherwise: impl FnOnce() -> String) -> Claim {
    if is_true { Ok(()) } else { Err(otherwise()) }
}

struct Case<'a> {
    files: &'a mut dyn Files,
    root: &'a Path,
    patience: Duration,
    is_naive: bool,
}

impl Case<'_> {
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Said, String> {
        let id = self.files.ask(tool, arguments);
        self.files.answer(id, self.patience).ok_or_else(|| format!("{tool}: no answer"))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root.join(name), content).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join(name)).unwrap()
    }

    fn fifo(&self, name: &str) {
        mknodat(CWD, self.root.join(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    }
}

/// True of ours, false of the naive one.
#[track_caller]
fn holds(claim: fn(&mut Case<'_>) -> Claim) {
    let place = Place::new();
    let mut host = place.host(&[]);
    let mut ours = Case { files: &mut host, root: &place.root, patience: PATIENCE, is_naive: false };
    claim(&mut ours).unwrap();
    assert!(!host.tool("info", json!({})).is_error, "it still answers");
    let place = Place::new();
    let mut naive = Naive::serve(&place.root);
    let mut other = Case { files: &mut naive, root: &place.root, patience: SHORT, is_naive: true };
    claim(&mut other).expect_err("a server with the fault passes, too");
}

#[test]
fn reads_of_fifos_are_refused_at_once_and_silence_nobody() {
    holds(|case| {
        case.fifo("pipe");
        case.write("plain", "x\n");
        let waiting: Vec<u64> = (0..8).map(|_| case.files.ask("read", json!({"path": "pipe"}))).collect();
        let said = case.call("read", json!({"path": "plain"}))?;
        check(said.text.contains('x'), || format!("a plain read: {}", said.text))?;
        for id in waiting {
            let said = case.files.answer(id, case.patience).ok_or("a FIFO read hangs")?;
            check(said.is_error && said.code() == "C210", || said.text.clone())?;
        }
        Ok(())
    });
}

#[test]
fn a_fifo_in_a_folder_hangs_neither_list_nor_tree_nor_search() {
    holds(|case| {
        fs::create_dir(case.root.join("d")).unwrap();
        case.fifo("d/pipe");
        case.write("d/plain", "needle\n");
        for (tool, arguments) in [
            ("list", json!({"path": "d"})),
            ("tree", json!({"path": "d"})),
            ("search", json!({"query": "needle", "path": "d"})),
        ] {
            let said = case.call(tool, arguments)?;
            check(said.text.contains("plain"), || format!("{tool}: {}", said.text))?;
        }
        Ok(())
    });
}

#[test]
fn a_glob_of_many_braces_is_no_bomb() {
    holds(|case| {
        let pairs = 32;
        case.write(&"a".repeat(pairs), "");
        let said = case.call("find", json!({"paths": ["{a,b}".repeat(pairs)]}))?;
        check(said.is_error || said.text.contains(&"a".repeat(pairs)), || said.text.clone())
    });
}

#[test]
fn a_huge_file_comes_in_parts_and_costs_little_memory() {
    holds(|case| {
        let size = if case.is_naive { 1 << 26 } else { 1 << 30 };
        let file = fs::File::create(case.root.join("huge")).unwrap();
        file.set_len(size).unwrap();
        let before: u64 = case.files.pids().into_iter().map(peak_bytes).sum();
        let said = case.call("read", json!({"path": "huge"}))?;
        let after: u64 = case.files.pids().into_iter().map(peak_bytes).sum();
        check(said.text.len() < 1 << 20, || format!("{} bytes at once", said.text.len()))?;
        check(said.text.contains("next: read {") || said.is_error, || said.text.clone())?;
        check(after - before < 64 << 20, || format!("{} bytes of memory", after - before))
    });
}

/// The most that a process ever held.
fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn line_ends_stay_as_they_are() {
    holds(|case| {
        case.write("f", "one\r\ntwo\r\nthree\r\n");
        case.call("edit", json!({"path": "f", "old": "two", "new": "2\nand more"}))?;
        let bytes = case.bytes("f");
        check(bytes == b"one\r\n2\r\nand more\r\nthree\r\n", || format!("{:?}", String::from_utf8_lossy(&bytes)))
    });
}

#[test]
fn an_edit_that_could_mean_two_places_is_refused_with_both() {
    holds(|case| {
        case.write("f", "x = 1\ny = 2\nx = 1\n");
        let said = case.call("edit", json!({"path": "f", "old": "x = 1", "new": "x = 3"}))?;
        check(case.bytes("f") == b"x = 1\ny = 2\nx = 1\n", || "the file was changed".into())?;
        check(said.is_error && said.text.contains("lines 1, 3"), || said.text.clone())
    });
}

#[test]
fn bytes_of_another_encoding_stay_as_they_are() {
    holds(|case| {
        case.write("f", b"caf\xe9 = 1\nx = 1\n");
        case.call("edit", json!({"path": "f", "old": "x = 1", "new": "x = 2"}))?;
        check(case.bytes("f") == b"caf\xe9 = 1\nx = 2\n", || format!("{:?}", case.bytes("f")))
    });
}

#[test]
fn byte_order_mark_missing_newline_and_mode_stay_as_they_are() {
    holds(|case| {
        case.write("f", "\u{feff}a\nb");
        fs::set_permissions(case.root.join("f"), fs::Permissions::from_mode(0o750)).unwrap();
        case.call("edit", json!({"path": "f", "old": "b", "new": "c"}))?;
        check(case.bytes("f") == "\u{feff}a\nc".as_bytes(), || format!("{:?}", case.bytes("f")))?;
        let mode = fs::metadata(case.root.join("f")).unwrap().permissions().mode() & 0o7777;
        check(mode == 0o750, || format!("{mode:o}"))
    });
}

#[test]
fn a_move_never_lands_on_a_file_that_exists() {
    holds(|case| {
        case.write("a", "a");
        case.write("b", "b");
        let said = case.call("move", json!({"from": "a", "to": "b"}))?;
        check(case.bytes("b") == b"b", || "b is gone".into())?;
        check(said.is_error && said.code() == "C217", || said.text.clone())
    });
}

#[test]
fn a_create_never_lands_on_a_file_that_exists() {
    holds(|case| {
        case.write("a", "old");
        let said = case.call("create", json!({"path": "a", "content": "new"}))?;
        check(case.bytes("a") == b"old", || "a is gone".into())?;
        check(said.is_error && said.code() == "C217", || said.text.clone())
    });
}

/// Beside the root, with a name that begins like it and one that differs in case alone.
fn plant_outside(root: &Path) -> std::path::PathBuf {
    let outside = root.parent().unwrap().join("root-sibling");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(root.parent().unwrap().join("ROOT")).unwrap();
    fs::write(outside.join("secret"), "SECRET").unwrap();
    fs::write(root.parent().unwrap().join("ROOT/secret"), "SECRET").unwrap();
    symlink(outside.join("secret"), root.join("link")).unwrap();
    symlink(&outside, root.join("folder")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    outside
}

#[test]
fn names_that_lead_outside_read_nothing() {
    holds(|case| {
        let outside = plant_outside(case.root);
        let up = |name: &str| case.root.parent().unwrap().join(name).display().to_string();
        for path in [
            "../root-sibling/secret".into(),
            up("root-sibling/secret"),
            up("ROOT/secret"),
            "link".into(),
            "folder/secret".into(),
            format!("magic{}/secret", outside.display()),
        ] {
            let said = case.call("read", json!({ "path": path }))?;
            check(!said.text.contains("SECRET"), || format!("{path} leaks"))?;
            check(said.is_error && said.code() == "C215", || format!("{path}: {}", said.text))?;
        }
        let said = case.call("read", json!({"path": "a\u{0}b"}))?;
        check(said.is_error && said.code() == "C210", || said.text.clone())
    });
}

#[test]
fn a_dangling_link_is_no_way_to_write_outside() {
    holds(|case| {
        let outside = plant_outside(case.root);
        symlink(outside.join("new"), case.root.join("dangling")).unwrap();
        case.call("create", json!({"path": "dangling", "content": "x", "overwrite": true}))?;
        case.call("create", json!({"path": "folder/new", "content": "x"}))?;
        check(!outside.join("new").exists(), || "written outside".into())
    });
}

#[test]
fn a_regex_that_is_too_large_is_said_to_be() {
    let place = Place::new();
    place.write("a", "a\n");
    let said = place.host(&[]).tool("search", json!({"query": "((a{100}){100}){100}", "regex": true}));
    assert!(said.is_error && said.text.contains("regex"), "{}", said.text);
}
