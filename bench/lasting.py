"""What is left in a server of clients and sessions that came and went, over the real protocol."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.daemon import Daemon, serving
from bench.row import Row

from jaato.client.blocking import Client
from jaato.protocol.commands import MessageSend, SessionAttach, SessionDelete, SessionDetach
from jaato.protocol.events import TurnCompleted
from jaato.protocol.frames import Opened

WARM_UP = 800
LOOKED = 200
SHORT = 2_000
RECONNECTS = 1_000
IDLE_AFTER_S = 1
RESTED_S = 4


def short(server: Daemon, client: Client, times: int) -> None:
    """Sessions of one turn each; every other one is removed, the rest stays in the store."""
    for number in range(times):
        opened = client.ask(server.new(once=client.word()))
        assert isinstance(opened, Opened)
        client.ask(MessageSend(session_id=opened.session_id, text="hi"))
        for event in client.events():
            if isinstance(event, TurnCompleted):
                break
        end = SessionDelete if number % 2 else SessionDetach
        client.ask(end(session_id=opened.session_id))
        client.states.clear()
        client.arrived()


def visits(server: Daemon, session_id: str, times: int) -> None:
    """Clients that come, look and go."""
    for _ in range(times):
        with server.client() as client:
            client.ask(SessionAttach(session_id=session_id))


def open_now(server: Daemon) -> tuple[int, int, int]:
    """Descriptors, tasks and threads there are once the server has come to rest."""
    time.sleep(RESTED_S)
    told = server.report()
    return told["descriptors"], told["tasks"], told["threads"]


def rows() -> list[Row]:
    """The figures of a server that has been up for long."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as folder,
        serving(Path(folder), "--idle-after", str(IDLE_AFTER_S), script=[{"text": "ok"}]) as server,
    ):
        with server.client() as client:
            opened = client.ask(server.new(attach=False))
            assert isinstance(opened, Opened)
            short(server, client, WARM_UP)
        visits(server, opened.session_id, LOOKED)
        first, before_kb = open_now(server), server.rss_kb
        with server.client() as client:
            cpu = server.cpu_s
            short(server, client, SHORT)
            each_ms = (server.cpu_s - cpu) / SHORT * 1e3
        second, after_kb = open_now(server), server.rss_kb
        visits(server, opened.session_id, RECONNECTS)
        third, last_kb = open_now(server), server.rss_kb
    left = [max(0, max(b, c) - a) for a, b, c in zip(first, second, third, strict=True)]
    names = ("descriptors", "tasks", "threads")
    where = f"left of {SHORT:,} short sessions and {RECONNECTS:,} reconnects"
    return [
        Row(
            f"memory left of {SHORT:,} short sessions",
            (after_kb - before_kb) / 1024,
            "MB",
            2,
            f"after the first {WARM_UP}",
        ),
        Row(f"memory left of {RECONNECTS:,} reconnects", (last_kb - after_kb) / 1024, "MB", 1, ""),
        Row(
            "a short session, its turn and its end, CPU of the server",
            each_ms,
            "ms",
            20,
            f"mean of {SHORT:,}",
        ),
        *[Row(f"{name} {where}", count, "", 0, "") for name, count in zip(names, left, strict=True)],
    ]
