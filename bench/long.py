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
ROUNDS = 3
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
    agent = AgentCreated(**head, seq=2, name="main", provider="p", model="m", system_prompt="x", core_tools=[])
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


def lengths() -> dict[int, tuple[Drawn, float, float]]:
    """By a log's length: how its session is drawn, and the CPU milliseconds of a page of its history and of the list."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        store = SqliteStore(state_of(home) / "jaato.db")
        ids = {length: filled(store, length, home) for length in LENGTHS}
        store.close()
        for length, session_id in ids.items():
            with serving(home) as server:
                first = drawn(server, session_id)
                cpu = server.cpu_s
                with server.client() as client:
                    for _ in range(ROUNDS):
                        page = client.ask(HistoryRequest(session_id=session_id, before_seq=400, limit=100))
                        assert isinstance(page, History)
                        assert len(page.events) == 100
                    paged = (server.cpu_s - cpu) / ROUNDS
                    cpu = server.cpu_s
                    for _ in range(ROUNDS):
                        client.ask(SessionList())
                    found[length] = (first, paged * 1e3, (server.cpu_s - cpu) / ROUNDS * 1e3)
    return found
def rows():
    for length, one in lengths().items(): print(length, one)
    return []
