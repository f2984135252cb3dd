"""The process that runs `jaato` often (`zygote`), started and ended, and a user's machine on which it runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mcp.zygote import Done

from jaato.settings import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE_S = 120.0


@contextmanager
def playing(folder: Path) -> Iterator[Path]:
    """The socket of a process that waits for commands."""
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {HERE / "browser.py"} "$1"\n')
    browser.chmod(0o755)
    path = folder / "socket"
    variables = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mcp.zygote", str(path), str(browser)],
            cwd=ROOT,
            env={"PATH": environment()["PATH"], **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + PATIENCE_S
            while "ready" not in (folder / "log").read_text():
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.02)
            yield path
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait(PATIENCE_S)


class Machine:
    """One user's machine: a home, a workspace, and `jaato` to run there."""

    def __init__(self, root: Path, path: Path) -> None:
        self.root, self.home, self.work = root, root / "home", root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.state = self.home / ".local" / "state" / "jaato"
        self._path = str(path)

    def run(self, *argv: str, stdin: str = "") -> Done:
        """A finished `jaato`; without `stdin` it has an empty one."""
        asked = {"argv": argv, "home": str(self.home), "work": str(self.work), "stdin": stdin}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(self._path)
            with connection.makefile("rw") as stream:
                stream.write(json.dumps(asked) + "\n")
                stream.flush()
                return Done(*json.loads(stream.readline()))
