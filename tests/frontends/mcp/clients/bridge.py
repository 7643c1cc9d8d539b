"""MCP over HTTP in front of `stockade mcp`, for the conformance suites, which speak nothing else. It does what the transport demands
(sessions, headers, status codes, allowed hosts) and passes every message on as it is; stockade itself has no network transport.
A test tool: it trusts its caller, listens on the loopback address alone, and gives up on a request after PATIENCE seconds."""

import http.server
import itertools
import json
import queue
import secrets
import subprocess
import threading

PATIENCE = 20
MAX_BODY = 8 << 20
# Seconds after which a stream without messages checks that its client is still there.
HEARTBEAT = 1
LOCAL = ("localhost", "127.0.0.1", "[::1]")
STATELESS = "2026-07-28"
# Codes of JSON-RPC that the stateless transport answers with a status of HTTP; all others are 200.
STATUS = {-32601: 404, -32602: 400, -32600: 400, -32700: 400, -32020: 400, -32021: 400, -32022: 400}
HEADER_MISMATCH = -32020
# Methods whose subject is in a header, too, and the member that holds it.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Child:
    """One server process, shared by the requests of a session. Ids of requests are made unique, because stateless clients reuse them."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.numbers, self.lock = itertools.count(1), threading.Lock()
        self.waiting, self.streams = {}, []
        threading.Thread(target=self.pump, daemon=True).start()

    def pump(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message and message.get("id") in self.waiting:
                own, sink = self.waiting.pop(message["id"])
                message["id"] = own
                sink.put(message)
            else:
                self.push(message)

    def push(self, message):
        """A message that answers no request: to the stream that listens, or else to a request that is still open."""
        open_requests = [sink for _, sink in self.waiting.values()]
        for sink in (self.streams or open_requests)[:1]:
            sink.put(message)

    def write(self, message):
        with self.lock:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, message):
        """A queue whose last message is the reply."""
        sink, number = queue.Queue(), next(self.numbers)
        self.waiting[number] = (message["id"], sink)
        self.write({**message, "id": number})
        return sink

    def close(self):
        self.process.kill()
        self.process.wait()


class Bridge(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, command):
        super().__init__(("127.0.0.1", 0), Handler)
        self.command, self.sessions = command, {}
        self.stateless = Child(command)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def close(self):
        self.shutdown()
        self.server_close()
        for child in [self.stateless, *self.sessions.values()]:
            child.close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def is_local(self):
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        origin = self.headers.get("Origin", "http://localhost").split("://")[-1]
        return host in LOCAL and (origin in LOCAL or origin.rsplit(":", 1)[0] in LOCAL)

    def reply(self, status, message=None, **headers):
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, text, number=None):
        self.reply(status, {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}})

    def session(self):
        name = self.headers.get("Mcp-Session-Id")
        return None if name is None else self.server.sessions.get(name)

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY))
        if not self.is_local():
            return self.refuse(403, -32600, "not a local host")
        try:
            message = json.loads(body)
        except ValueError:
            return self.refuse(400, -32700, "not JSON")
        if not isinstance(message, dict):
            return self.refuse(400, -32600, "not one message")
        if message.get("method") == "initialize" and self.headers.get("MCP-Protocol-Version") != STATELESS:
            name, child = secrets.token_hex(16), Child(self.server.command)
            self.server.sessions[name] = child
            return self.relay(child, message, Mcp_Session_Id=name)
        if "Mcp-Session-Id" in self.headers:
            child = self.session()
            return self.relay(child, message) if child else self.refuse(404, -32600, "no such session", message.get("id"))
        wrong = self.wrong_header(message)
        if wrong:
            return self.refuse(400, HEADER_MISMATCH, wrong, message.get("id"))
        return self.relay(self.server.stateless, message, stateless=True)

    def wrong_header(self, message):
        """The stateless transport repeats parts of a request in headers, which have to be there and to agree."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
        told = {
            "MCP-Protocol-Version": meta.get("io.modelcontextprotocol/protocolVersion"),
            "Mcp-Method": message.get("method"),
            "Mcp-Name": params.get(NAMED.get(message.get("method"))),
        }
        for name, value in told.items():
            header = self.headers.get(name, "").strip()
            if value is not None and header != value:
                return f"the header {name} is {header!r}, the request says {value!r}"
        return None

    def relay(self, child, message, stateless=False, **headers):
        if "method" not in message or "id" not in message:
            child.write(message)
            return self.reply(202, **headers)
        sink = child.ask(message)
        try:
            first = sink.get(timeout=PATIENCE)
            if "method" not in first:
                code = first.get("error", {}).get("code")
                return self.reply(STATUS.get(code, 200) if stateless else 200, first, **headers)
            self.begin_stream(headers)
            while True:
                self.event(first)
                if "method" not in first:
                    return None
                first = sink.get(timeout=PATIENCE)
        except queue.Empty:
            self.close_connection = True

    def begin_stream(self, headers):
        self.send_response(200)
        for name, value in {**headers, "Content_Type": "text/event-stream", "Connection": "close"}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True

    def event(self, message):
        self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        if not self.is_local():
            return self.refuse(403, -32600, "not a local host")
        child = self.session()
        if child is None:
            return self.reply(405)
        sink = queue.Queue()
        child.streams.append(sink)
        self.begin_stream({})
        try:
            while child.process.poll() is None:
                try:
                    self.event(sink.get(timeout=HEARTBEAT))
                except queue.Empty:
                    self.wfile.write(b": still here\n\n")
                    self.wfile.flush()
        finally:
            child.streams.remove(sink)

    def do_DELETE(self):
        child = self.server.sessions.pop(self.headers.get("Mcp-Session-Id"), None)
        if child is None:
            return self.reply(404)
        child.close()
        return self.reply(200)
