"""Trouble with the disk under a server: it says what is wrong and what to do, loses nothing, and goes on afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests.server.serving import Raw, opened, served, turn_of
from tests.storage.logs import begin
from websockets.asyncio.client import unix_connect

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import PermissionRequested, ToolCallEnd, TurnCompleted
from jaato.protocol.events.state import State
from jaato.protocol.frames import Sessions
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.runtime.session_options import SessionOptions
from jaato.server import daemon
from jaato.server.app import ServerOptions
from jaato.storage.sqlite import SqliteStore
from jaato.tools.call import Call
from jaato.tools.tool import tool

ROOT = Path(__file__).resolve().parents[2]


def apart(module: str, place: Path) -> None:
    """Run a module in a process that may mount things nobody else sees; skip where the system does not allow that."""
    command = ["unshare", "-Urm", sys.executable, "-m", f"tests.server.{module}", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.stdout == "no mounts here\n" or done.stderr.startswith("unshare:"):
        pytest.skip("this user may not mount anything")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_disk_that_is_full_in_mid_turn(tmp_path: Path) -> None:
    """Whoever watches learns that the turn broke off and why; other sessions are read and served; with room again the turn
    goes on without repeating what had begun, and what had no room is recorded."""
    apart("full_disk", tmp_path)


def test_a_store_that_is_taken_away_while_it_is_open(tmp_path: Path) -> None:
    """What would go into a file that nobody can find any more is refused, and says so; put back, it goes on as it was."""

    async def main() -> None:
        async with served(tmp_path, [Step(text="yes")] * 9) as server, server.client() as client:
            session_id = await opened(client, tmp_path / "work")
            await turn_of(client, session_id)
            store = server.hub.store
            assert isinstance(store, SqliteStore)
            store._look_at = 0.0  # as if some time had visit_over
            for file in (tmp_path / "state").glob("jaato.db*"):
                file.rename(tmp_path / file.name)
            for command in ("message.send", "session.create"):
                refused = await client.ask(
                    command,
                    **({"text": "x", "session_id": session_id} if command == "message.send" else {}),
                    **({"workspace": str(tmp_path / "work")} if command == "session.create" else {}),
                )
                assert refused.error is not None
                assert "Put it back to go on" in refused.error.message
            for file in tmp_path.glob("jaato.db*"):
                file.rename(tmp_path / "state" / file.name)
            assert (await turn_of(client, session_id)).reason == "stop"
            log = list(server.hub.store.read(session_id))
            assert [event.seq for event in log] == list(range(1, client.states[session_id].seq + 1))

    anyio.run(main)


def test_a_workspace_that_is_gone(tmp_path: Path) -> None:
    """A session whose workspace is gone is watched, read and talked in, its tools say what is missing; with the workspace
    back they work, and other sessions notice nothing."""

    def script(request: ModelRequest) -> Step:
        answered = request.messages[-1].role == "tool"
        return Step(text="ok") if answered else Step(calls=[ScriptedCall("effect", {})])

    @tool(core=True, access="read")
    def effect(*, call: Call) -> str:
        """Look at the workspace."""
        return str(list(call.workspace.iterdir()))

    async def main() -> None:
        async with served(tmp_path, [script] * 99, tools=(effect,)) as server, server.client() as client:
            lost = await opened(client, tmp_path / "lost")
            other = await opened(client, tmp_path / "other")
            (tmp_path / "lost").rmdir()
            assert (await turn_of(client, lost)).reason == "stop"
            end = next(event for event in client.events if isinstance(event, ToolCallEnd))
            assert not end.result.ok
            assert (await turn_of(client, other)).reason == "stop"
            await server.hub.reload(open_sessions=True)
            await server.hub.evict(lost)
            refused = await client.ask("message.send", text="hello", session_id=lost)
            assert refused.error is not None
            assert "create it" in refused.error.message
            assert (await client.ask("history.request", session_id=lost)).error is None
            (tmp_path / "lost").mkdir()
            assert (await turn_of(client, lost)).reason == "stop"

    anyio.run(main)


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Years back and forth between turns and while a question waits: the log is dense and in the order in which things
    happened, a client that comes back gets what it misses, the question is answered, and no session is put down early."""
    jump = [0.0]
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + jump[0])
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump[0] * 1e9))

    def script(request: ModelRequest) -> Step:
        asks = request.messages[-1].text == "ask"
        return (
            Step(calls=[ScriptedCall("run", {"command": "touch made", "need": ["write"]})])
            if asks
            else Step(text="ok")
        )

    async def main() -> None:
        async with served(tmp_path, [script] * 99) as server, server.client() as client:
            session_id = await opened(client, tmp_path / "work")
            live = server.hub.pool.loaded[session_id]
            for years in (-1, 10, -40, 0):
                jump[0] = years * 365 * 86_400.0
                assert (await turn_of(client, session_id)).reason == "stop"
                assert not server.hub.pool.is_idle(live)
                assert server.hub.pool.loaded[session_id] is live
            middle = client.states[session_id].seq
            await client.ask("message.send", text="ask", session_id=session_id)
            if not client.states[session_id].questions:
                await client.until(PermissionRequested)
            jump[0] = 86_400.0 * 365
            (question_id,) = client.states[session_id].questions
            done = await client.ask(
                "permission.response", session_id=session_id, question_id=question_id, answer="y"
            )
            assert done.error is None
            if client.states[session_id].open_turn is not None:
                await client.until(TurnCompleted)
            assert (tmp_path / "work/made").exists()
            async with server.client("another") as late:
                late.states[session_id] = State(session_id=session_id, seq=middle)
                await late.ask("session.attach", session_id=session_id, after_seq=middle)
                listed = await late.ask("session.list")
                assert isinstance(listed.result, Sessions)
                assert [entry.id for entry in listed.result.sessions] == [session_id]
                last = client.states[session_id].seq
                assert [event.seq for event in late.events if event.durable] == list(
                    range(middle + 1, last + 1)
                )

    anyio.run(main)


def test_a_store_of_a_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server serves what can be read and says why nothing can be written, at its start and to every command."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "known"))  # where the server says that it runs
    (tmp_path / "state").mkdir()
    store = SqliteStore(tmp_path / "state/jaato.db")
    begin(store, "s1", 5, workspace=str(tmp_path))
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    said: list[str] = []

    async def main() -> None:
        options = ServerOptions(
            base=SessionOptions(provider=ScriptedProvider([]), model="script", state_dir=tmp_path / "state"),
        )
        serving = asyncio.create_task(daemon.serve(tmp_path / "run/s", (), options, said.append))
        while not said and not serving.done():
            await asyncio.sleep(0.005)
        assert "a newer jaato made it" in said[0]
        async with unix_connect(str(tmp_path / "run/s"), "ws://jaato/v1/connect", compression=None) as ws:
            client = Raw(ws)
            await client.hello()
            assert (await client.ask("session.attach", session_id="s1")).error is None
            for command, fields in (
                ("message.send", {"text": "x", "session_id": "s1"}),
                ("session.create", {"workspace": str(tmp_path)}),
                ("session.fork", {"session_id": "s1"}),
                ("session.delete", {"session_id": "s1"}),
            ):
                refused = await client.ask(command, **fields)
                assert refused.error is not None, command
                assert "install that jaato" in refused.error.message, command
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    anyio.run(main)
