"""Concurrent calls of one caller, whose starts and ends share their commits, under kill -9."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.settings import environment
from jaato.storage.sqlite import SqliteStore

SERVE = """
import asyncio, json, os, signal, sys
from pathlib import Path
from jaato.runtime.session_options import SessionOptions
from jaato.server.registry.application import open_registry
from jaato.server.registry.requests import Principal, Request
from jaato.storage import event_table
from jaato.tools.tool import tool

home, die_at = Path(sys.argv[1]), int(sys.argv[2])
effects = os.open(home / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
passed = 0

def boundary():
    global passed
    passed += 1
    if passed == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

def around(step):
    def stepped(*given):
        boundary()
        done = step(*given)
        boundary()
        return done
    return stepped

from jaato.storage import sqlite
sqlite.insert_events = around(sqlite.insert_events)
sqlite.write_events = around(sqlite.write_events)

@tool(access="execute")
async def act(name: str) -> str:
    os.write(effects, name.encode() + b"\\n")
    boundary()
    return name

async def call(door, name):
    request = Request(b"POST", b"/v1/tools/act:invoke", [])
    body = json.dumps({"args": {"name": name}}).encode()
    response = await door.work(door.dispatch(request, Principal()), body)
    assert response.status == 200, response.body
    os.write(1, name.encode() + b"\\n")

async def main():
    blueprint = SessionOptions(workspace=home, state_dir=home / "state", tools=(act,), allow=("act",))
    door = open_registry(blueprint)
    for turn in range(6):
        await asyncio.gather(*[call(door, f"{turn}-{number}") for number in range(12)])
    await door.callers.close()
    print("over", passed)

asyncio.run(main())
"""


def names_of(events: list[Event], ids: set[str]) -> set[str]:
    """The names that calls were made with."""
    return {
        event.arguments["name"]
        for event in events
        if isinstance(event, ToolCallStart) and event.call_id in ids
    }


def log_of(home: Path) -> Iterator[Event]:
    """The events of the one session of a store, whose numbers have no gap."""
    store = SqliteStore(home / "state" / "jaato.db", read_only=True)
    (row,) = store.sessions()
    for seq, event in enumerate(store.read(row.id), 1):
        assert isinstance(event, Event)
        assert event.seq == seq
        yield event
    store.close()


@pytest.mark.spec("C8", "Server and events")
@pytest.mark.parametrize("die_at", [3, 20, 37, 38, 39, 40, 41, 61, 0])
def test_kill_9_loses_nothing_of_calls_that_share_a_commit(tmp_path: Path, die_at: int) -> None:
    """Killed before or after a commit, or between two effects: what was answered has its end in the log, what had an effect
    its start, and no call has an end without a start before it."""
    words = [sys.executable, "-c", SERVE, str(tmp_path), str(die_at)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout.splitlines()
    assert (done.returncode == -9) is bool(die_at), done.stderr
    if not die_at:
        passed = int(said.pop().removeprefix("over "))
        assert passed < 72 * 5  # fewer than two commits a call
    effects = set((tmp_path / "effects").read_text().splitlines())
    events = list(log_of(tmp_path))
    started: set[str] = set()
    ended: set[str] = set()
    for event in events:
        if isinstance(event, ToolCallStart):
            started.add(event.call_id)
        elif isinstance(event, ToolCallEnd):
            assert event.call_id in started
            ended.add(event.call_id)
    assert set(said) <= names_of(events, ended)
    assert effects <= names_of(events, started)
    assert names_of(events, ended) <= effects
    if not die_at:
        assert len(said) == len(effects) == len(ended) == 72
