"""The full-screen client: its start, a frame and a key at 100, 1,000 and 10,000 events, and a stream of 500 pieces a second."""

from __future__ import annotations

import gc
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from bench.daemon import serving
from bench.row import Row
from bench.startup import environ_for
from tests.tui.tmux import pane

from jaato.cli.arguments.parser import make_parser
from jaato.protocol.events import AgentOutput, Event, MessageModel, MessageUser, TurnCompleted
from jaato.protocol.frames import Opened
from jaato.protocol.messages import Message, Text, Usage
from jaato.settings import environment
from jaato.tui.app import FullScreenClient
from jaato.tui.command import make_app

ROOT = Path(__file__).parents[1]
COUNTS = (100, 1_000, 10_000)
KEYS = 60
FENCE = (
    "```python\n"
    + "".join(f"def f{number}(x):\n    return x + {number}\n" for number in range(520))
    + "```\n"
)
START = """
import os, time
from jaato.cli.arguments.parser import make_parser
from jaato.tui.command import make_app
args = make_parser("tui").parse_args(["tui", "--connect", "/nonexistent/none.sock"])
app = make_app(args)
def painted():
    print(time.process_time(), flush=True)
    os._exit(0)
async def main():
    async with app.run_test(size=(80, 24)) as pilot:
        painted()
import asyncio
asyncio.run(main())
"""


def rows() -> list[Row]:
    """All figures, in CPU time."""
    return [first_paint(), *reconnection(), *measure_apart()]


def measure_apart() -> list[Row]:
    """The figures of a client in a process of its own, whose memory is not that of other benchmarks."""
    code = "import asyncio, json; from bench.tui import measure; print(json.dumps(asyncio.run(measure())))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env=environment())
    return [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])]


def reconnection() -> list[Row]:
    """CPU of the client from the loss of a killed server until it is back; none without tmux."""
    if shutil.which("tmux") is None:
        return []
    with tempfile.TemporaryDirectory(prefix="jaato-") as made:
        home = Path(made)
        with serving(home, observed=False) as server:
            with server.client() as client:
                opened = client.ask(server.new())
            assert isinstance(opened, Opened)
            words = [sys.executable, "-m", "jaato", "attach", "--full-screen", opened.session_id]
            environ = environ_for(home, "") | {"TERM": "xterm-256color"}
            with pane([*words, "--connect", str(server.path)], cwd=home, env=environ) as shown:
                shown.see("ready")
                shell = psutil.Process(int(shown.ask("display-message", "-p", "#{pane_pid}")))
                (process,) = shell.children()
                before = sum(process.cpu_times()[:2])
                psutil.Process(server.pid).kill()
                shown.see("reconnecting")
                with serving(home, observed=False):
                    shown.see("ready")
                    spent = sum(process.cpu_times()[:2]) - before
    return [
        Row("terminal client: back at a server after kill -9, CPU", spent, "s", 2.0, "its spinner included")
    ]


def first_paint() -> Row:
    """CPU of a new process until its screen is painted, best of three."""
    best = min(
        float(
            subprocess.run(
                [sys.executable, "-c", START], capture_output=True, text=True, check=True, env=environment()
            ).stdout
        )
        for _ in range(3)
    )
    return Row("terminal client, first paint, CPU", best, "s", 0.6, "an interpreter takes 0.02")


async def measure() -> list[Row]:
    """Frames, keys and a stream in one client."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="jaato-bench-") as made:
        root = Path(made)
        (root / "work").mkdir()
        (root / "script.json").write_text(json.dumps([{"text": "x"}]))
        words = ["tui", "--no-daemon", "--workspace", str(root / "work")]
        words += ["--provider", "scripted", "--model", str(root / "script.json")]
        app = make_app(make_parser("tui").parse_args(words))
        async with app.run_test(size=(100, 40)) as pilot:
            while not app.link.is_open:
                await pilot.pause(0.05)
            gc.freeze()  # as the client does at a terminal
            done = 0
            for count in COUNTS:
                feed(app, done, count)
                done = count
                found += await frames_and_keys(app, pilot.pause, pilot.press, count)
                found.append(memory(count))
            found += await stream(app, pilot.pause)
            app.leave()
            await app.left.wait()
    return found


def memory(count: int) -> Row:
    """What the process holds: the client, and its server."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    size = pages * resource.getpagesize() / 2**20
    return Row(f"terminal client, memory at {count:,} events", size, "MB", 120.0, "its server included")


def event_fields(app: FullScreenClient, seq: int) -> dict[str, Any]:
    """What every event has."""
    state = app.link.session.state
    return {"session_id": state.session_id, "agent_id": state.root_agent_id, "seq": seq}


def feed(app: FullScreenClient, first: int, last: int) -> None:
    """Give the client events of turns: a message, an answer, an end."""
    from jaato.client.state import apply

    state, text = app.link.session.state, "Some **words** of an answer, and `code`.\n\n* one\n* two\n" * 3
    for number in range(first, last):
        fields = event_fields(app, 1_000 + number)
        message = Message("user" if number % 3 == 0 else "assistant", [Text(text)], id=f"m{number}")
        event: Event
        if number % 3 == 0:
            event = MessageUser(message=message, turn_id="t", **fields)
        elif number % 3 == 1:
            event = MessageModel(message=message, turn_id="t", finish_reason="stop", **fields)
        else:
            event = TurnCompleted(
                turn_id="t",
                reason="stop",
                usage=Usage(),
                model_calls=1,
                tool_calls=0,
                duration_s=1.0,
                **fields,
            )
        apply(state, event)
        app.link.conversation.take(event)


async def frames_and_keys(app: FullScreenClient, pause: object, press: object, count: int) -> list[Row]:
    """CPU of a frame in which a line was added, and from a key to its frame."""
    assert callable(pause)
    assert callable(press)
    app.view.draw()
    await pause(0.1)
    frames, keys = [], []
    for number in range(KEYS):
        app.link.conversation.note(f"line {number}", "dim")
        begun = time.process_time()
        app.view.draw()
        await pause()
        frames.append(time.process_time() - begun)
        begun = time.process_time()
        await press("x")
        await pause()
        keys.append(time.process_time() - begun)
    app.view.prompt.clear_message()
    return [
        Row(
            f"frame with a new line at {count:,} events, CPU", statistics.median(frames) * 1e3, "ms", None, ""
        ),
        Row(
            f"key to its frame at {count:,} events, CPU p95",
            sorted(keys)[int(KEYS * 0.95)] * 1e3,
            "ms",
            33.0,
            "",
        ),
    ]


async def stream(app: FullScreenClient, pause: object) -> list[Row]:
    """20 kB in one code block, in pieces of 40 characters, four a frame: CPU of a frame."""
    from jaato.client.state import apply

    assert callable(pause)
    state, times, at = app.link.session.state, [], 0
    pieces_a_frame = 4
    while at < len(FENCE):
        for _ in range(pieces_a_frame):
            piece = FENCE[at : at + 40]
            event = AgentOutput(
                source="model", text=piece, mode="append", offset=at, **event_fields(app, state.seq)
            )
            apply(state, event)
            at += len(piece)
        begun = time.process_time()
        app.view.draw()
        await pause()
        times.append(time.process_time() - begun)
    return [
        Row(
            "frame of a stream, 20 kB in one code block, CPU p95",
            sorted(times)[int(len(times) * 0.95)] * 1e3,
            "ms",
            33.0,
            "",
        )
    ]
