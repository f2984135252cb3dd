"""The network of a session as root, as another user, and where the machine refuses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jaato.tools.processes.sandbox.backends import find_bubblewrap

ROOT = Path(__file__).parents[2]
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--")
ENVIRONMENT = {
    "PATH": os.defpath,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)]),
}


@pytest.fixture
def place() -> Iterator[str]:
    """A directory that every user may write to, with nothing private above it."""
    with TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o1777)
        yield made


def play(
    place: str, before: tuple[str, ...], *arguments: str, python: str = sys.executable
) -> dict[str, Any]:
    """What the scenario has seen, started by `before`."""
    done = subprocess.run(
        [*before, python, "-m", "tests.network.scenario", place, *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, "TMPDIR": place},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def python_for(before: tuple[str, ...]) -> str | None:
    """A Python that the user whom `before` becomes can start, and start again."""
    again = "import sys, subprocess, httptools; sys.exit(subprocess.call([sys.executable, '-I', '-S', '-c', '0']))"
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python):
            tried = subprocess.run(
                [*before, python, "-c", again], env=ENVIRONMENT, check=False, capture_output=True
            )
            if tried.returncode == 0:
                return python
    return None


@pytest.mark.parametrize("before", [(), NOBODY], ids=["as this user", "as nobody"])
def test_the_network_works_for_every_user(place: str, before: tuple[str, ...]) -> None:
    """A server and its client, a granted host, a refused one and one without a grant: the same for root and for a user
    without any right; the command has the user's own id, no capability and no descriptor beyond its own."""
    if before and (os.getuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root can become another user")
    python = python_for(before)
    if python is None:
        pytest.skip("another user can run no Python of this version")
    found = play(place, before, python=python)
    assert found["local"] == found["reached"] == "hello"
    assert len(found["refused"]) == 1
    assert found["closed"] == 7
    user = "65534" if before else str(os.getuid())
    assert found["inside"] == [user, "CapEff:", "0" * 16, "4"]


def test_where_namespaces_are_refused_there_is_no_network(place: str) -> None:
    """Where this user may make no namespace there is none, asked once, and the reason is kept for who is to know."""
    found, _ = find_bubblewrap(os.defpath)
    assert found is not None
    before = (found.program, "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--")
    answer = play(place, before, "refused")
    assert answer["networks"] == [None, None]
    assert answer["refusal"].startswith("No network namespace can be made here: ")
