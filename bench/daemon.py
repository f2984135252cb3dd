"""A real server in a process of its own, measured from outside, and clients of it in another process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.startup import environ_for

from jaato.client.blocking import Client
from jaato.protocol.commands import SessionCreate

NOWHERE = "http://127.0.0.1:9/v1"
LATE_S = 60.0
ROOT = Path(__file__).parents[1]


class Daemon:
    """A server: its process, its socket and what it costs."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self.pid = process.pid
        self.home = home
        self.path = home / "jaato/jaato.sock"
        self.begun_cpu_s = self.cpu_s
        self.script = home / "script.json"

    @property
    def cpu_s(self) -> float:
        """CPU seconds used by now, to the nanosecond."""
        return (
            sum(
                int(task.read_text().split()[0])
                for task in Path(f"/proc/{self.pid}/task").glob("*/schedstat")
            )
            / 1e9
        )

    def status(self, name: str) -> int:
        """A number of the process's status: `VmRSS` and `VmHWM` in kB, `Threads`."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))

    @property
    def rss_kb(self) -> int:
        """Resident memory, in kB."""
        return self.status("VmRSS")

    def forget_peak(self) -> None:
        """Let the peak of memory begin with what is used now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def report(self) -> dict[str, Any]:
        """What an observed server says of itself since it was last asked."""
        path = self.home / "report.json"
        path.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        late = time.monotonic() + LATE_S
        while not path.exists() and time.monotonic() < late:
            time.sleep(0.01)
        told: dict[str, Any] = json.loads(path.read_text())
        return told

    def client(self) -> Client:
        """A client, to be used with `with`."""
        return Client(self.path)

    def new(self, **fields: Any) -> SessionCreate:
        """The command for a session answered by the script."""
        return SessionCreate(workspace=str(self.home), provider="scripted", model=str(self.script), **fields)

    def health_s(self) -> float:
        """Seconds until `/health` is answered, on a connection of its own."""
        begun = time.perf_counter()
        asking = http.client.HTTPConnection("jaato")
        asking.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        asking.sock.connect(str(self.path))
        asking.request("GET", "/health")
        with asking.getresponse() as answer:
            assert answer.status == 200
            answer.read()
        spent = time.perf_counter() - begun
        asking.close()
        return spent


@contextmanager
def serving(
    home: Path,
    *arguments: str,
    url: str = NOWHERE,
    script: list[dict[str, Any]] | None = None,
    observed: bool = True,
) -> Iterator[Daemon]:
    """A server in this home; what the scripted model says is one word where nothing else is given."""
    (home / "script.json").write_text(json.dumps(script or [{"text": "ok"}] * 20))
    environ = environ_for(home, url) | {"XDG_RUNTIME_DIR": str(home)}
    environ["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    reading, writing = os.pipe()
    program = ["-m", "bench.observed", str(home / "report.json")] if observed else ["-m", "jaato", "serve"]
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        env={**environ, "JAATO_READY_FD": str(writing)},
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as ready:
            if not ready.readline():
                raise RuntimeError("The server has not begun.")
        yield Daemon(process, home)
    finally:
        process.terminate()
        process.wait()
