"""An isolated environment for the command line: home, workspace and scripts below one directory, real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cli.warm import warm
from tests.processes import alive

import jaato
from jaato.settings import environment

SOURCE = Path(jaato.__file__).parents[1]
"""What is tested: where this process has it from, which need not be the checkout."""
USAGE = {"input_tokens": 1000, "output_tokens": 20}
TIMEOUT_S = 60
PYTHON = {
    "PYTHONPATH": str(SOURCE),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "1",
    "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
}
JAATO = [sys.executable, "-m", "jaato"]


def say(text: str, **more: Any) -> dict[str, Any]:
    """A scripted reply of text."""
    return {"text": text, "usage": USAGE, **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A scripted reply that makes one call."""
    return {"calls": [{"name": name, "arguments": arguments}], "usage": USAGE}


class CliEnvironment:
    """One user's machine; `run` starts `jaato`, `script` writes what the scripted model says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.served = False
        """Whether a server runs."""
        self.home = root / "home"
        self.work = root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.state = self.home / ".local" / "state" / "jaato"
        self.config = self.home / ".config" / "jaato"
        self.env = {
            "HOME": str(self.home),
            "PATH": environment()["PATH"],
            **PYTHON,
            "OLLAMA_HOST": "127.0.0.1:9",
            "TERM": "dumb",
        }

    @property
    def command(self) -> list[str]:
        """How `jaato` is started."""
        return JAATO

    def script(self, *steps: dict[str, Any], name: str = "script.json") -> list[str]:
        """Flags for a model that says these steps."""
        path = self.root / name
        path.write_text(json.dumps(steps))
        return ["--provider", "scripted", "--model", str(path)]

    def run(
        self,
        *args: str,
        stdin: str | bytes | None = None,
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A finished `jaato`; without `stdin` it has none."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        env = {**self.env, **(environ or {})}
        if not prefix and self.forks(env):
            forked = warm().run(list(args), data=data, cwd=cwd or self.work, env=env, timeout_s=TIMEOUT_S)
            return subprocess.CompletedProcess(
                forked.args, forked.returncode, forked.stdout.decode(), forked.stderr.decode()
            )
        made = subprocess.run(
            [*prefix, *self.command, *args],
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            cwd=cwd or self.work,
            env=env,
            timeout=TIMEOUT_S,
            check=False,
        )
        return subprocess.CompletedProcess(
            made.args, made.returncode, made.stdout.decode(), made.stderr.decode()
        )

    def forks(self, env: Mapping[str, str]) -> bool:
        """Whether a process that has loaded `jaato` already can be forked: the interpreter would not differ."""
        own = {name: env[name] for name in env if name.startswith(("PYTHON", "LD_"))}
        return self.command == JAATO and own == PYTHON

    def start(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        """A running `jaato`."""
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        } | options
        if self.forks(self.env):
            return warm().start(args, cwd=self.work, env=self.env, **pipes)
        made: subprocess.Popen[bytes] = subprocess.Popen(
            [*self.command, *args], cwd=self.work, env=self.env, **pipes
        )
        return made

    @contextmanager
    def serving(self) -> Iterator[CliEnvironment]:
        """A server at the usual place, whose path is short, while the body runs; it has a log as `--daemon` gives it one."""
        with tempfile.TemporaryDirectory(prefix="jaato-") as runtime, ExitStack() as self._servers:
            self.env["XDG_RUNTIME_DIR"] = runtime
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.start_server()
            self.served = True
            try:
                yield self
            finally:
                self.run("serve", "--stop")

    def start_server(self) -> None:
        """Start a server, also again after one was killed; it is there afterwards, and `serving` stops it in the end."""
        log = self.state / "server.log"
        reading, writing = os.pipe()
        with os.fdopen(reading) as ready, log.open("ab") as out:
            process = warm().start(
                ["serve", "--idle-after", "300", "--log", str(log)],
                cwd=Path("/"),
                env={**self.env, "JAATO_READY_FD": "3"},
                more=(writing,),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            os.close(writing)
            said = ready.readline()
        self._servers.enter_context(process)
        self._servers.callback(process.kill)  # so that one that does not stop holds nobody up
        self._servers.callback(process.wait, TIMEOUT_S)
        assert "serving at" in said, log.read_text()

    def server_pid(self) -> int:
        """The process of the server that runs."""
        said = self.run("serve", "--status").stdout
        found = re.search(r"process (\d+)", said)
        assert found is not None, said
        return int(found[1])

    def kill_server(self) -> None:
        """End the server at once, as a crash would."""
        pid = self.server_pid()
        os.kill(pid, signal.SIGKILL)
        while alive(pid):
            time.sleep(0.01)

    def wait_for(self, name: str) -> None:
        """Wait until a file of the workspace exists."""
        until = time.monotonic() + TIMEOUT_S
        while not (self.work / name).exists():
            assert time.monotonic() < until, f"{name} was not made"
            time.sleep(0.01)

    def sessions(self) -> list[dict[str, Any]]:
        """What is stored."""
        found: list[dict[str, Any]] = json.loads(self.run("sessions", "list", "--json").stdout)
        return found

    def events(self, session_id: str) -> list[dict[str, Any]]:
        """The log of a session."""
        return [json.loads(line) for line in self.run("sessions", "export", session_id).stdout.splitlines()]
