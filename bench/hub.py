"""What the server costs while it serves: sessions, events to many clients, long logs, clients that come and go."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.row import Row
from bench.startup import environ_for

SESSIONS = 100
CLIENTS = 50
EVENTS = 3_000
LONG = 10_000
RECONNECTS = 1_000
SHORT = 2_000
WATCH = """
import select, sys
from jaato.client.blocking import Client
from jaato.protocol.commands import SessionAttach
clients = [Client(sys.argv[1]).__enter__() for _ in range(int(sys.argv[3]))]
for client in clients:
    client.ask(SessionAttach(session_id=sys.argv[2]))
sockets = {client.fileno(): client._socket for client in clients}
poll = select.poll()
for fd in sockets:
    poll.register(fd, select.POLLIN)
print("ready", flush=True)
total = 0
while True:
    for fd, _ in poll.poll():
        if not sockets[fd].recv(1 << 20):
            sys.exit()
"""


@contextmanager
def serving(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a process of its own."""
    environ = environ_for(home, "http://127.0.0.1:9/v1") | {"XDG_RUNTIME_DIR": str(home)}
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "jaato", "serve"]
    process = subprocess.Popen(
        command,
        env={**environ, "JAATO_READY_FD": str(writing)},
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as ready:
            ready.readline()
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_of(pid: int) -> float:
    """CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_of(pid: int, name: str) -> int:
    """A number of a process's status: `VmRSS` in kB, `Threads`."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))


def begun() -> list[Row]:
    """A server that has begun, and what sessions add to it."""
    from jaato.client.blocking import Client
    from jaato.protocol.commands import SessionCreate

    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        script = home / "script.json"
        script.write_text(json.dumps([{"text": "ok"}]))
        with serving(home):
            pass  # leaves the compiled modules behind
        with serving(home) as server:
            ready_s, idle_kb = cpu_of(server.pid), status_of(server.pid, "VmRSS")
            make = SessionCreate(workspace=str(home), provider="scripted", model=str(script), attach=False)
            with Client(home / "jaato/jaato.sock") as client:
                for _ in range(10):
                    client.ask(make)
                before, cpu, threads = (
                    status_of(server.pid, "VmRSS"),
                    cpu_of(server.pid),
                    status_of(server.pid, "Threads"),
                )
                for _ in range(SESSIONS):
                    client.ask(make)
                made_ms = (cpu_of(server.pid) - cpu) / SESSIONS * 1e3
                each_kb = (status_of(server.pid, "VmRSS") - before) / SESSIONS
                more = (status_of(server.pid, "Threads") - threads) / SESSIONS
    return [
        Row("a server is ready, CPU", ready_s, "s", 0.7, "FIELD 1: 8 s, without one import 1.15"),
        Row("its memory when idle", idle_kb / 1024, "MB", 80, "FIELD 1: 859 MB"),
        Row("a new session, CPU", made_ms, "ms", 10, f"mean of {SESSIONS}"),
        Row("memory of an idle session", each_kb, "kB", 300, f"mean of {SESSIONS}"),
        Row("threads of a session", more, "", 0, "FIELD 1: 5.7"),
    ]


async def delivered(home: Path, clients: int) -> float:
    """CPU microseconds of one event in a session that so many clients of another process watch."""
    from tests.server.serving import served

    from jaato.protocol.events import AgentOutput
    from jaato.providers.scripted import Step

    async with served(home, [Step(text="ok")]) as server, server.client() as first:
        made = await first.ask("session.create", workspace=str(home / "work"))
        session_id = made.result.session_id  # type: ignore[union-attr]
        command = [sys.executable, "-c", WATCH, str(server.path), session_id, str(clients)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watching:
            try:
                assert watching.stdout is not None
                await asyncio.to_thread(watching.stdout.readline)
                journal = server.hub.lives.by_id[session_id].session.journal
                begun, offset = time.process_time(), 0
                for number in range(EVENTS):
                    mode: Any = "append" if offset else "write"
                    journal.show(
                        AgentOutput(**journal.shown(), source="model", text="word ", mode=mode, offset=offset)
                    )
                    offset += 5
                    if number % 5 == 0:
                        await asyncio.sleep(0.001)
                return (time.process_time() - begun) / EVENTS * 1e6
            finally:
                watching.kill()


def fan_out() -> list[Row]:
    """Events to many clients."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        few = asyncio.run(delivered(Path(folder) / "a", 1))
        many = asyncio.run(delivered(Path(folder) / "b", CLIENTS))
    each = (many - few) / (CLIENTS - 1)
    return [Row(f"an event delivered to one of {CLIENTS} clients, CPU", each, "us", 15, "FIELD 1: 385 us")]


async def long_log(home: Path) -> tuple[float, float]:
    """Seconds of CPU until a session of 10,000 events is drawn, and megabytes of a snapshot of it."""
    from tests.server.happenings import Happenings
    from tests.server.serving import served

    home.mkdir()
    (home / "state").mkdir()
    made = Happenings(home / "state")
    while made.journal.state.seq < LONG:
        made.step()
    session_id = made.journal.state.session_id
    made.store.close()
    async with served(home, []) as server, server.client() as client:
        begun = time.process_time()
        await client.ask("session.attach", session_id=session_id)
        while session_id not in client.states:
            await client.next()
        spent = time.process_time() - begun
        return spent, len(server.hub.rooms[session_id].snapshot_frame()) / 1e6


async def come_and_go(home: Path) -> tuple[int, int, int]:
    """Descriptors, tasks and threads that are left of clients and sessions that came and went."""
    from tests.server.serving import served

    from jaato.providers.scripted import Step

    async with served(home, [Step(text="ok")], plugins=()) as server:
        async with server.client() as client:
            made = await client.ask("session.create", workspace=str(home / "work"))
            session_id = made.result.session_id  # type: ignore[union-attr]

        async def visit(times: int) -> None:
            for _ in range(times):
                async with server.client() as client:
                    await client.ask("session.attach", session_id=session_id)

        async def short(times: int) -> None:
            async with server.client() as client:
                for _ in range(times):
                    made = await client.ask("session.create", workspace=str(home / "work"), attach=False)
                    await client.ask("session.delete", session_id=made.result.session_id)  # type: ignore[union-attr]

        async def counted() -> tuple[int, int, int]:
            await asyncio.sleep(1)
            gc.collect()
            return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count()

        await visit(20)
        await short(20)
        before = await counted()
        await visit(RECONNECTS)
        await short(SHORT)
        after = await counted()
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def rows() -> list[Row]:
    """The figures of a server at work."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        drawn_s, snapshot_mb = asyncio.run(long_log(Path(folder) / "long"))
        left = asyncio.run(come_and_go(Path(folder) / "short"))
    return [
        *begun(),
        *fan_out(),
        Row(f"a session of {LONG:,} events is drawn, CPU of both ends", drawn_s * 1e3, "ms", 300, ""),
        Row("what is sent for it", snapshot_mb, "MB", None, ""),
        Row(f"descriptors left of {RECONNECTS:,} reconnects, {SHORT:,} sessions", left[0], "", 0, ""),
        Row("tasks left of them", left[1], "", 0, ""),
        Row("threads left of them", left[2], "", 0, ""),
    ]
