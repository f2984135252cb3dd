"""A task of two hundred calls in a window of 16,000 tokens: what compaction saves, and that the task comes to its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from bench.row import Row

from jaato import Agent
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.account import count_fixed_chars
from jaato.agent.compaction.chars import chars_of
from jaato.errors import SessionNotFound
from jaato.protocol.events import Event, GcCompleted
from jaato.protocol.messages import Text, ToolCall, ToolResult, Usage
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.storage.sqlite import SqliteStore
from jaato.tools.call import Call
from jaato.tools.tool import tool

CALLS, WINDOW, RESULT_CHARS = 200, 16_000, 6_000
"""A result has 1,500 tokens of four characters."""
GOAL = (
    "Survey two hundred parts of the coast, one after the other. Never touch keel.txt. "
    "You must note every tenth part in log/. Always use metres."
)
LATER = "Go on where you were, and never stop before the end."
PLAN = ["survey the coast", "report"]
NUMBER = re.compile(r"(?:parts|log)/(\d{3})\.txt|part (\d{3})\b")


@tool(core=True, access="write")
def survey(path: str, *, call: Call) -> str:
    """Survey a part of the coast and write what was found to a file."""
    assert call.workspace is not None
    number = int(path[-7:-4])
    deaths = os.environ.get("BENCH_DEATHS", "").split(",")  # noqa: TID251 how a benchmark steers its child
    mark = call.workspace / f"died{number}"
    if str(number) in deaths and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    place = call.workspace / path
    place.parent.mkdir(exist_ok=True)
    with place.open("a") as file:
        file.write(f"surveyed {number}\n")
    return (f"part {number:03d}: " + "sand rock shoal depth 12 m " * 300)[:RESULT_CHARS]


def texts(request: ModelRequest) -> Iterator[str]:
    """Everything of a request that the model reads as text."""
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text():
                    yield part.text
                case ToolCall():
                    yield json.dumps(part.arguments)
                case ToolResult() if part.error is None:
                    yield from (item.text for item in part.content if isinstance(item, Text))


def size_of(request: ModelRequest) -> int:
    """The tokens of a request, four characters each."""
    chars = count_fixed_chars(request.system, request.tools) + sum(map(chars_of, request.messages))
    return chars // 4


class Sailor:
    """A model that knows nothing but its context: it goes on behind the highest part it reads of."""

    def __init__(self, inputs: Path) -> None:
        self._inputs = inputs
        self.last: ModelRequest | None = None

    def __call__(self, request: ModelRequest) -> Step:
        """The next call, or the end of the task; a summary is refused, so that the record stands alone."""
        tokens = size_of(request)
        with self._inputs.open("a") as file:
            file.write(f"{tokens}\n")
        usage = Usage(input_tokens=tokens, output_tokens=20)
        if request.purpose:
            return Step(finish_reason="refusal", usage=usage)
        self.last = request
        found = [int(one or other) for text in texts(request) for one, other in NUMBER.findall(text)]
        number = max(found, default=0) + 1
        if not found and not any(call for m in request.messages for call in m.function_calls):
            return Step(calls=[ScriptedCall("createPlan", {"title": "Coast", "steps": PLAN})], usage=usage)
        if number > CALLS:
            return Step(text="All parts are surveyed.", usage=usage)
        return Step(calls=[call_for(number)], usage=usage)


def call_for(number: int) -> ScriptedCall:
    """The call for a part: most survey it, each tenth runs a command and notes it."""
    if number % 20 == 10:
        return ScriptedCall(
            "run", {"command": f"mkdir -p log; seq 1 1300; echo part {number:03d} > log/{number:03d}.txt"}
        )
    return ScriptedCall("survey", {"path": f"parts/{number:03d}.txt"})


async def sail(root: Path, *, gc: str = "gc_hybrid") -> dict[str, Any]:
    """Begin the task, or go on with it where it was killed; what its last request looked like."""
    sailor = Sailor(root / "inputs")
    provider = ScriptedProvider([sailor] * 1_000)
    options: dict[str, Any] = {
        "provider": provider,
        "tools": [survey],
        "plugins": ("introspection", "todo", "cli"),
        "workspace": root / "work",
        "state_dir": root / "state",
        "sandbox": "full",
        "yes": True,
        "max_turns": None,
        "environ": {
            "JAATO_CONTEXT_LIMIT": str(WINDOW),
            "JAATO_GC": gc,
            "PATH": os.defpath,
            "HOME": str(root),
        },
    }
    (root / "work").mkdir(exist_ok=True)
    try:
        agent = Agent(**options, session="coast")
        await agent.__aenter__()
        prompt = LATER
    except SessionNotFound:
        agent = Agent(**options, name="coast")
        await agent.__aenter__()
        prompt = GOAL
    try:
        result = await agent.run(prompt)
        session_id = agent.live.state.session_id
        assert sailor.last is not None
        told = {
            "text": result.text,
            "context": list(texts(sailor.last)),
            "tools": [spec.name for spec in sailor.last.tools],
            "full": agent.live.model.context_usage.percent_used,
            "session": session_id,
        }
    finally:
        await agent.__aexit__(None, None, None)
    return told


def run_task(root: Path, *deaths: int, gc: str = "gc_hybrid") -> dict[str, Any]:
    """The task in processes of their own, which are killed at these parts; what the last one says of its context."""
    environ = {**os.environ, "BENCH_DEATHS": ",".join(map(str, deaths))}  # noqa: TID251 a child inherits it
    for _ in range(len(deaths) + 1):
        command = [sys.executable, "-m", "bench.context", str(root), gc]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        if done.returncode == 0:
            told: dict[str, Any] = json.loads(done.stdout)
            return told
        if done.returncode != -signal.SIGKILL:
            raise AssertionError(done.stderr)
    raise AssertionError("the task was killed more often than it was meant to be")


def inputs(root: Path) -> list[int]:
    """The tokens of each request of a task."""
    return [int(line) for line in (root / "inputs").read_text().split()]


def compactions(root: Path, session_id: str) -> list[GcCompleted]:
    """What was compacted in a task."""
    store = SqliteStore(root / "state" / "jaato.db")
    try:
        events = [event for event in store.read(session_id) if isinstance(event, Event)]
    finally:
        store.close()
    return [event for event in events if isinstance(event, GcCompleted)]


def rows() -> list[Row]:
    """The task with and without compaction, and what a compaction costs."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as one,
        tempfile.TemporaryDirectory(prefix="jaato-") as two,
    ):
        begun = time.perf_counter()
        told = run_task(Path(one), 71, 142)
        spent_s = time.perf_counter() - begun
        made = [event for event in compactions(Path(one), told["session"]) if event.problem is None]
        run_task(Path(two), gc="none")
        with_it, without = inputs(Path(one)), inputs(Path(two))
        notes = [path.read_text() for path in (Path(one) / "work" / "parts").iterdir()]
    twice = sum(note.count("\n") > 1 for note in notes)
    share = 100 * sum(with_it) / sum(without)
    against = (
        f"{sum(with_it):,} of {sum(without):,} tokens, killed twice, {len(made)} compactions, {spent_s:.3g} s"
    )
    return [
        Row(f"input of a task of {CALLS} calls, window {WINDOW:,}", share, "%", 25, against),
        Row("largest request of it", max(with_it) / WINDOW, "windows", 1, f"{max(with_it):,} tokens"),
        Row("parts of it that were surveyed twice", twice, "", 0, "by the files they were noted in"),
    ]


if __name__ == "__main__":
    print(json.dumps(anyio.run(lambda: sail(Path(sys.argv[1]), gc=sys.argv[2]))))
