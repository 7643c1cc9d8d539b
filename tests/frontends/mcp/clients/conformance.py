"""Runs the conformance suites of the protocol against `stockade mcp` and prints each scenario: passed, or not applicable with the
reason. A scenario that fails without a reason fails the run. So does a reason that no failure needs: the list can hide nothing.

The client of 2026-07-28 says that it has roots and answers no request for them, so most scenarios can pass only where the operator has
decided to ignore them. That revision is run in both ways; a scenario has to pass in one of them.

usage: conformance.py NODE PATH-OF-STOCKADE PATH-OF-A-SUITE=REVISION…   (without a revision: every scenario of the suite)"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bridge import Bridge

REASONS = Path(__file__).with_name("not_applicable.json")
# The longest time for one suite, in seconds.
PATIENCE = 100
# The first revision without a handshake.
STATELESS = "2026-07-28"


def run(node, server, suite, options):
    """The failed checks of each scenario that the suite ran."""
    with tempfile.TemporaryDirectory() as folder:
        root, ran = Path(folder) / "root", Path(folder) / "ran"
        root.mkdir()
        ran.mkdir()
        (root / "a.txt").write_text("one\ntwo\n")
        bridge = Bridge([*server, "--root", str(root), "--audit", "off"])
        try:
            command = [node, str(suite / "dist/index.js"), "server", "--url", bridge.url, "-o", str(ran), *options]
            done = subprocess.run(command, cwd=ran, capture_output=True, text=True, timeout=PATIENCE)
        finally:
            bridge.close()
        found = {}
        for file in sorted(ran.glob("**/checks.json")):
            name = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", file.parent.name).removeprefix("server-")
            checks = json.loads(file.read_text())
            found[name] = {check["id"]: check.get("errorMessage") for check in checks if check["status"] == "FAILURE"}
    if not found:
        sys.exit(f"{suite}: no scenario ran\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return found


def main():
    node, program = map(os.path.abspath, sys.argv[1:3])
    suites = sys.argv[3:]
    reasons = {name: why for why, names in json.loads(REASONS.read_text()).items() for name in names}
    needed, wrong = set(), 0
    for suite, _, revision in (suite.partition("=") for suite in suites):
        version = json.loads((Path(suite) / "package.json").read_text())["version"]
        label = f"conformance {version} {revision}".strip()
        options = ["--requirements", revision] if revision else ["--suite", "all"]
        server, whole = [program, "mcp"], 0
        found = run(node, server, Path(suite).resolve(), options)
        if revision == STATELESS:
            for name, failed in run(node, [*server, "--ignore-host-roots"], Path(suite).resolve(), options).items():
                found[name] = failed if found.get(name) else found.get(name, failed)
        for name, failed in sorted(found.items()):
            parts = {part: reasons.get(f"{name}:{part}") for part in failed}
            needed.update(f"{name}:{part}" for part, why in parts.items() if why)
            if failed and name in reasons:
                needed.add(name)
                print(f"{label}: {name}: not applicable: {reasons[name]}")
            elif None in parts.values():
                wrong += 1
                for part in (part for part, why in parts.items() if why is None):
                    print(f"{label}: {name}: FAILED: {part}: {failed[part]}")
            else:
                whole += not failed
                print("; ".join([f"{label}: {name}: passed", *(f"not applicable: {part}: {why}" for part, why in parts.items())]))
        print(f"note: {label}: {len(found)} scenarios, {whole} passed whole, every other one is explained" if not wrong else "")
    for name in sorted(set(reasons) - needed):
        wrong += 1
        print(f"not_applicable.json: {name}: no suite fails it")
    sys.exit(1 if wrong else 0)


main()
