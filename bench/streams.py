"""What a server can bear: a hundred sessions that stream at once, a client that reads nothing, a hundred on one session."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.daemon import Daemon, serving
from bench.model import WORD, speaking
from bench.row import Row
from bench.watchers import Seen, Watchers, watching

from jaato.protocol.commands import MessageSend, SessionAttach, SessionCreate
from jaato.protocol.events import MessageModel
from jaato.protocol.frames import Opened

SESSIONS = 100
WORDS = 300
A_SECOND = 30.0
MANY = 10_000
QUICK = 2_000.0
WATCHERS = 10
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


def first_turn(server: Daemon) -> float:
    """CPU seconds the loop is held at most for the first turn of a server."""
    (session_id,) = made(server, 1)
    server.report()
    with watching(server.path, 1, [session_id]) as watchers, server.client() as client:
        client.ask(MessageSend(session_id=session_id, text="hi"))
        until(watchers, lambda seen: min(seen.turns) > 0)
    return float(server.report()["held_s"])


def crowd() -> list[Row]:
    """A hundred sessions stream at once, each watched by a client of its own; somebody asks how the server is."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as folder,
        speaking(WORDS, A_SECOND) as url,
        serving(Path(folder), url=url) as server,
    ):
        sessions = made(server, SESSIONS)
        first = first_turn(server)
        with watching(server.path, SESSIONS, sessions) as watchers, server.client() as client:
            cpu, late, asked = server.cpu_s, time.monotonic() + LATE_S, []
            for session_id in sessions:
                client.ask(MessageSend(session_id=session_id, text="hi"))
            while min((seen := watchers.seen()).turns) < 1 and time.monotonic() < late:
                for _ in range(5):
                    asked.append(server.health_s())
                    time.sleep(0.02)
            each_us = (server.cpu_s - cpu) / SESSIONS / WORDS * 1e6
            held = server.report()
    lost = sum(chars != WORDS * len(WORD) for chars in seen.chars)
    name = f"{SESSIONS} sessions stream {A_SECOND:g} words a second each"
    return [
        Row(f"{name}: health, p95", p95(asked) * 1e3, "ms", 50, f"wall time, {len(asked)} requests"),
        Row("longest the loop was held for it, CPU", held["held_s"] * 1e3, "ms", 50, ""),
        Row(
            "longest it was held for the first turn there was, CPU",
            first * 1e3,
            "ms",
            None,
            "modules are loaded",
        ),
        Row("a word of it from model to client, CPU of the server", each_us, "us", 300, ""),
        Row("clients of it that miss a character", lost, "", 0, ""),
    ]


def stall() -> list[Row]:
    """Ten clients watch a session that streams, with and without one more that reads nothing."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as folder,
        speaking(MANY, QUICK) as url,
        serving(Path(folder), url=url) as server,
    ):
        streamed(server, WATCHERS)
        without, with_one, more_kb, lost = [], [], [], 0
        for _ in range(2):
            without.append(streamed(server, WATCHERS)[0])
            before = server.rss_kb
            spent, missed, behind = streamed(server, WATCHERS, stalled=True)
            with_one.append(spent)
            more_kb.append(server.status("VmHWM") - before)
            lost += missed + behind
    return [
        Row(
            "CPU of the same with a client stalled in mid-stream",
            min(with_one) / min(without),
            "times",
            1.1,
            f"without it; {MANY:,} words to {WATCHERS} clients",
        ),
        Row("memory the server takes for it", max(more_kb) / 1024, "MB", 8, "a ring of 4 MB at most"),
        Row("clients of it, the stalled one too, that miss a character", lost, "", 0, ""),
    ]


def streamed(server: Daemon, clients: int, *, stalled: bool = False) -> tuple[float, int, int]:
    """CPU seconds of a turn that so many watch, how many of them miss something, and whether the stalled one does."""
    (session_id,) = made(server, 1)
    with (
        watching(server.path, clients, [session_id]) as watchers,
        server.client() as client,
        server.client() as other,
    ):
        if stalled:
            other.ask(SessionAttach(session_id=session_id))
        cpu = server.cpu_s
        client.ask(MessageSend(session_id=session_id, text="hi"))
        seen = until(watchers, lambda seen: min(seen.turns) > 0)
        spent = server.cpu_s - cpu
        behind = 0
        if stalled:
            while (
                session_id not in other.states
                or other.states[session_id].open_turn
                or not other.states[session_id].turns
            ):
                other.receive()
                other.arrived()
            said = other.states[session_id].entries[-2]
            assert isinstance(said, MessageModel)
            behind = len(said.message.text) != MANY * len(WORD)
    return spent, sum(said != MANY * len(WORD) for said in seen.said), behind


def storm() -> list[Row]:
    """A hundred clients on one session that says all it has as fast as it can."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as folder,
        speaking(MANY, 0) as url,
        serving(Path(folder), url=url) as server,
    ):
        attached = []
        for count in (10, 100):
            (session_id,) = made(server, 1)
            cpu = server.cpu_s
            with watching(server.path, count, [session_id]):
                attached.append((server.cpu_s - cpu) / count * 1e3)
        streamed(server, 1)
        alone, _, _ = streamed(server, 1)
        before = server.rss_kb
        server.report()
        many, lost, _ = streamed(server, 100)
        held = server.report()
        more_mb = (server.status("VmHWM") - before) / 1024
    each_us = (many - alone) / 99 / MANY * 1e6
    return [
        Row(
            "100 clients come to one session, CPU of each",
            attached[1] / attached[0],
            "times",
            2,
            f"when 10 come: {attached[0]:.2g} ms",
        ),
        Row(
            f"{MANY:,} words at once to 100 clients of one session, CPU of each",
            each_us,
            "us",
            15,
            "their attaching not counted",
        ),
        Row("longest the loop was held for it, CPU", held["held_s"] * 1e3, "ms", 50, ""),
        Row("memory the server takes for it", more_mb, "MB", 32, ""),
        Row("clients of it that miss a character", lost, "", 0, ""),
    ]


def rows() -> list[Row]:
    """The figures of a server under load."""
    return [*crowd(), *stall(), *storm()]
