"""The servers that take part: where they come from, and how they are started on a root.

The peers come by name from the registries, in fixed versions, into the folder that `scripts/bench` uses as well. Packages run no
scripts while they are installed. A peer that cannot be had has a row that says so.
"""

import json
import shutil
import subprocess
import tempfile

import desktop_commander
import official
import rust_mcp
import stockade

INSTALL_SECONDS = 1800


class Missing(Exception):
    """A server that cannot be had, and why."""


class Stockade:
    script = stockade
    key = "stockade"

    def __init__(self, program):
        self.program = program

    def prepare(self, _place):
        if not self.program.is_file():
            raise Missing(f"{self.program} is not there; build it first")
        version = subprocess.run([self.program, "--version"], capture_output=True, text=True, timeout=60, check=True)
        return version.stdout.split()[1]

    def command(self, root, _home):
        return [str(self.program), "mcp", "--root", str(root)], {}


class Package:
    """A server from npm. Each has a folder of its own, so that one that cannot be had leaves the other alone."""

    def prepare(self, place):
        folder = place / self.place
        self.folder = folder / "node_modules" / self.script.PACKAGE
        if self.installed() != self.version:
            folder.mkdir(parents=True, exist_ok=True)
            package = f"{self.script.PACKAGE}@{self.version}"
            run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), package], folder)
        return self.version

    def installed(self):
        manifest = self.folder / "package.json"
        return json.loads(manifest.read_text())["version"] if manifest.is_file() else None


class Official(Package):
    script = official
    key = "official"
    version = "2026.8.31"
    # As in benches/service/install.rs.
    place = "npm"

    def command(self, root, _home):
        return ["node", str(self.folder / "dist/index.js"), str(root)], {}


class DesktopCommander(Package):
    script = desktop_commander
    key = "desktop-commander"
    version = "0.2.52"
    place = "npm-desktop-commander"

    def command(self, root, home):
        settings = home / ".claude-server-commander" / "config.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"allowedDirectories": [str(root)], "telemetryEnabled": False}))
        return ["node", str(self.folder / "dist/index.js"), "--no-onboarding"], {"DO_NOT_TRACK": "1"}


class RustMcp:
    script = rust_mcp
    key = "rust-mcp-filesystem"
    version = "0.4.5"

    def prepare(self, place):
        folder = place / f"{rust_mcp.CRATE}-{self.version}"
        self.program = folder / "bin" / rust_mcp.CRATE
        if not self.program.exists():
            build = ["--locked", "--version", self.version, "--root", str(folder), "--target-dir", str(folder / "build")]
            # From outside of the repository, so that its configuration of cargo does not apply.
            run(["cargo", "install", *build, rust_mcp.CRATE], tempfile.gettempdir())
        return self.version

    def command(self, root, _home):
        return [str(self.program), "--allow-write", str(root)], {}


def run(command, folder):
    """Installs something. If that fails, the last line of its output is the reason."""
    if not shutil.which(command[0]):
        raise Missing(f"there is no {command[0]}")
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{command[0]} did not end in time") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Missing(f"{command[0]} failed: {' '.join(last)}")
