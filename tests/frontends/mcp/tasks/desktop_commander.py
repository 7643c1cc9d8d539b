"""The tasks as a model does them with the file tools of Desktop Commander. Its shell is left out: it is not bound to the allowed
folders, and a host that gives a model a shell needs no file server. Paths are absolute, because its descriptions ask for it."""

import re
import time

from changing import CREATED, NEW_NAME, NEW_PLAN, OLD_NAME, RENAMED, WORKER_EDITS, renamed_lines

NAME = "Desktop Commander"
PACKAGE = "@wonderwhy-er/desktop-commander"


def search(s, arguments):
    """A search is a session: results are fetched until it says that it is complete."""
    reply = s.call("start_search", {"path": s.path(""), "searchType": "content", **arguments})
    session = re.search(r"session: (\S+)", reply.text)
    shown = "more results" not in reply.text and "COMPLETED" in reply.text
    for _ in range(20):
        if shown or not session:
            return
        time.sleep(0.5)
        reply = s.call("get_more_search_results", {"sessionId": session.group(1)})
        shown = "Search completed" in reply.text


def read_part(s):
    s.call("read_file", {"path": s.path("src/registry.rs"), "offset": 1479, "length": 21})


def find_definition(s):
    # A result is the text that matched, so the pattern has to match the whole line.
    search(s, {"pattern": ".*fn parse_header.*", "contextLines": 7})


def rename_in_eight_files(s):
    search(s, {"pattern": rf".*\b{OLD_NAME}\b.*", "contextLines": 0})
    for name, text in RENAMED.items():
        changes = [(old, new, 1) for old, new in renamed_lines(text)]
        # All occurrences at once, unless a longer name would be changed as well.
        if len(re.findall(rf"\b{OLD_NAME}\b", text)) == text.count(OLD_NAME):
            changes = [(OLD_NAME, NEW_NAME, text.count(OLD_NAME))]
        for old, new, count in changes:
            arguments = {"file_path": s.path(name), "old_string": old, "new_string": new}
            s.call("edit_block", {**arguments, "expected_replacements": count} if count > 1 else arguments)


def edit_stale(s):
    path = s.path("config/fetch.toml")
    s.call("read_file", {"path": path})
    s.interlude()
    # The refusal shows the nearest text.
    s.call("edit_block", {"file_path": path, "old_string": "retries = 3", "new_string": "retries = 6"})
    s.call("edit_block", {"file_path": path, "old_string": "retries = 4", "new_string": "retries = 6"})


def edit_several_places(s):
    s.call("read_file", {"path": s.path("src/worker.rs")})
    for old, new in WORKER_EDITS:
        s.call("edit_block", {"file_path": s.path("src/worker.rs"), "old_string": old, "new_string": new})


def create_several_files(s):
    s.call("create_directory", {"path": s.path("src/cache")})
    s.call("create_directory", {"path": s.path("tests/cache")})
    for name, content in CREATED.items():
        s.call("write_file", {"path": s.path(name), "content": content})


def move_a_file(s):
    s.call("create_directory", {"path": s.path("docs/manual")})
    s.call("move_file", {"source": s.path("docs/guide.md"), "destination": s.path("docs/manual/first-steps.md")})


def delete_and_restore(s):
    s.call("create_directory", {"path": s.path(".trash")})
    s.call("move_file", {"source": s.path("data/2024"), "destination": s.path(".trash/2024")})
    s.interlude()
    s.call("move_file", {"source": s.path(".trash/2024"), "destination": s.path("data/2024")})


def read_an_image(s):
    s.call("read_file", {"path": s.path("assets/logo.png")})


def read_binary(s):
    s.call("read_file", {"path": s.path("data/cache.bin")})


def edit_foreign_encodings(s):
    files = [s.path("windows/setup.ini"), s.path("windows/server.reg")]
    s.call("read_multiple_files", {"paths": files})
    for name in files:
        s.call("edit_block", {"file_path": name, "old_string": "8080", "new_string": "9090"})


def search_counts_and_context(s):
    search(s, {"pattern": "TODO", "literalSearch": True, "filePattern": "*.rs", "contextLines": 0, "ignoreCase": False})
    search(s, {"pattern": ".*TODO.*overflow.*", "filePattern": "*.rs", "contextLines": 2})


def list_a_big_folder(s):
    s.call("list_directory", {"path": s.path("reports"), "depth": 1})


def tail_of_a_log(s):
    s.call("read_file", {"path": s.path("log/server.log"), "offset": -12})


def nearly_the_right_path(s):
    s.call("read_file", {"path": s.path("src/util/string_helper.rs")})
    s.call("list_directory", {"path": s.path("src/util"), "depth": 1})
    s.call("read_file", {"path": s.path("src/util/string_helpers.rs")})


def undo_an_overwrite(s):
    s.call("write_file", {"path": s.path("notes/plan.md"), "content": NEW_PLAN})
    s.interlude()
