"""The faults that tests/frontends/mcp/faults.rs and races.rs claim we do not have, shown on a server that has them: the reference file server of
the protocol. Ours has to hold every case, the other one must fail every case that it is known to fail: else the case shows nothing.

usage: peer_faults.py PATH-OF-STOCKADE PATH-OF-THE-OTHER-SERVER'S-index.js"""

import ctypes
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# What is not answered by then hangs, as far as an agent can tell.
PATIENCE = 5
# A race that the other server loses is lost within this.
STORM = 30
# Calls of ours during a storm.
CALLS = 200


class Server:
    def __init__(self, command, root):
        self.root = root
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.lines, self.last = queue.Queue(), 0
        self.early = {}
        threading.Thread(target=self.pump, daemon=True).start()
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.wait(self.send("initialize", hello), 60)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def pump(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, params):
        self.last += 1
        self.write({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        return self.last

    def wait(self, number, patience=PATIENCE):
        """The reply as text, or None."""
        end = time.monotonic() + patience
        while number not in self.early:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                return None
            if "id" in line:
                self.early[line["id"]] = json.dumps(line)
        return self.early.pop(number)

    def ask(self, name, arguments):
        return self.send("tools/call", {"name": name, "arguments": arguments})

    def path(self, name):
        return str(self.root / name)

    def close(self):
        self.process.kill()
        self.process.wait()


class Ours(Server):
    name = "stockade"

    def read(self, name):
        return self.ask("read", {"path": self.path(name)})

    def find(self, glob):
        return self.ask("find", {"paths": [glob]})

    def edit(self, name, old, new):
        return self.wait(self.ask("edit", {"path": self.path(name), "old": old, "new": new}))

    def put(self, name, content):
        return self.wait(self.ask("create", {"path": self.path(name), "content": content, "overwrite": True, "parents": False}))


class Other(Server):
    name = "reference server"

    def read(self, name):
        return self.ask("read_text_file", {"path": self.path(name)})

    def find(self, glob):
        return self.ask("search_files", {"path": str(self.root), "pattern": glob})

    def edit(self, name, old, new):
        return self.wait(self.ask("edit_file", {"path": self.path(name), "edits": [{"oldText": old, "newText": new}]}))

    def put(self, name, content):
        return self.wait(self.ask("write_file", {"path": self.path(name), "content": content}))


def fifo_reads_silence_nobody(server):
    os.mkfifo(server.root / "pipe")
    (server.root / "plain").write_text("needle\n")
    for _ in range(8):
        server.read("pipe")
    return "needle" in (server.wait(server.read("plain")) or "")


def braces_are_no_bomb(server):
    # Enough of them that a machine of any speed needs longer for all combinations than anybody waits.
    for name in range(1000):
        (server.root / f"file{name}").write_text("")
    return server.wait(server.find("{a,b}" * 16)) is not None


def line_ends_are_kept(server):
    file = server.root / "f"
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    server.edit("f", "two", "2")
    return file.read_bytes() == b"one\r\n2\r\nthree\r\n"


def ambiguous_edit_is_refused(server):
    file = server.root / "f"
    file.write_bytes(b"x = 1\nx = 1\n")
    server.edit("f", "x = 1", "x = 2")
    return file.read_bytes() == b"x = 1\nx = 1\n"


def other_encodings_are_kept(server):
    file = server.root / "f"
    file.write_bytes(b"caf\xe9\nx = 1\n")
    server.edit("f", "x = 1", "x = 2")
    return file.read_bytes() == b"caf\xe9\nx = 2\n"


def storm(folder, link, stop):
    libc, here, exchange = ctypes.CDLL(None), -100, 2
    while not stop.is_set():
        for _ in range(2):
            assert libc.renameat2(here, bytes(folder), here, bytes(link), exchange) == 0


def race(attempt):
    """Calls while a folder and a link to the outside change places; true if none of them got out."""

    def holds(server):
        outside = server.root.parent / "outside"
        outside.mkdir()
        (outside / "secret").write_text("SECRET\n")
        folder, link = server.root / "d", server.root / "link"
        folder.mkdir()
        (folder / "secret").write_text("inside\n")
        link.symlink_to(outside)
        stop = threading.Event()
        # A process of its own: a thread would wait for this one's.
        attacker = os.fork()
        if attacker == 0:
            storm(folder, link, stop)
        try:
            end = time.monotonic() + STORM
            calls = 0
            while time.monotonic() < end and not (isinstance(server, Ours) and calls >= CALLS):
                calls += 1
                if attempt(server, calls, outside):
                    return False
            return True
        finally:
            os.kill(attacker, 9)
            os.waitpid(attacker, 0)

    holds.__name__ = f"{attempt.__name__}_never_escape_a_swap"
    return holds


def reads(server, _, __):
    return "SECRET" in (server.wait(server.read("d/secret")) or "")


def creates(server, call, outside):
    server.put(f"d/new{call}", "x")
    return (outside / f"new{call}").exists()


def overwrites(server, call, outside):
    server.put("d/secret", f"call {call}\n")
    return (outside / "secret").read_text() != "SECRET\n"


CASES = [
    fifo_reads_silence_nobody,
    braces_are_no_bomb,
    line_ends_are_kept,
    ambiguous_edit_is_refused,
    other_encodings_are_kept,
    race(reads),
    race(creates),
    race(overwrites),
]


def held(case, kind, command):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        root.mkdir()
        server = kind([*command, str(root)], root)
        try:
            return case(server)
        finally:
            server.close()


def main():
    program, other = sys.argv[1:]
    wrong = 0
    for case in CASES:
        ours = held(case, Ours, [program, "mcp", "--root"])
        theirs = held(case, Other, ["node", other])
        wrong += not ours or theirs
        print(f"{case.__name__}: stockade {'held' if ours else 'FAILED'}, reference server {'held' if theirs else 'failed'}")
    sys.exit(1 if wrong else 0)


main()
