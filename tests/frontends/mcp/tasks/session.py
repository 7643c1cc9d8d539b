"""One server under test, as `scripts/agent-tasks` sees it: an MCP server on pipes, its tool calls, and what they cost.

The server is not trusted to answer, to exit, or to keep its lines short: each wait has a limit, and the process is killed at the
end. The cost is the number of bytes of the lines of `tools/call`. The path of the root counts as one of fixed length, so that two
machines get the same figures.
"""

import json
import os
import select
import subprocess
import time

# A server that needs longer for its start hangs. The slowest peer needs 4 s on a busy machine.
START_SECONDS = 60
# The same for a call.
CALL_SECONDS = 60
# No reply of a task needs more; the largest one seen is 0.5 MB.
LINE_BYTES = 64 << 20
# What the root is called in the figures.
COUNTED_ROOT = b"/srv/project"


class Failed(Exception):
    """The server ended, answered something that is not a reply, or did not answer in time."""


class Reply:
    """What a tool call returned, as a model reads it."""

    def __init__(self, message):
        result = message.get("result")
        if result is None:
            self.blocks = [{"type": "text", "text": message.get("error", {}).get("message", "")}]
            self.is_error = True
        else:
            self.blocks = result.get("content", [])
            self.is_error = bool(result.get("isError"))
        self.text = "\n".join(block["text"] for block in self.blocks if block.get("type") == "text")


class Session:
    """One server process on one root, for one task."""

    def __init__(self, command, root, home, environment=()):
        self.root = root
        # What happens between two calls of this task, until it has happened.
        self.pending_interlude = None
        self.replies = []
        self.calls = 0
        self.errors = 0
        self.bytes = 0
        # The same without `structuredContent`, where a reply has that beside its text.
        self.text_bytes = 0
        self.problems = []
        self.exchanges = []
        self.last_id = 0
        self.pending = b""
        self.log = open(home / "stderr", "wb")
        variables = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "XDG_STATE_HOME": str(home / "state")}
        variables.update(environment)
        self.process = subprocess.Popen(
            command, cwd=root, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent-tasks", "version": "1"}}
        self.request("initialize", hello, START_SECONDS)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            stream.close()

    # --- what a script of a task uses ---

    def call(self, tool, arguments):
        """A tool call of the model. Its reply is kept for the check of the task."""
        line, message, request = self.request("tools/call", {"name": tool, "arguments": arguments}, CALL_SECONDS)
        reply = Reply(message)
        self.replies.append(reply)
        self.calls += 1
        self.errors += reply.is_error
        self.bytes += self.counted(request) + self.counted(line)
        if "structuredContent" in message.get("result", {}) and reply.blocks:
            del message["result"]["structuredContent"]
            line = dumped(message)
        self.text_bytes += self.counted(request) + self.counted(line)
        said = "\n".join(block.get("text") or f"[{block.get('type')}: {len(str(block))} bytes]" for block in reply.blocks)
        self.exchanges.append(f"→ {tool} {json.dumps(arguments, ensure_ascii=False)}\n{'✗' if reply.is_error else '←'} {said}")
        return reply

    def path(self, name):
        """The absolute path, for servers whose descriptions ask for one."""
        return str(self.root / name) if name else str(self.root)

    def interlude(self):
        """Between two calls: another process changes something, or the state on disk is checked."""
        problem = self.pending_interlude(self.root)
        if problem:
            self.problems.append(problem)
        self.pending_interlude = None

    # --- what a check of a task uses ---

    def texts(self):
        return "\n".join(reply.text for reply in self.replies)

    def blocks(self):
        return [block for reply in self.replies for block in reply.blocks]

    def transcript(self):
        """The calls and replies, for a person who wants to know why a task failed or what it costs."""
        return "\n".join(self.exchanges)

    # --- the protocol ---

    def tools_bytes(self):
        """The size of the whole answer to `tools/list`, which a model pays for in each conversation."""
        total, params = 0, {}
        for _ in range(100):
            line, message, _ = self.request("tools/list", params, CALL_SECONDS)
            total += self.counted(line)
            cursor = message.get("result", {}).get("nextCursor")
            if not cursor:
                return total
            params = {"cursor": cursor}
        raise Failed("tools/list has more than 100 pages")

    def counted(self, line):
        return len(line.replace(os.fsencode(self.root), COUNTED_ROOT))

    def send(self, message):
        line = dumped(message)
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"the server does not read: {error}") from error
        return line

    def request(self, method, params, seconds):
        self.last_id += 1
        request = self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        end = time.monotonic() + seconds
        while True:
            line = self.line(end, method)
            try:
                message = json.loads(line)
            except ValueError as error:
                raise Failed(f"{method}: a line that is not JSON: {line[:200]!r}") from error
            if message.get("id") == self.last_id and "method" not in message:
                return line, message, request
            if "id" in message and "method" in message:
                # The server asks for something that this client has not offered.
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not offered"}})

    def line(self, end, method):
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0:
                raise Failed(f"{method}: no reply in time")
            if not select.select([self.process.stdout], [], [], left)[0]:
                continue
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                raise Failed(f"{method}: the server ended")
            self.pending += part
            if len(self.pending) > LINE_BYTES:
                raise Failed(f"{method}: a line of more than {LINE_BYTES} bytes")
        line, _, self.pending = self.pending.partition(b"\n")
        return line + b"\n"


def dumped(message):
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
