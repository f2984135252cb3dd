"""The temporary directories of sessions whose process was killed are removed by the next process, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.running import WORKING
from tests.sandbox.users import OTHER, ROOT_USER, paths

from jaato.tools.processes.sandbox import temporary

PROGRAM = """
import sys, time
from pathlib import Path
from tests.sandbox.running import runner
with runner(Path(sys.argv[1]), sys.argv[2], "workspace-write") as one:
    one.run("echo x >/tmp/file; mkdir -p /tmp/a/b; ln -s " + sys.argv[3] + " /tmp/a/link; chmod 500 /tmp/a")
    print(one.sandbox._temporary(""), flush=True)
    sys.stdin.read()
"""


class Places:
    """A workspace and a temporary directory, in which sessions are begun in processes of their own."""

    def __init__(self, root: Path) -> None:
        self.work, self.tmp, self.precious = root / "work", root / "tmp", root / "precious"
        for place in (self.work, self.tmp, self.precious):
            place.mkdir()
        (self.precious / "file").write_text("kept")
        self.begun: list[subprocess.Popen[str]] = []

    def session(self) -> tuple[subprocess.Popen[str], Path]:
        """A process in which a command has run, and where the `/tmp` of that command is."""
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.work), WORKING[0], str(self.precious)],
            env={
                "PATH": "/usr/bin:/bin",
                "TMPDIR": str(self.tmp),
                "PYTHONPATH": os.pathsep.join(paths()),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.begun.append(process)
        assert process.stdout is not None
        place = Path(process.stdout.readline().strip())
        assert (place / "file").read_text() == "x\n"
        return process, place


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    """Places, whose processes end with the test."""
    made = Places(tmp_path)
    yield made
    for process in made.begun:
        process.kill()
        process.communicate()


def awaited(place: Path) -> None:
    """Until it is gone."""
    until = time.monotonic() + 60
    while os.path.lexists(place):
        assert time.monotonic() < until, list(place.iterdir())
        time.sleep(0.02)


@pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
def test_what_a_killed_process_leaves_is_removed_by_the_next(places: Places) -> None:
    """After SIGKILL the directory is there until another process begins; that of a living process stays, and what a link
    in it leads to."""
    killed, left = places.session()
    _, living = places.session()
    killed.kill()
    killed.wait()
    assert (left / "a" / "link").is_symlink()
    _, last = places.session()
    awaited(left)
    assert (living / "file").exists()
    assert (last / "file").exists()
    assert (places.precious / "file").read_text() == "kept"


def test_nothing_else_is_removed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, files, what others may use, what belongs to another user, and what another process holds stay; and what is
    this user's alone and nobody's does not."""
    monkeypatch.setattr("tempfile.tempdir", str(places.tmp))
    names = {
        name: places.tmp / f"{temporary.PREFIX}{name}"
        for name in ("link", "file", "open", "other", "held", "free")
    }
    names["link"].symlink_to(places.precious)
    names["file"].write_text("x")
    for name in ("open", "other", "held", "free"):
        names[name].mkdir(0o700)
        (names[name] / "x").write_text("x")
    names["open"].chmod(0o755)
    if ROOT_USER:
        os.chown(names["other"], OTHER, OTHER)
    else:
        names["other"].chmod(0o770)
    descriptor = temporary.lock_directory(str(names["held"]))
    assert descriptor >= 0
    temporary.remove_stale()
    os.close(descriptor)
    assert [name for name, path in names.items() if not os.path.lexists(path)] == ["free"]
    assert (places.precious / "file").exists()


def test_a_sweep_is_bounded(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are removed at once; the next process goes on."""
    monkeypatch.setattr("tempfile.tempdir", str(places.tmp))
    for number in range(temporary.MOST_SWEPT + 5):
        (places.tmp / f"{temporary.PREFIX}{number}").mkdir(0o700)
    temporary.remove_stale()
    assert len(list(places.tmp.iterdir())) == 5
    temporary.remove_stale()
    assert not list(places.tmp.iterdir())
