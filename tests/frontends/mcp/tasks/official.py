"""The tasks as a model does them with the official file server of the protocol. It has no search in files, no windows, and does not
delete."""

from changing import CREATED, NEW_PLAN, NOT_RENAMED, RENAMED, WORKER_EDITS, renamed_lines
from reading import FOLDERS, TODOS

NAME = "official server"
PACKAGE = "@modelcontextprotocol/server-filesystem"


def edits(changes):
    return [{"oldText": old, "newText": new} for old, new in changes]


def read_part(s):
    # There is a head and a tail, and nothing between them.
    s.call("read_text_file", {"path": "src/registry.rs", "head": 1500})


def find_definition(s):
    s.call("search_files", {"path": ".", "pattern": "**/*.rs"})
    # A lucky guess among the folders: without it, all files have to be read.
    s.call("read_multiple_files", {"paths": [f"src/proto/{name}.rs" for name in FOLDERS["proto"]]})


def rename_in_eight_files(s):
    s.call("search_files", {"path": ".", "pattern": "**/*.rs"})
    s.call("read_multiple_files", {"paths": [*RENAMED, *NOT_RENAMED]})
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
    # Missing folders are not made by a write.
    s.call("create_directory", {"path": "src/cache"})
    s.call("create_directory", {"path": "tests/cache"})
    for name, content in CREATED.items():
        s.call("write_file", {"path": name, "content": content})


def move_a_file(s):
    s.call("create_directory", {"path": "docs/manual"})
    s.call("move_file", {"source": "docs/guide.md", "destination": "docs/manual/first-steps.md"})


def delete_and_restore(s):
    # Nothing deletes; a move out of the way is the nearest.
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
    s.call("read_multiple_files", {"paths": files})
    for name in files:
        s.call("edit_file", {"path": name, "edits": edits([("8080", "9090")])})


def search_counts_and_context(s):
    s.call("search_files", {"path": ".", "pattern": "**/*.rs"})
    s.call("read_multiple_files", {"paths": [*TODOS, *(f"src/{name}.rs" for name in ("main", "lib", "error", "net/mod"))]})


def list_a_big_folder(s):
    s.call("list_directory", {"path": "reports"})


def tail_of_a_log(s):
    s.call("read_text_file", {"path": "log/server.log", "tail": 12})


def nearly_the_right_path(s):
    s.call("read_text_file", {"path": "src/util/string_helper.rs"})
    s.call("list_directory", {"path": "src/util"})
    s.call("read_text_file", {"path": "src/util/string_helpers.rs"})


def undo_an_overwrite(s):
    # The old content was never read, and nothing brings it back.
    s.call("write_file", {"path": "notes/plan.md", "content": NEW_PLAN})
    s.interlude()
