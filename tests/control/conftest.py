"""A workspace of each kind of user, and who plays commands in it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.control.player import Player

HERE = Path(__file__).parent
NOBODY = 65534
GIT = "git init -q -b main . && git config user.email a@example.org && git config user.name A"


@functools.cache
def python_for_all() -> str | None:
    """A Python of this version that any user can start."""
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, "-c", again]
        if subprocess.run(drop, capture_output=True, check=False).returncode == 0:
            return program
    return None


@dataclass
class Ground:
    """A workspace that a user owns, with a repository in it."""

    place: Path
    nobody: bool

    @property
    def workspace(self) -> Path:
        return self.place / "w"

    def prepare(self, line: str) -> None:
        """Do something in the workspace outside the sandbox, as its owner."""
        subprocess.run(
            [*self.prefix, "/bin/bash", "-c", line], cwd=self.workspace, check=True, env=self.environ
        )

    def play(
        self, *commands: str | tuple[str, dict[str, Any]], more: tuple[str, ...] = ()
    ) -> list[dict[str, Any]]:
        """Play commands through `run` in one process and return their results."""
        pairs = [one if isinstance(one, tuple) else (one, {}) for one in commands]
        order = {
            "workspace": str(self.workspace),
            "state": str(self.place / "state"),
            "steps": [{"command": command, "access": access} for command, access in pairs],
            "more": more,
        }
        python = python_for_all() if self.nobody else sys.executable
        done = subprocess.run(
            [*self.prefix, str(python), "-B", str(HERE / "player.py"), json.dumps(order)],
            capture_output=True, text=True, check=False, env=self.environ, cwd=self.place, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kept(self, name: str) -> list[Path]:
        """What of this name is in the quarantine."""
        places = (self.place / "state" / "removed").iterdir()
        return [place / name for place in places if os.path.lexists(place / name)]

    @property
    def prefix(self) -> list[str]:
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if self.nobody else []

    @property
    def environ(self) -> dict[str, str]:
        places = [
            str(HERE.parents[1]),
            str(HERE.parents[1] / "src"),
            *(one for one in sys.path if "site-packages" in one),
        ]
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.place / "home"),
            "PYTHONPATH": os.pathsep.join(places),
        }


@pytest.fixture(params=["this user", "another user"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A repository of this user, and one of a user without rights."""
    nobody = request.param == "another user"
    if nobody and (os.geteuid() != 0 or python_for_all() is None):
        pytest.skip("only root can become another user, who needs a Python that may be started")
    place = Path(tempfile.mkdtemp(prefix="jaato-control-", dir="/var/tmp"))
    try:
        for name in ("w", "home", "state"):
            (place / name).mkdir()
        if nobody:
            for path in (place, *place.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        made = Ground(place, nobody)
        made.prepare(GIT)
        yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    """The `run` tool in a workspace with a repository, in this process."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    (tmp_path / "state").mkdir()
    subprocess.run(["/bin/bash", "-c", GIT], cwd=workspace, check=True)
    made = Player(workspace, tmp_path / "state")
    yield made
    made.close()
