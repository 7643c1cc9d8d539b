"""The tasks as a model does them with rust-mcp-filesystem, with writing allowed. It does not delete."""

from changing import CREATED, NEW_PLAN, OLD_NAME, RENAMED, WORKER_EDITS, renamed_lines
from official import edits

NAME = "rust-mcp-filesystem"
CRATE = "rust-mcp-filesystem"


def read_part(s):
    s.call("read_file_lines", {"path": "src/registry.rs", "offset": 1479, "limit": 21})


def find_definition(s):
    s.call("search_files_content", {"path": ".", "pattern": "**/*.rs", "query": "fn parse_header"})
    s.call("read_file_lines", {"path": "src/proto/frame.rs", "offset": 34, "limit": 8})


def rename_in_eight_files(s):
    s.call("search_files_content", {"path": ".", "pattern": "**/*.rs", "query": rf"\b{OLD_NAME}\b", "is_regex": True})
    for name, text in RENAMED.items():
        s.call("edit_file", {"path": name, "edits": edits(renamed_lines(text))})


def edit_stale(s):
    s.call("read_text_file", {"path": "config/fetch.toml"})
    s.interlude()
    s.call("edit_file", {"path": "config/fetch.toml", "edits": edits([("retries = 3", "retries = 6")])})
    s.call("read_text_file", {"path": "config/fetch.toml"})
    s.call("edit_file", {"path": "config/fetch.toml", "edits": edits([("retries = 4", "retries = 6")])})


def edit_several_places(s):
    s.call("read_text_file", {"path": "src/worker.rs"})
    s.call("edit_file", {"path": "src/worker.rs", "edits": edits(WORKER_EDITS)})


def create_several_files(s):
    s.call("create_directory", {"path": "src/cache"})
    s.call("create_directory", {"path": "tests/cache"})
    for name, content in CREATED.items():
        s.call("write_file", {"path": name, "content": content})


def move_a_file(s):
    s.call("create_directory", {"path": "docs/manual"})
    s.call("move_file", {"source": "docs/guide.md", "destination": "docs/manual/first-steps.md"})


def delete_and_restore(s):
    s.call("create_directory", {"path": ".trash"})
    s.call("move_file", {"source": "data/2024", "destination": ".trash/2024"})
    s.interlude()
    s.call("move_file", {"source": ".trash/2024", "destination": "data/2024"})


def read_an_image(s):
    s.call("read_media_file", {"path": "assets/logo.png"})


def read_binary(s):
    s.call("read_media_file", {"path": "data/cache.bin"})


def edit_foreign_encodings(s):
    files = ["windows/setup.ini", "windows/server.reg"]
    s.call("read_multiple_text_files", {"paths": files})
    # The other file cannot be read, so there is nothing that an edit could name.
    s.call("edit_file", {"path": files[0], "edits": edits([("8080", "9090")])})


def search_counts_and_context(s):
    s.call("search_files_content", {"path": ".", "pattern": "**/*.rs", "query": "TODO"})
    # The search shows no context.
    s.call("read_file_lines", {"path": "src/alloc.rs", "offset": 9, "limit": 5})


def list_a_big_folder(s):
    s.call("list_directory", {"path": "reports"})


def tail_of_a_log(s):
    s.call("tail_file", {"path": "log/server.log", "lines": 12})


def nearly_the_right_path(s):
    s.call("read_text_file", {"path": "src/util/string_helper.rs"})
    s.call("list_directory", {"path": "src/util"})
    s.call("read_text_file", {"path": "src/util/string_helpers.rs"})


def undo_an_overwrite(s):
    s.call("write_file", {"path": "notes/plan.md", "content": NEW_PLAN})
    s.interlude()
