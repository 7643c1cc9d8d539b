"""The inspector of the protocol, without its window, against `stockade mcp`: lists tools and resources, calls tools, and passes an error on.

usage: inspector.py NODE PATH-OF-THE-INSPECTOR PATH-OF-STOCKADE"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE = 60


def main():
    node, inspector, program = sys.argv[1:]
    bin = json.loads((Path(inspector) / "package.json").read_text())["bin"]["mcp-inspector"]
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "a.txt").write_text("one\ntwo\n")

        def ask(method, *more):
            command = [node, str(Path(inspector) / bin), "--cli", program, "mcp", "--root", root, "--audit", "off"]
            command += ["--method", method, *more]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
            try:
                return json.loads(done.stdout)
            except ValueError:
                sys.exit(f"inspector: {method}: {done.stdout}{done.stderr}")

        tools = {tool["name"] for tool in ask("tools/list")["tools"]}
        assert {"read", "edit", "search"} <= tools, tools
        read = ask("tools/call", "--tool-name", "read", "--tool-arg", "path=a.txt")
        assert not read.get("isError") and "2→two" in read["content"][0]["text"], read
        lines = ask("tools/call", "--tool-name", "read", "--tool-arg", "path=a.txt", "--tool-arg", "line_from=2")
        assert "1→one" not in lines["content"][0]["text"], lines
        failed = ask("tools/call", "--tool-name", "read", "--tool-arg", "path=../x")
        assert failed["isError"] and failed["content"][0]["text"].startswith("C215 "), failed
        (file,) = [entry for entry in ask("resources/list")["resources"] if entry["uri"].endswith("/a.txt")]
        content = ask("resources/read", "--uri", file["uri"])["contents"][0]["text"]
        assert content == "one\ntwo\n", content
    print(f"inspector: {len(tools)} tools, 6 calls")


main()
