"""What a server can bear: a hundred sessions that stream at once, a client that reads nothing, a hundred on one session."""

from __future__ import annotations

import time
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.daemon import Daemon, serving
from bench.model import WORD, speaking
from bench.row import Row
from bench.watchers import Seen, Watchers, watching

from jaato.protocol.commands import MessageSend, SessionAttach, SessionCreate
from jaato.protocol.frames import Opened

SESSIONS = 100
WORDS = 300
A_SECOND = 30.0
LATE_S = 60.0


def p95(measured: list[float]) -> float:
    """The value that 95 of 100 keep below."""
    return sorted(measured)[int(len(measured) * 0.95)]


def until(watchers: Watchers, done: Callable[[Seen], bool]) -> Seen:
    """What was seen when it was enough. Raises `TimeoutError` when that does not come."""
    late = time.monotonic() + LATE_S
    while not done(seen := watchers.seen()):
        if time.monotonic() > late:
            raise TimeoutError(f"{seen}")
        time.sleep(0.05)
    return seen


def made(server: Daemon, count: int) -> list[str]:
    """The ids of new sessions that the model server answers."""
    with server.client() as client:
        command = SessionCreate(workspace=str(server.home), model="m", attach=False)
        opened = [client.ask(command) for _ in range(count)]
    return [one.session_id for one in opened if isinstance(one, Opened)]


def crowd() -> list[Row]:
    """A hundred sessions stream at once, each watched by a client of its own; somebody asks how the server is."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder, speaking(WORDS, A_SECOND) as url:
        with serving(Path(folder), url=url) as server:
            sessions = made(server, SESSIONS)
            with watching(server.path, SESSIONS, sessions) as watchers, server.client() as client:
                server.report()
                cpu, begun = server.cpu_s, time.perf_counter()
                for session_id in sessions:
                    client.ask(MessageSend(session_id=session_id, text="hi"))
                asked = []
                while min(watchers.seen().turns) < 1 and time.perf_counter() - begun < LATE_S:
                    for _ in range(5):
                        asked.append(server.health_s())
                        time.sleep(0.02)
                spent, wall = server.cpu_s - cpu, time.perf_counter() - begun
                seen = watchers.seen()
                held = server.report()
    print(held, wall, spent, len(asked), max(asked), sum(seen.events))
    lost = sum(chars != WORDS * len(WORD) for chars in seen.chars)
    return [
        Row(f"{SESSIONS} sessions stream {A_SECOND:g} words a second each: health, p95", p95(asked) * 1e3, "ms", 50, ""),
        Row("longest the loop was held meanwhile, CPU", held["held_s"] * 1e3, "ms", 50, ""),
        Row("a word of it from model to client, CPU of the server", spent / SESSIONS / WORDS * 1e6, "us", None, ""),
        Row("clients of it that miss a character", lost, "", 0, ""),
    ]


def rows() -> list[Row]:
    """The figures of a server under load."""
    return [*crowd()]
