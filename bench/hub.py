"""What the server costs while it serves: its start, its sessions, and events to many clients."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.daemon import serving
from bench.row import Row
from bench.watchers import watching

SESSIONS = 100
CLIENTS = 50
EVENTS = 3_000
LATE_S = 60.0


def begun() -> list[Row]:
    """A server that has begun, and what sessions add to it."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        with serving(home, observed=False):
            pass  # leaves the compiled modules behind
        with serving(home, observed=False) as server:
            ready_s, idle_kb = server.cpu_s, server.rss_kb
            with server.client() as client:
                for _ in range(10):
                    client.ask(server.new(attach=False))
                before_kb, cpu_s, threads = server.rss_kb, server.cpu_s, server.status("Threads")
                for _ in range(SESSIONS):
                    client.ask(server.new(attach=False))
                made_ms = (server.cpu_s - cpu_s) / SESSIONS * 1e3
                each_kb = (server.rss_kb - before_kb) / SESSIONS
                more = (server.status("Threads") - threads) / SESSIONS
    return [
        Row("a server is ready, CPU", ready_s, "s", 0.7, "FIELD 1: 8 s, without one import 1.15"),
        Row("its memory when idle", idle_kb / 1024, "MB", 80, "FIELD 1: 859 MB"),
        Row("a new session, CPU", made_ms, "ms", 10, f"mean of {SESSIONS}"),
        Row("memory of an idle session", each_kb, "kB", 300, f"mean of {SESSIONS}"),
        Row("threads of a session", more, "", 0, "FIELD 1: 5.7"),
    ]


async def delivered(home: Path, clients: int) -> tuple[float, int]:
    """CPU microseconds of one event in a session that so many clients of another process watch, and how many of them
    miss a character."""
    from tests.server.serving import served

    from jaato.protocol.events import AgentOutput
    from jaato.providers.scripted import Step

    async with served(home, [Step(text="ok")]) as server, server.client() as first:
        made = await first.ask("session.create", workspace=str(home / "work"))
        session_id = made.result.session_id  # type: ignore[union-attr]
        with ExitStack() as stack:
            enter = partial(stack.enter_context, watching(server.path, clients, [session_id]))
            watchers = await asyncio.to_thread(enter)
            journal = server.hub.pool.loaded[session_id].session.journal
            begun, offset = time.process_time(), 0
            for number in range(EVENTS):
                mode: Any = "append" if offset else "write"
                journal.show(
                    AgentOutput(**journal.shown(), source="model", text="word ", mode=mode, offset=offset)
                )
                offset += 5
                if number % 5 == 0:
                    await asyncio.sleep(0.001)
            spent = time.process_time() - begun
            late = time.monotonic() + LATE_S
            while (
                min(seen := (await asyncio.to_thread(watchers.seen)).chars) < offset
                and time.monotonic() < late
            ):
                await asyncio.sleep(0.05)
        return spent / EVENTS * 1e6, sum(chars != offset for chars in seen)


def fan_out() -> list[Row]:
    """Events to many clients."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        few, _ = asyncio.run(delivered(Path(folder) / "a", 1))
        many, lost = asyncio.run(delivered(Path(folder) / "b", CLIENTS))
    each = (many - few) / (CLIENTS - 1)
    return [
        Row(f"an event delivered to one of {CLIENTS} clients, CPU", each, "us", 15, "FIELD 1: 385 us"),
        Row("clients of it that miss a character", lost, "", 0, ""),
    ]


def rows() -> list[Row]:
    """The figures of a server that serves."""
    return [*begun(), *fan_out()]
