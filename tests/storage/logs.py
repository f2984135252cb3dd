"""Logs to test a store with, and processes of their own to treat badly."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

import jaato.abc
from jaato.abc.store import Damaged
from jaato.protocol.events import AgentCreated, Event, MessageUser, SessionCreated, SessionUpdated
from jaato.protocol.messages import Message, Text
from jaato.storage.sqlite import SqliteStore

SOURCE = Path(jaato.abc.__file__).parents[2]

PRELUDE = """
import os, resource, sys
from pathlib import Path
from jaato.abc.store import Damaged
from jaato.errors import *
from jaato.storage.sqlite import SqliteStore
from tests.storage.logs import begin, created, dropped, said
import encodings.idna, sqlite3, tempfile, struct
"""


def created(session_id: str, workspace: str = "/w", name: str | None = None, at: str = "") -> SessionCreated:
    """The first event of a log."""
    event = SessionCreated(session_id=session_id, agent_id="a1", seq=1, workspace=workspace, name=name)
    return event if not at else replace(event, timestamp=at)


def said(session_id: str, seq: int, text: str = "hello", at: str = "") -> MessageUser:
    """Any other event."""
    message = Message("user", [Text(text)])
    event = MessageUser(session_id=session_id, agent_id="a1", seq=seq, message=message, turn_id="t1")
    return event if not at else replace(event, timestamp=at)


def agent(session_id: str, seq: int, model: str, parent: str | None = None) -> AgentCreated:
    """An agent of a session begins."""
    return AgentCreated(
        session_id=session_id,
        agent_id="a2" if parent else "a1",
        seq=seq,
        name="main",
        provider="scripted",
        model=model,
        system_prompt="",
        core_tools=[],
        parent_agent_id=parent,
    )


def renamed(
    session_id: str, seq: int, name: str | None = None, description: str | None = None
) -> SessionUpdated:
    """A session gets a name or a description."""
    return SessionUpdated(session_id=session_id, agent_id="a1", seq=seq, name=name, description=description)


def begin(store: SqliteStore, session_id: str, events: int = 1, workspace: str = "/w") -> None:
    """A session with this many events."""
    store.create([created(session_id, workspace), *[said(session_id, seq) for seq in range(2, events + 1)]])


def sound(store: SqliteStore, session_id: str, after_seq: int = 0) -> list[Event]:
    """Every event of a session, none of which may be damaged."""
    events = []
    for event in store.read(session_id, after_seq):
        assert not isinstance(event, Damaged), event
        events.append(event)
    return events


def text_of(event: Event) -> str:
    """What a user said."""
    assert isinstance(event, MessageUser)
    return event.message.text


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process of its own that runs `code`, after imports everything here needs."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[2]}", "PATH": "/usr/bin:/bin"},
    )


def run(code: str, *arguments: object) -> str:
    """What such a process prints; it must succeed."""
    process = start(code, *arguments)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def dropped() -> None:
    """Become a user without rights; someone who has none stays who they are."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def tamper(path: Path, statement: str, *values: object) -> None:
    """Change a database behind the store's back."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()
