"""Long sessions and many stored ones, over the real protocol: what a log's length and a store's size cost."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.daemon import Daemon, serving
from bench.row import Row
from bench.streams import p95

from jaato.protocol.commands import HistoryRequest, SessionList
from jaato.protocol.events import (
    AgentCreated,
    Event,
    MessageModel,
    MessageUser,
    SessionCreated,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.frames import History, Sessions
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult, Usage
from jaato.storage.sqlite import SqliteStore

LENGTHS = (1_000, 10_000, 100_000)
STORED = 10_000
ROUNDS = 40
TRIES = 3
ASKED = 200
DRAW = """
import json, resource, sys, time
from jaato.client.blocking import Client
from jaato.protocol.commands import SessionAttach
with Client(sys.argv[1]) as client:
    begun, cpu = time.perf_counter(), time.process_time()
    client.ask(SessionAttach(session_id=sys.argv[2]))
    while sys.argv[2] not in client.states:
        client.receive()
    spent, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([spent, cpu, peak, client.states[sys.argv[2]].seq]))
"""


class Drawn(NamedTuple):
    """What it took to attach to a session: at the client in seconds and kB, and at the server."""

    wall_s: float
    client_cpu_s: float
    client_kb: int
    server_cpu_s: float
    server_kb: int
    held_s: float


def turn(head: dict[str, Any], seq: int) -> Iterator[Event]:
    """The events of one turn with one call."""
    turn_id, call_id, name = f"t{seq}", f"c{seq}", "readFile"
    asked = Message("user", [Text(f"question {seq} " * 5)], id=f"u{seq}")
    called = Message("assistant", [ToolCall(call_id, name, {"path": "a.py"})], id=f"m{seq}")
    said = Message("assistant", [Text("an answer of some length " * 12)], id=f"n{seq}")
    result = ToolResult(call_id, name, True, [Text("a line of a file\n" * 20)])
    yield MessageUser(**head, seq=seq, message=asked, turn_id=turn_id)
    yield MessageModel(**head, seq=seq + 1, message=called, turn_id=turn_id, finish_reason="tool_calls")
    yield ToolCallStart(**head, seq=seq + 2, call_id=call_id, tool=name, arguments={"path": "a.py"})
    yield ToolCallEnd(**head, seq=seq + 3, call_id=call_id, tool=name, result=result, duration_s=0.1)
    yield MessageModel(**head, seq=seq + 4, message=said, turn_id=turn_id, finish_reason="stop")
    yield TurnCompleted(
        **head,
        seq=seq + 5,
        turn_id=turn_id,
        reason="stop",
        usage=Usage(),
        model_calls=2,
        tool_calls=1,
        duration_s=1.0,
    )


def filled(store: SqliteStore, events: int, workspace: Path) -> str:
    """A stored session of about so many events."""
    session_id, agent_id = new_id("s"), new_id("a")
    head: dict[str, Any] = {"session_id": session_id, "agent_id": agent_id}
    agent = AgentCreated(
        **head, seq=2, name="main", provider="p", model="m", system_prompt="x", core_tools=[]
    )
    with_lease = store.lease(session_id, "bench")
    assert with_lease
    store.create([SessionCreated(**head, seq=1, workspace=str(workspace)), agent])
    held: list[Event] = []
    for seq in range(3, events - 5, 6):
        held += turn(head, seq)
        if len(held) > 1_000:
            store.append(held)
            held = []
    if held:
        store.append(held)
    store.release(session_id)
    return session_id


def state_of(home: Path) -> Path:
    """Where a server in this home keeps its sessions."""
    made = home / ".local/state/jaato"
    made.mkdir(parents=True, mode=0o700)
    return made


def drawn(server: Daemon, session_id: str) -> Drawn:
    """Attach to a session from a process of its own."""
    server.report()
    before, cpu = server.rss_kb, server.cpu_s
    server.forget_peak()
    done = subprocess.run(
        [sys.executable, "-c", DRAW, str(server.path), session_id], capture_output=True, text=True, check=True
    )
    spent, client_cpu, peak_kb, _ = json.loads(done.stdout)
    cpu = server.cpu_s - cpu
    more_kb = server.status("VmHWM") - before
    return Drawn(spent, client_cpu, peak_kb, cpu, more_kb, server.report()["held_s"])


class Cost(NamedTuple):
    """What a session costs those who look at it: the first time, after a new start, and CPU ms of a page of its history
    and of the list it stands in."""

    first: Drawn
    again: Drawn
    page_ms: float
    list_ms: float


def cost(home: Path, session_id: str) -> Cost:
    """Look at a stored session."""
    with serving(home) as server:
        first = drawn(server, session_id)
    with serving(home) as server:
        again = drawn(server, session_id)
        with server.client() as client:
            client.ask(SessionList())
            cpu = server.cpu_s
            for _ in range(ROUNDS):
                page = client.ask(HistoryRequest(session_id=session_id, before_seq=400, limit=100))
                assert isinstance(page, History)
                assert len(page.events) == 100
            page_ms = (server.cpu_s - cpu) / ROUNDS * 1e3
            cpu = server.cpu_s
            for _ in range(ROUNDS):
                client.ask(SessionList())
            list_ms = (server.cpu_s - cpu) / ROUNDS * 1e3
    return Cost(first, again, page_ms, list_ms)


def long() -> list[Row]:
    """Sessions of a thousand, ten thousand and a hundred thousand events."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        store = SqliteStore(state_of(home) / "jaato.db")
        ids = {length: filled(store, length, home) for length in LENGTHS}
        more = [filled(store, LENGTHS[1], home) for _ in range(TRIES)]
        store.close()
        short, middle, great = [cost(home, ids[length]) for length in LENGTHS]
        with serving(home) as server:
            paints = [drawn(server, session_id).wall_s for session_id in more]
    least, most = f"{LENGTHS[0]:,} events", f"{LENGTHS[-1]:,} events"
    paint = f"attach to {LENGTHS[1]:,} events, first paint"
    return [
        Row(paint, min(paints) * 1e3, "ms", 300, f"wall time, least of {TRIES}, each the first time"),
        Row("CPU of the server for it", middle.first.server_cpu_s * 1e3, "ms", 300, ""),
        Row("CPU of the client for it", middle.first.client_cpu_s * 1e3, "ms", 30, ""),
        Row(
            f"attach to {most} for the first time, CPU of the server", great.first.server_cpu_s, "s", None, ""
        ),
        Row("longest the loop is held for it, CPU", great.first.held_s * 1e3, "ms", 50, ""),
        Row(
            f"attach to {most} later, CPU of the server",
            great.again.server_cpu_s * 1e3,
            "ms",
            50,
            f"after a new start; {short.again.server_cpu_s * 1e3:.2g} ms for {least}",
        ),
        Row(
            "memory the server takes for it",
            great.first.server_kb / 1024,
            "MB",
            6,
            f"{middle.first.server_kb / 1024:.2g} MB for {LENGTHS[1]:,}",
        ),
        Row(
            "peak memory of the client, a log of " + most,
            great.first.client_kb / short.first.client_kb,
            "times",
            1.1,
            least,
        ),
        Row(
            "a page of the history, a log of " + most,
            great.page_ms / short.page_ms,
            "times",
            1.5,
            f"{least}: {short.page_ms:.2g} ms CPU",
        ),
        Row(
            "the list, a log of " + most,
            great.list_ms / short.list_ms,
            "times",
            1.5,
            f"{least}: {short.list_ms:.2g} ms CPU",
        ),
    ]


def many() -> list[Row]:
    """Ten thousand stored sessions."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        store = SqliteStore(state_of(home) / "jaato.db")
        for _ in range(STORED):
            filled(store, 2, home)
        store.close()
        walls = []
        for _ in range(TRIES - 1):
            begun = time.perf_counter()
            with serving(home, observed=False):
                walls.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with serving(home, observed=False) as server:
            wall_s, cpu_s = time.perf_counter() - begun, server.cpu_s
            with server.client() as client:
                asked = []
                for _ in range(ASKED):
                    begun = time.perf_counter()
                    found = client.ask(SessionList())
                    asked.append(time.perf_counter() - begun)
                    assert isinstance(found, Sessions)
                    assert len(found.sessions) == 50
                begun, pages, listed, cursor = time.perf_counter(), 0, 0, None
                cpu = server.cpu_s
                while pages == 0 or cursor:
                    found = client.ask(SessionList(limit=500, cursor=cursor))
                    assert isinstance(found, Sessions)
                    pages, listed, cursor = pages + 1, listed + len(found.sessions), found.cursor
                page_ms = (server.cpu_s - cpu) / pages * 1e3
    stored = f"{STORED:,} stored sessions"
    return [
        Row(
            f"a server starts on {stored}",
            min(*walls, wall_s),
            "s",
            1,
            f"wall time, least of {TRIES}; {cpu_s:.2g} s CPU",
        ),
        Row(f"the list of {stored}, p95", p95(asked) * 1e3, "ms", 50, f"wall time, {ASKED} requests"),
        Row("all of it, CPU of the server for a page of 500", page_ms, "ms", 50, f"{pages} pages"),
        Row("sessions missing in it", STORED - listed, "", 0, ""),
    ]


def rows() -> list[Row]:
    """The figures of long sessions and many."""
    return [*long(), *many()]
