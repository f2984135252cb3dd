"""`jaato acp` for an editor: CPU to its first response, of a streamed piece, of the way back, and a long session's memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from bench.daemon import Daemon, serving
from bench.long import filled, state_of
from bench.row import Row
from bench.startup import environ_for

from jaato.storage.sqlite import SqliteStore

SIZES = (100, 1_000, 10_000)
PIECES = 5_000
TRIES = 3
STORY: list[dict[str, Any]] = [{"text": "word " * PIECES, "chunks": PIECES}, {"text": "Back."}]


class Editor:
    """The process of an editor's agent, and the lines between both."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self._process = process
        self._home = home
        self._ids = 0

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process by now."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def memory_mb(self) -> float:
        """What the process holds."""
        return float(psutil.Process(self._process.pid).memory_info().rss) / 2**20

    def send(self, method: str, **params: Any) -> None:
        """Send a request."""
        self._ids += 1
        request = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def read(self) -> tuple[Any, int]:
        """The response to the last request, and how many updates with text came before it."""
        assert self._process.stdout is not None
        pieces = 0
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._ids and "method" not in message:
                if "error" in message:
                    raise RuntimeError(str(message["error"]))
                return message["result"], pieces
            pieces += b"agent_message_chunk" in line
        raise RuntimeError("The agent has ended.")

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        self.send(method, **params)
        return self.read()[0]

    def prompt(self, session_id: str, text: str) -> int:
        """Send a prompt; how many updates with text its answer was sent in."""
        self.send("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])
        return self.read()[1]

    def wait_for_log(self, text: str) -> None:
        """Wait until the agent has logged a text."""
        assert self._process.stderr is not None
        while text.encode() not in self._process.stderr.readline():
            pass


@contextmanager
def editing(server: Daemon) -> Iterator[Editor]:
    """An agent at a server, which has agreed on the version."""
    words = [sys.executable, "-m", "jaato", "acp", "--connect", str(server.path)]
    words += ["--provider", "scripted", "--model", str(server.script)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, env=environ_for(server.home, ""), cwd=server.home, **pipes) as process:
        made = Editor(process, server.home)
        made.ask("initialize", protocolVersion=1)
        yield made
        process.kill()


def spent(editor: Editor, work: Callable[[], object]) -> float:
    """CPU seconds of the agent for something."""
    before = editor.cpu_s
    work()
    return editor.cpu_s - before


def first_response(server: Daemon) -> Row:
    """The least CPU of a new process until it has answered `initialize`."""
    found = []
    for _ in range(TRIES):
        with editing(server) as editor:
            found.append(editor.cpu_s)
    return Row(
        "editor: first response, CPU", min(found), "s", 1.5, f"least of {TRIES}, with the server's client"
    )


def stream_and_return(home: Path) -> list[Row]:
    """A streamed answer, and the way back to a server that was killed and started again."""
    with serving(home, script=STORY, observed=False) as server, editing(server) as editor:
        session_id = editor.ask("session/new", cwd=str(home), mcpServers=[])["sessionId"]
        before = editor.cpu_s
        pieces = editor.prompt(session_id, "Tell a story.")
        each_us = (editor.cpu_s - before) / max(pieces, 1) * 1e6
        before = editor.cpu_s
        psutil.Process(server.pid).kill()
        editor.wait_for_log("lost the connection")
        with serving(home, script=STORY, observed=False):
            editor.wait_for_log("reconnected")
            editor.prompt(session_id, "Are you there?")
            back = editor.cpu_s - before
    return [
        Row(
            "editor: an update with text, CPU",
            each_us,
            "us",
            1_000,
            f"{pieces:,} of {PIECES:,} pieces, others joined",
        ),
        Row("editor: updates with text in a second of its CPU", 1e6 / each_us, "", None, ""),
        Row("editor: back at a server after kill -9, with a prompt, CPU", back, "s", 0.5, ""),
    ]


def long_sessions(home: Path) -> list[Row]:
    """Loading sessions of some sizes, each in a new process."""
    store = SqliteStore(state_of(home) / "jaato.db")
    ids = {size: filled(store, size, home) for size in SIZES}
    store.close()
    rows = []
    with serving(home, observed=False) as server:
        rows.append(first_response(server))
        for size, session_id in ids.items():
            with editing(server) as editor:
                cpu = spent(
                    editor,
                    lambda: editor.ask("session/load", sessionId=session_id, cwd=str(home), mcpServers=[]),  # noqa: B023 it is called at once
                )
                rows += [
                    Row(f"editor: load {size:,} events, CPU for each", cpu / size * 1e6, "us", None, ""),
                    Row(f"editor: memory at {size:,} events", editor.memory_mb, "MB", 150, ""),
                ]
    return rows


def rows() -> list[Row]:
    """All figures of editors."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        first = long_sessions(Path(folder))
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        return [*first, *stream_and_return(Path(folder))]
