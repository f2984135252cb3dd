"""What opening a stored session costs, and that its blobs do not count."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.row import Row

from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.protocol.events import (
    AgentCreated,
    Event,
    MessageModel,
    MessageUser,
    SessionCreated,
    ToolCallEnd,
    ToolCallStart,
)
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.storage.sqlite import SqliteStore

EVENTS = 10_000
SESSION = "s01M8000000000000000000000000"[:27]

CHILD = """
import resource, sys
from pathlib import Path
from typing import Any
from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.storage.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
journal = Journal(store, State())
journal.load(sys.argv[2])
store.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def fill(store: SqliteStore, blob_bytes: int) -> None:
    """A session of `EVENTS` events; a hundred of its results stand for blobs of this size."""
    head: dict[str, Any] = {"session_id": SESSION, "agent_id": "a1"}
    first = AgentCreated(
        **head, seq=2, name="main", provider="p", model="m", system_prompt="x", core_tools=[]
    )
    store.create([SessionCreated(**head, seq=1, workspace="/"), first])
    handles = ["result:" + store.put_blob(SESSION, bytes([n % 256]) * (blob_bytes + n)) for n in range(100)]
    seq = 3
    while seq < EVENTS:
        n = seq // 5
        events: list[Event] = []

        def at(offset: int) -> dict[str, Any]:
            return {**head, "seq": seq + offset}  # noqa: B023 called in this round only

        user = Message("user", [Text(f"question {n}")], id=f"u{n}")
        asked = Message("assistant", [ToolCall(f"c{n}", "readFile", {"path": "a"})], id=f"m{n}")
        answer = Message("assistant", [Text("an answer " * 8)], id=f"n{n}")
        result = ToolResult(f"c{n}", "readFile", True, [Text("line\n" * 20)], handle=handles[n % 100])
        events += [
            MessageUser(**at(0), message=user, turn_id=f"t{n}"),
            MessageModel(**at(1), message=asked, turn_id=f"t{n}", finish_reason="tool_calls"),
            ToolCallStart(**at(2), call_id=f"c{n}", tool="readFile", arguments={"path": "a"}),
            ToolCallEnd(**at(3), call_id=f"c{n}", tool="readFile", result=result, duration_s=0.1),
            MessageModel(**at(4), message=answer, turn_id=f"t{n}", finish_reason="stop"),
        ]
        store.append(events)
        seq += len(events)


def open_cost(path: Path) -> float:
    """CPU milliseconds from the closed file to the folded state."""
    begun = time.process_time()
    store = SqliteStore(path)
    journal = Journal(store, State())
    journal.load(SESSION)
    cost = (time.process_time() - begun) * 1e3
    assert len(journal.state.messages) > EVENTS * 0.6
    store.close()
    return cost


def memory(path: Path) -> float:
    """Peak memory of a process that opens the session, in MB."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), SESSION], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


def rows() -> list[Row]:
    """The figures of this file."""
    with tempfile.TemporaryDirectory() as directory:
        small, large = Path(directory) / "small" / "jaato.db", Path(directory) / "large" / "jaato.db"
        for path, size in ((small, 1_000), (large, 1_000_000)):
            path.parent.mkdir()
            store = SqliteStore(path)
            fill(store, size)
            store.close()
        cost = min(open_cost(large) for _ in range(5))
        ratio = memory(large) / memory(small)
    return [
        Row("opening a session of 10,000 events, folded", cost, "ms CPU", 100, "100 blobs of 1 MB beside it"),
        Row("peak memory of that, blobs of 1 MB", ratio, "times", 1.05, "blobs of 1 kB"),
    ]
