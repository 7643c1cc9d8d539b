"""Holds what scripts/mcp-registry made against the published schema of bundles, and starts the server out of the bundle.

usage: bundle.py FOLDER-OF-THE-BUNDLE PATH-OF-THE-SCHEMA"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import jsonschema

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bundle", "version": "1"}}


def main():
    out, schema = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    (bundle,) = out.glob("*.mcpb")
    server = json.loads((out / "server.json").read_text())
    (package,) = server["packages"]
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    assert package["identifier"].endswith(f"/{bundle.name}") and server["name"] == "io.example/stockade"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(bundle) as files:
        manifest = json.loads(files.read("manifest.json"))
        jsonschema.validate(manifest, schema)
        assert manifest["version"] == server["version"] == package["version"]
        for info in files.infolist():
            path = Path(files.extract(info, folder))
            os.chmod(path, info.external_attr >> 16 & 0o777)
        root = Path(folder, "root")
        root.mkdir()
        start = manifest["server"]["mcp_config"]
        given = {"${__dirname}": folder, "${user_config.folder}": str(root), "${user_config.access}": "ro"}

        def filled(text):
            for name, value in given.items():
                text = text.replace(name, value)
            return text

        command = [filled(start["command"]), *map(filled, start["args"]), "--audit", "off"]
        lines = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n"
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "stockade", done
    print(f"bundle: {bundle.name} obeys the schema and starts, {len(manifest['tools'])} tools")


main()
