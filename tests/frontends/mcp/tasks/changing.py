"""The eight tasks that change files: what each begins with, what happens in its middle, and what has to be there afterwards."""

import re

from task import differs, task, write

# --- a rename over eight files ---

RENAMED = {
    "src/main.rs": """use app::config::load_config;

fn main() {
    let config = load_config("app.toml");
    app::run(config);
}
""",
    "src/config.rs": """/// Reads the file once. See reload_config for later.
pub fn load_config(path: &str) -> Config {
    parse(&read(path))
}

pub fn reload_config(old: &Config) -> Config {
    load_config(&old.path)
}
""",
    "src/server.rs": """use crate::config::{Config, load_config};

pub fn start() -> Server {
    Server::new(load_config(PATH))
}
""",
    "src/worker.rs": """fn refresh(worker: &mut Worker) {
    worker.config = crate::config::load_config(&worker.path);
}
""",
    "src/cli/check.rs": """pub fn check(path: &str) -> bool {
    crate::config::load_config(path).is_valid()
}
""",
    "src/cli/show.rs": """pub fn show(path: &str) {
    println!("{:#?}", crate::config::load_config(path));
}
""",
    "tests/config.rs": """#[test]
fn default_is_valid() {
    assert!(app::config::load_config("tests/app.toml").is_valid());
}
""",
    "benches/start.rs": """fn main() {
    bench(|| app::config::load_config("benches/app.toml"));
}
""",
}
# Longer names that contain the old one.
NOT_RENAMED = {
    "src/reload.rs": """pub fn on_signal(config: &mut Config) {
    *config = crate::config::reload_config(config);
}
""",
    "src/env.rs": """pub fn from_env() -> Config {
    load_config_from(std::env::var("APP_CONFIG"))
}
""",
}
OLD_NAME, NEW_NAME = "load_config", "read_settings"


def renamed(text):
    return re.sub(rf"\b{OLD_NAME}\b", NEW_NAME, text)


def renamed_lines(text):
    """The lines that the rename changes, each with its new form, without the indentation."""
    return [(line.strip(), renamed(line).strip()) for line in text.splitlines() if renamed(line) != line]


def build_renamed(root):
    for name, text in {**RENAMED, **NOT_RENAMED}.items():
        write(root, name, text)


@task("Rename the function load_config to read_settings, everywhere.", build_renamed)
def rename_in_eight_files(root, session):
    return differs(root, {**{name: renamed(text) for name, text in RENAMED.items()}, **NOT_RENAMED})


# --- an edit of something that has changed since it was read ---

FETCH = """[fetch]
# How often a request is tried again.
retries = 3
timeout_seconds = 30
parallel = 8

[fetch.cache]
folder = "cache"
max_megabytes = 512
"""
FETCH_MEANWHILE = FETCH.replace("[fetch]\n", "# Tuned for the slow mirror.\n[fetch]\n", 1).replace("retries = 3", "retries = 4")


def build_fetch(root):
    write(root, "config/fetch.toml", FETCH)


def change_fetch(root):
    write(root, "config/fetch.toml", FETCH_MEANWHILE)


@task("Set the retries in config/fetch.toml to 6. (Another process changes the file after it was read.)", build_fetch, change_fetch)
def edit_stale(root, session):
    return differs(root, {"config/fetch.toml": FETCH_MEANWHILE.replace("retries = 4", "retries = 6")})


# --- four changes in one file ---

WORKER = """use std::{collections::VecDeque, thread};

use crate::job::Job;

const MAX_JOBS: usize = 8;

pub struct Worker {
    queue: VecDeque<Job>,
    done: usize,
}

impl Worker {
    pub fn push(&mut self, job: Job) -> bool {
        dbg!(&job);
        if self.queue.len() == MAX_JOBS {
            return false;
        }
        self.queue.push_back(job);
        true
    }

    pub fn run(&mut self) {
        while let Some(job) = self.queue.pop_front() {
            job.run();
            self.done += 1;
            thread::yield_now();
        }
    }
}
"""
WORKER_EDITS = [
    ("use std::{collections::VecDeque, thread};", "use std::{collections::VecDeque, thread, time::Duration};"),
    ("const MAX_JOBS: usize = 8;", "const MAX_JOBS: usize = 32;"),
    ("        dbg!(&job);\n", ""),
    ("thread::yield_now();", "thread::sleep(Duration::from_millis(1));"),
]


def build_worker(root):
    write(root, "src/worker.rs", WORKER)


@task("In src/worker.rs: allow 32 jobs, remove the dbg!, and sleep 1 ms instead of yielding.", build_worker)
def edit_several_places(root, session):
    expected = WORKER
    for old, new in WORKER_EDITS:
        expected = expected.replace(old, new)
    return differs(root, {"src/worker.rs": expected})


# --- files with CR LF, and in UTF-16 ---

SETUP = (
    "; Written by the installer.\r\n[Server]\r\nHost=localhost\r\nPort=8080\r\nTimeout=30\r\n\r\n"
    "[Log]\r\nLevel=info\r\nFile=server.log\r\n"
)
REGISTRY_FILE = (
    "Windows Registry Editor Version 5.00\r\n\r\n[HKEY_CURRENT_USER\\Software\\Server]\r\n"
    '"Host"="localhost"\r\n"Port"="8080"\r\n"Name"="B\u00fcro"\r\n'
)


def utf16(text):
    return b"\xff\xfe" + text.encode("utf-16-le")


def build_windows(root):
    write(root, "windows/setup.ini", SETUP.encode())
    write(root, "windows/server.reg", utf16(REGISTRY_FILE))


@task("Change the port from 8080 to 9090 in windows/setup.ini and windows/server.reg.", build_windows)
def edit_foreign_encodings(root, session):
    registry_file = utf16(REGISTRY_FILE.replace("8080", "9090"))
    return differs(root, {"windows/setup.ini": SETUP.replace("8080", "9090"), "windows/server.reg": registry_file})


# --- several new files ---

CREATED = {
    "src/cache/mod.rs": "//! Caches for blocks.\n\nmod lru;\nmod ttl;\n\npub use self::{lru::Lru, ttl::Ttl};\n",
    "src/cache/lru.rs": "/// Keeps what was used last.\npub struct Lru {\n    entries: Vec<u64>,\n}\n",
    "src/cache/ttl.rs": "/// Keeps everything for a while.\npub struct Ttl {\n    seconds: u64,\n}\n",
    "tests/cache/lru.rs": "#[test]\nfn oldest_entry_goes_first() {\n    todo!()\n}\n",
}


def build_empty(root):
    write(root, "src/lib.rs", "pub mod cache;\n")


@task("Create the module src/cache with two parts, and a test for it.", build_empty)
def create_several_files(root, session):
    return differs(root, CREATED)


# --- a move into a folder that does not exist ---

GUIDE = "# Guide\n\n" + "".join(f"{number}. Step {number}.\n" for number in range(1, 30))


def build_guide(root):
    write(root, "docs/guide.md", GUIDE)


@task("Move docs/guide.md to docs/manual/first-steps.md.", build_guide)
def move_a_file(root, session):
    return differs(root, {"docs/guide.md": None, "docs/manual/first-steps.md": GUIDE})


# --- deleted, and wanted back ---

REPORTS = {f"data/2024/q{quarter}.csv": f"quarter,sum\n{quarter},{quarter * 1234}\n" for quarter in range(1, 5)}


def build_quarters(root):
    for name, content in REPORTS.items():
        write(root, name, content)


def quarters_are_gone(root):
    return "data/2024 was not deleted" if (root / "data/2024").exists() else None


@task("Delete the folder data/2024. – No, I still need it: get it back.", build_quarters, quarters_are_gone)
def delete_and_restore(root, session):
    return differs(root, REPORTS)


# --- an overwritten file ---

PLAN = "# Plan\n\n- measure\n- change\n- measure again\n"
NEW_PLAN = "# Plan\n\n- guess\n"


def build_plan(root):
    write(root, "notes/plan.md", PLAN)


def plan_is_new(root):
    return differs(root, {"notes/plan.md": NEW_PLAN})


@task("Write a new notes/plan.md. – No, undo that: the old one was right.", build_plan, plan_is_new)
def undo_an_overwrite(root, session):
    return differs(root, {"notes/plan.md": PLAN})
