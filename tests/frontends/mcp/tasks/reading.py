"""The eight tasks that only read: the files that each begins with, and the facts that the replies have to show."""

import base64
import binascii
import datetime
import os
import re
import struct
import zlib

from task import task, unseen, write

# --- part of a large file ---

KINDS = ("Read", "Write", "Walk")
REGISTRY_LINES = [
    f'    Entry::new({number}, "handler_{number * 7919 % 10007}", Kind::{KINDS[number % 3]}),' for number in range(1, 3001)
]
REGISTRY_PART = (1480, 1500)


def build_registry(root):
    write(root, "src/registry.rs", "\n".join(REGISTRY_LINES) + "\n")


@task("A backtrace names src/registry.rs:1490: show the lines 1480 to 1500.", build_registry)
def read_part(root, session):
    first, last = REGISTRY_PART
    return unseen(session, REGISTRY_LINES[first - 1 : last])


# --- a definition ---

FOLDERS = {
    "net": ["client", "listener", "pool", "retry", "tls"],
    "proto": ["decode", "encode", "frame", "message", "version"],
    "store": ["block", "cache", "index", "segment", "wal"],
    "ui": ["color", "layout", "prompt", "table", "theme"],
}
DEFINITION = """pub fn parse_header(bytes: &[u8]) -> Result<Header, Error> {
    let (magic, rest) = bytes.split_first_chunk::<4>().ok_or(Error::Short)?;
    if magic != MAGIC {
        return Err(Error::Magic);
    }
    let (length, _) = rest.split_first_chunk::<4>().ok_or(Error::Short)?;
    Ok(Header { length: u32::from_be_bytes(*length) })
}
"""


def module(folder, name):
    """A module of some 1.2 kB, as a project has many."""
    title = name.capitalize()
    lines = [f"//! The {name} of the {folder} layer.", "", "use crate::error::Error;", ""]
    for verb in ("open", "check", "apply", "flush", "close"):
        lines += [
            f"pub fn {verb}_{name}(state: &mut {title}State) -> Result<usize, Error> {{",
            f"    let count = state.{verb}s.len();",
            f"    state.{verb}s.clear();",
            "    Ok(count)",
            "}",
            "",
        ]
    return lines


def build_modules(root):
    for folder, names in FOLDERS.items():
        for name in names:
            lines = module(folder, name)
            if name == "frame":
                lines += DEFINITION.splitlines()
            elif name in ("client", "listener", "decode", "segment"):
                lines += [f"fn header_of_{name}(bytes: &[u8]) -> Result<Header, Error> {{", "    parse_header(bytes)", "}"]
            write(root, f"src/{folder}/{name}.rs", "\n".join(lines) + "\n")


@task("Where is parse_header defined, and what does it do?", build_modules)
def find_definition(root, session):
    return unseen(session, ["src/proto/frame.rs", *DEFINITION.strip().splitlines()])


# --- a search with a type, counts and context ---

TODOS = {
    "src/alloc.rs": ["reuse freed pages", "overflow of the counter after 2^32 pages"],
    "src/parse.rs": ["report the column", "accept tabs", "share the buffer"],
    "src/net/send.rs": ["retry after EAGAIN"],
    "src/net/receive.rs": ["bound the queue", "drop duplicates"],
}
OVERFLOW_CONTEXT = ["    let next = self.pages + 1;", "    // Checked by the caller.", "    self.pages = next;", "    next"]


def build_todos(root):
    for name, todos in TODOS.items():
        lines = ["//! A part of the service.", ""]
        for number, todo in enumerate(todos):
            lines.append(f"fn step_{number}(&mut self) -> u32 {{")
            if "overflow" in todo:
                lines += [*OVERFLOW_CONTEXT[:2], f"    // TODO: {todo}", *OVERFLOW_CONTEXT[2:]]
            else:
                lines += ["    let step = self.begin();", f"    // TODO: {todo}", "    step.finish()"]
            lines += ["}", ""]
        write(root, name, "\n".join(lines))
    for name in ("main", "lib", "error", "net/mod"):
        write(root, f"src/{name}.rs", "\n".join(module("app", name.replace("/", "_"))))
    # What a search without a type finds as well.
    for number in range(1, 13):
        write(root, f"docs/notes-{number:02}.md", f"# Notes {number}\n\nTODO: write this down.\n")


def is_counted(session, name, todos):
    """Whether a reply gives the number of a file, names so many of its lines, or shows them."""
    for reply in session.replies:
        named = re.findall(rf"{re.escape(name)}:\d+\b", reply.text)
        given = re.search(rf"{re.escape(name)}: {len(todos)}\b(?! -)", reply.text)
        if given or len(named) == len(todos) or all(todo in reply.text for todo in todos):
            return True
    return False


@task("How many TODOs has each Rust file? Show the one about the overflow with two lines around it.", build_todos)
def search_counts_and_context(root, session):
    for name, todos in TODOS.items():
        if not is_counted(session, name, todos):
            return f"no reply has the number of {name}"
    return unseen(session, OVERFLOW_CONTEXT)


# --- a large folder ---

BIG_FOLDER = 730


def big_folder_names():
    """A file for each day of two years."""
    return [f"{datetime.date(2024, 1, 1) + datetime.timedelta(day)}.csv" for day in range(BIG_FOLDER)]


def build_big_folder(root):
    for day, name in enumerate(big_folder_names()):
        path = write(root, f"reports/{name}", f"day,sum\n{day},{day * 37}\n")
        os.utime(path, (1_700_000_000 + day * 86_400,) * 2)


@task("How many files are in reports, and which is the newest?", build_big_folder)
def list_a_big_folder(root, session):
    names, seen = big_folder_names(), session.texts()
    if not (f"{BIG_FOLDER} " in seen or all(name in seen for name in names)):
        return "no reply has the number of files"
    return unseen(session, names[-1:])


# --- the end of a log ---

LOG = [
    f"2026-03-07T12:{number // 60 % 60:02}:{number % 60:02} INFO request {number} took {number * 13 % 97} ms"
    for number in range(6000)
]


def build_log(root):
    write(root, "log/server.log", "\n".join(LOG) + "\n")


@task("Show the end of log/server.log, ten lines or so.", build_log)
def tail_of_a_log(root, session):
    return unseen(session, LOG[-10:])


# --- a path that is nearly right ---

HELPERS = ["pub fn trim_end(text: &str) -> &str {", "    text.trim_end_matches(['\\r', '\\n'])", "}"]


def build_helpers(root):
    for name in ("bytes", "clock", "env", "hash", "number", "path_helpers", "range", "socket"):
        write(root, f"src/util/{name}.rs", f"//! The {name} functions.\n")
    write(root, "src/util/string_helpers.rs", "\n".join(HELPERS) + "\n")


@task("Show me src/util/string_helper.rs. (The user's name for src/util/string_helpers.rs.)", build_helpers)
def nearly_the_right_path(root, session):
    return unseen(session, HELPERS)


# --- an image ---


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", binascii.crc32(kind + data))

    colours = [(24, 96, 160), (240, 240, 240)]
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in colours[(x // 4 + y // 4) % 2]) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


LOGO = png(32, 32)


def build_logo(root):
    write(root, "assets/logo.png", LOGO)


@task("What does assets/logo.png show?", build_logo)
def read_an_image(root, session):
    for block in session.blocks():
        if block.get("type") == "image" and block.get("mimeType") == "image/png" and base64.b64decode(block["data"]) == LOGO:
            return None
    return "no reply shows the image"


# --- a binary file ---

BINARY_HEADER = b"STKC" + struct.pack("<III", 7, 0, 24_000)


def build_binary(root):
    rest = bytes(number * number * 31 >> 3 & 255 for number in range(24_000 - len(BINARY_HEADER)))
    write(root, "data/cache.bin", BINARY_HEADER + rest)


@task("Which version does the header of data/cache.bin name? It is a little-endian number in the bytes 4 to 7.", build_binary)
def read_binary(root, session):
    begin = BINARY_HEADER[:12]
    for block in session.blocks():
        # Text, an image or sound, or an embedded resource.
        for text in [block.get("text"), block.get("data"), block.get("resource", {}).get("blob")]:
            for word in re.findall(r"[A-Za-z0-9+/]{16,}", text or ""):
                if base64.b64decode(word[: len(word) // 4 * 4]).startswith(begin):
                    return None
            if begin.hex() in re.sub(r"[\s:]", "", (text or "").lower()):
                return None
    return "no reply shows the bytes of the header"
