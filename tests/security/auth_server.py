"""What the tests of who may come in share: the server as a process, with tokens of every kind, and raw sockets to it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from tests.cli.warm import warm

from jaato.client.websocket import CLOSE, TEXT, Closed, Frames, frame
from jaato.server.auth.tokens import add_token, remove_token
from jaato.settings import environment

ROOT = Path(__file__).parents[2]
KEY = base64.b64encode(bytes(16)).decode()
WAIT_S = 60.0


class Keep:
    """One user's server: its socket, its port and its tokens, by what is the matter with them."""

    is_forked = True
    """Whether it comes from a process that has loaded jaato; not where what it loads, or how it starts, is looked at."""

    def __init__(self, root: Path, *flags: str, other: Keep | None = None, **environ: str) -> None:
        self.home = root / "home"
        self.work = root / "work"
        self.path = root / "run" / "jaato.sock"
        for one in (self.home, self.work):
            one.mkdir(parents=True)
        self.state = self.home / ".local" / "state" / "jaato"
        self.env = {
            "HOME": str(self.home),
            "PATH": environment()["PATH"],
            "JAATO_SANDBOX": "full",  # the tests look for processes by their ids outside
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.KeyVerifier",
            **environ,
        }
        self.tokens: dict[str, str] = {}
        for role in ("viewer", "approver"):
            self.tokens[role] = add_token(self.state, role, role, None)
        self.tokens["expired"] = add_token(self.state, "late", "owner", time.time() - 1)
        self.tokens["removed"] = add_token(self.state, "gone", "owner", None)
        remove_token(self.state, "gone")
        self.flags = ("--ipc-socket", str(self.path), *flags)
        self.start()
        self.tokens["another user's"] = (
            other.tokens["owner"] if other else base64.b64encode(os.urandom(32)).decode()
        )

    def command(self, *flags: str) -> list[str]:
        """How `jaato serve` is started by an interpreter of its own."""
        return [sys.executable, "-m", "jaato", "serve", *flags]

    def start(self) -> None:
        """Serve, and know where."""
        streams: dict[str, Any] = {"cwd": self.work, "env": self.env, "stderr": subprocess.PIPE, "text": True}
        self.process: subprocess.Popen[str] = (
            cast("subprocess.Popen[str]", warm().start(["serve", *self.flags], **streams))
            if self.is_forked
            else subprocess.Popen(self.command(*self.flags), **streams)
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        assert "serving at" in self.said, self.said + self.process.stderr.read()
        found = re.search(r"wss?://[^ ]*:(\d+)", self.said)
        self.port = int(found[1]) if found else 0
        if found:
            self.tokens["owner"] = (self.state / "server-token").read_text().strip()

    def run(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A finished `jaato` of this user."""
        done = warm().run(list(args), data=None, cwd=cwd or self.work, env=self.env, timeout_s=60)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def log(self, session_id: str) -> list[dict[str, Any]]:
        """What is recorded of a session."""
        done = self.run("sessions", "export", session_id)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def scripted(self, *steps: dict[str, Any]) -> dict[str, Any]:
        """What `session.create` takes for a session whose model says these steps."""
        path = self.work / f"script{len(steps)}.json"
        usage = {"input_tokens": 1, "output_tokens": 1}
        path.write_text(
            json.dumps([{"usage": usage, **step} for step in steps] or [{"text": "Yes.", "usage": usage}])
        )
        return {"workspace": str(self.work), "provider": "scripted", "model": str(path)}

    def stop(self) -> tuple[int, str]:
        """End it as an operator does; its exit code and what it has said."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    @property
    def peak_kb(self) -> int:
        """The most memory it has ever had."""
        return int(Path(f"/proc/{self.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0])

    # --- HTTP ----------------------------------------------------------------------------------------------------

    def dial(self, who: int = 1) -> socket.socket:
        """A TCP connection, from an address of loopback of its own: failures are counted by address."""
        source = (f"127.0.{who >> 8 & 255}.{who & 255}", 0)
        made = socket.create_connection(("127.0.0.1", self.port), WAIT_S, source_address=source)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def head(
        self,
        path: str = "/health",
        *more: str,
        method: str = "GET",
        token: str | None = None,
        **changed: str | None,
    ) -> bytes:
        """The head of a request, but for what is changed or left out (None)."""
        headers: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, *more, "", ""]).encode("latin-1")

    def ask(self, data: bytes, who: int = 1) -> bytes:
        """What the server says to these bytes, until its answer is whole or it hangs up."""
        with closing(self.dial(who)) as line:
            try:
                line.sendall(data)
            except OSError:
                pass
            return answer(line)

    def upgrade(
        self,
        *more: str,
        path: str = "/v1/connect",
        token: str | None = None,
        **changed: Any,
    ) -> bytes:
        """The head that asks for a WebSocket."""
        wanted = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": KEY,
            "Sec-WebSocket-Version": "13",
        }
        lines = [f"{name}: {value}" for name, value in wanted.items()]
        return self.head(path, *lines, *more, method="GET", token=token, **changed)

    # --- WebSocket -----------------------------------------------------------------------------------------------

    @contextmanager
    def socket(
        self, token: str | None = None, who: int = 1, *, unix: bool = False, **changed: Any
    ) -> Iterator[Line]:
        """A WebSocket that has said nothing yet."""
        if unix:
            raw = socket.socket(socket.AF_UNIX)
            raw.settimeout(WAIT_S)
            raw.connect(str(self.path))
        else:
            raw = self.dial(who)
        with closing(raw):
            raw.sendall(self.upgrade(token=token, **changed))
            said = answer(raw)
            assert status(said) == 101, said
            yield Line(raw)

    @contextmanager
    def client(self, token: str | None = None, who: int = 1, *, unix: bool = False) -> Iterator[Line]:
        """One that is let in."""
        with self.socket(token, who, unix=unix) as line:
            line.hello()
            yield line

    def serves(self) -> bool:
        """Whether another client is served now."""
        with self.client(self.tokens["owner"], who=9_999) as line:
            return "result" in line.command("session.list")


class Line:
    """A WebSocket, frame by frame."""

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        self._frames = Frames()
        self._told: list[bytes | Closed] = []
        self._ids = 0

    def send(self, message: Any) -> None:
        """One text frame: JSON of a value, or these very bytes."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.raw.sendall(frame(TEXT, data))

    def receive(self) -> Any:
        """The next message, or how the connection was closed."""
        while not self._told:
            try:
                data = self.raw.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return Closed(1006, "")
            self._told = self._frames.take(data)
            for due in self._frames.due:
                try:
                    self.raw.sendall(due)
                except OSError:
                    pass
            self._frames.due.clear()
        told = self._told.pop(0)
        return told if isinstance(told, Closed) else msgspec.json.decode(told)

    def hello(self, **more: Any) -> dict[str, Any]:
        """The welcome."""
        self.send({"type": "hello", "protocol": 1, **more})
        said: dict[str, Any] = self.receive()
        assert isinstance(said, dict), said
        assert said["type"] == "welcome"
        return said

    def command(self, type: str, **fields: Any) -> dict[str, Any]:  # noqa: A002 the field's name
        """The reply to a command, past the events before it."""
        self._ids += 1
        self.send({"type": type, "id": str(self._ids), **fields})
        while True:
            said = self.receive()
            assert isinstance(said, dict), said
            if said["type"] == "reply" and said.get("id") == str(self._ids):
                return said

    def closed(self) -> Closed:
        """How it ends, whatever comes before."""
        while not isinstance(said := self.receive(), Closed):
            pass
        return said

    def leave(self) -> None:
        """Say goodbye."""
        self.raw.sendall(frame(CLOSE, (1000).to_bytes(2, "big")))


def answer(line: socket.socket) -> bytes:
    """One HTTP answer, as far as it comes."""
    said = b""
    try:
        while piece := line.recv(65_536):
            said += piece
            head, found, body = said.partition(b"\r\n\r\n")
            if found and head.startswith(b"HTTP/1.1 101"):
                break
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if found and length and len(body) >= int(length[1]):
                break
    except (ConnectionResetError, TimeoutError):
        pass
    return said


def status(said: bytes) -> int:
    """The status of an answer, 0 for none."""
    return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0


def awaited(found: Any, within_s: float = 60.0) -> Any:
    """What a function gives as soon as it gives something."""
    until = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < until, "it has not come about"
        time.sleep(0.02)
    return value


def descriptors(keep: Keep) -> int:
    """How many descriptors the server has open."""
    return len(os.listdir(f"/proc/{keep.process.pid}/fd"))
