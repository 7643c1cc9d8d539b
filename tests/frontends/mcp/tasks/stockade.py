"""The tasks as a model does them with the tools of `stockade mcp`."""

import re

from changing import CREATED, NEW_NAME, NEW_PLAN, OLD_NAME, RENAMED, WORKER_EDITS

NAME = "stockade mcp"


def read_part(s):
    s.call("read", {"path": "src/registry.rs", "line_from": 1480, "line_to": 1500})


def find_definition(s):
    s.call("search", {"query": "fn parse_header", "context_lines_after": 7})


def rename_in_eight_files(s):
    s.call("search", {"query": OLD_NAME, "word": True})
    op = {"op": "replace", "pattern": rf"\b{OLD_NAME}\b", "replacement": NEW_NAME}
    s.call("edit", {"files": [{"path": name, "ops": [op]} for name in RENAMED], "atomic": True})


def edit_stale(s):
    s.call("read", {"path": "config/fetch.toml"})
    s.interlude()
    s.call("edit", {"path": "config/fetch.toml", "old": "retries = 3", "new": "retries = 6"})
    # The refusal shows the line as it is now.
    s.call("edit", {"path": "config/fetch.toml", "old": "retries = 4", "new": "retries = 6"})


def edit_several_places(s):
    s.call("read", {"path": "src/worker.rs"})
    ops = [{"op": "str_replace", "old": old, "new": new} for old, new in WORKER_EDITS]
    s.call("edit", {"path": "src/worker.rs", "ops": ops})


def create_several_files(s):
    s.call("create", {"files": [{"path": name, "content": content} for name, content in CREATED.items()]})


def move_a_file(s):
    s.call("move", {"from": "docs/guide.md", "to": "docs/manual/first-steps.md"})


def delete_and_restore(s):
    reply = s.call("delete", {"path": "data/2024", "recursive": True, "trash": True})
    s.interlude()
    trash_id = re.search(r'"ids":\["([^"]+)"\]', reply.text)
    s.call("restore", {"ids": [trash_id.group(1)]} if trash_id else {"list": True})


def read_an_image(s):
    s.call("read", {"path": "assets/logo.png"})


def read_binary(s):
    s.call("read", {"path": "data/cache.bin"})
    # As the first reply says.
    s.call("read", {"path": "data/cache.bin", "encoding": "base64", "byte_from": 0, "byte_to": 64})


def edit_foreign_encodings(s):
    files = ["windows/setup.ini", "windows/server.reg"]
    s.call("read", {"paths": files})
    s.call("edit", {"files": [{"path": name, "old": "8080", "new": "9090"} for name in files]})


def search_counts_and_context(s):
    s.call("search", {"query": "TODO", "type": "rust", "count_only": True})
    s.call("search", {"query": "TODO.*overflow", "regex": True, "context": 2})


def list_a_big_folder(s):
    s.call("list", {"path": "reports"})
    s.call("find", {"paths": ["reports/*"], "limit": 1})


def tail_of_a_log(s):
    s.call("read", {"path": "log/server.log", "tail": 12})


def nearly_the_right_path(s):
    s.call("read", {"path": "src/util/string_helper.rs"})
    # The refusal names it.
    s.call("read", {"path": "src/util/string_helpers.rs"})


def undo_an_overwrite(s):
    s.call("create", {"path": "notes/plan.md", "content": NEW_PLAN, "overwrite": True})
    s.interlude()
    s.call("restore", {"list": True})
