"""A workspace of each kind of user, and who plays commands in it."""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.control.player import Player, played

HERE = Path(__file__).parent
NOBODY = 65534
DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
PATH = "/usr/local/bin:/usr/bin:/bin"
WITHIN_S = 300.0
GIT = "git init -q -b main . && git config user.email a@example.org && git config user.name A"


@functools.cache
def python_for_all() -> str | None:
    """A Python of this version that any user can start."""
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        if subprocess.run([*DROP, program, "-c", again], capture_output=True, check=False).returncode == 0:
            return program
    return None


@dataclass
class Ground:
    """A workspace that a user owns, with a repository in it."""

    place: Path
    other: OtherUser | None = None

    @property
    def nobody(self) -> bool:
        """Whether it belongs to the user without rights."""
        return self.other is not None

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
        """Play commands through `run` in one session, as the owner of the workspace, and return their results."""
        pairs = [one if isinstance(one, tuple) else (one, {}) for one in commands]
        order = {
            "workspace": str(self.workspace),
            "state": str(self.place / "state"),
            "steps": [{"command": command, "access": access} for command, access in pairs],
            "more": more,
        }
        if self.other is not None:
            return self.other.play(order)
        results: list[dict[str, Any]] = json.loads(json.dumps(played(json.loads(json.dumps(order)))))
        return results

    def kept(self, name: str) -> list[Path]:
        """What of this name is in the quarantine."""
        places = (self.place / "state" / "removed").iterdir()
        return [place / name for place in places if os.path.lexists(place / name)]

    @property
    def prefix(self) -> list[str]:
        return DROP if self.nobody else []

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": PATH, "HOME": str(self.place / "home")}


class OtherUser:
    """A process of the user without rights that plays one order after another, each in a session of its own."""

    def __init__(self, home: Path) -> None:
        places = [str(HERE.parents[1]), str(HERE.parents[1] / "src")]
        places += [one for one in sys.path if "site-packages" in one]
        self.process = subprocess.Popen(
            [*DROP, str(python_for_all()), "-B", str(HERE / "player.py")],
            env={"PATH": PATH, "HOME": str(home), "PYTHONPATH": os.pathsep.join(places)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=home,
        )

    def play(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """The results of its commands."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], WITHIN_S)[0], "the player does not answer"
        said = self.process.stdout.readline()
        assert said, "the player has ended"
        answer = json.loads(said)
        assert "failure" not in answer, answer["failure"]
        results: list[dict[str, Any]] = answer["results"]
        return results

    def close(self) -> None:
        """End it, as the end of its input does."""
        self.process.communicate(timeout=WITHIN_S)


@pytest.fixture(scope="session")
def other_user() -> Iterator[OtherUser | None]:
    """The process of the user without rights; none where nobody can become one."""
    if os.geteuid() != 0 or python_for_all() is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="jaato-control-", dir="/var/tmp") as home:
        os.chown(home, NOBODY, NOBODY)
        made = OtherUser(Path(home))
        yield made
        made.close()


@pytest.fixture(params=["this user", "another user"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A repository of this user, and one of a user without rights."""
    nobody = request.param == "another user"
    other = request.getfixturevalue("other_user") if nobody else None
    if nobody and other is None:
        pytest.skip("only root can become another user, who needs a Python that may be started")
    place = Path(tempfile.mkdtemp(prefix="jaato-control-", dir="/var/tmp"))
    try:
        for name in ("w", "home", "state"):
            (place / name).mkdir()
        if nobody:
            for path in (place, *place.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        made = Ground(place, other)
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
