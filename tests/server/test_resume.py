"""A server that dies in the middle of a turn: nothing is lost, nothing is repeated, and the turn goes on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.cli import warm

from jaato.client.blocking import Client
from jaato.errors import InvalidArguments, JaatoError
from jaato.protocol.commands import (
    MessageSend,
    PermissionResponse,
    SessionAttach,
    SessionCreate,
    TurnContinue,
)
from jaato.protocol.events import (
    ClarificationQuestion,
    ClarificationResolved,
    PermissionRequested,
    SessionInfo,
    SystemMessage,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.frames import Opened, Settled

Script = list[dict[str, Any]]


@cache
def forks() -> str:
    """Where servers are forked, until the last test has ended."""
    return warm.HELD.enter_context(warm.forker("tests.server.serve_script"))


@contextmanager
def server(home: Path, script: Script | dict[str, Script]) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a process of its own; killed in the end, if it is still there."""
    request = {"args": [str(home), json.dumps(script)]}
    with warm.Forked(forks(), request, (), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def until(client: Client, kind: Any) -> Any:
    """The next event of a kind."""
    return next(event for event in client.events(20.0) if isinstance(event, kind))


def begun(home: Path, text: str = "go") -> tuple[Client, str]:
    """A client, and a session in which something was said."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    client = Client(home / "run/jaato.sock", name="first").__enter__()
    opened = client.ask(SessionCreate(workspace=str(work)))
    assert isinstance(opened, Opened)
    client.ask(MessageSend(text=text, session_id=opened.session_id))
    return client, opened.session_id


@pytest.mark.parametrize("gently", [False, True])
def test_a_question_survives_the_server(tmp_path: Path, gently: bool) -> None:
    """A question that was open when the server ended has the same id after its next start; its answer is used once, the
    call runs once, and the turn goes on to its end."""
    script: Script = [
        {"call": "run", "with": {"command": "echo once >> effects", "need": ["write"]}},
        {"say": "done"},
    ]
    with server(tmp_path, script) as process:
        client, session_id = begun(tmp_path)
        asked = until(client, PermissionRequested)
        if gently:
            process.terminate()
        else:
            process.kill()
        process.wait()
        client.__exit__()
    with server(tmp_path, script), Client(tmp_path / "run/jaato.sock", name="second") as client:
        client.ask(SessionAttach(session_id=session_id))
        info = until(client, SessionInfo)
        assert list(info.state.questions) == [asked.question_id]
        assert info.state.open_turn is not None
        with pytest.raises(JaatoError, match="digest"):
            client.ask(PermissionResponse(question_id=asked.question_id, answer="y", digest="another"))
        answer = PermissionResponse(question_id=asked.question_id, answer="y", digest=asked.digest)
        assert client.ask(answer) == Settled(True, "second")
        done = until(client, TurnCompleted)
        assert done.reason == "stop", str(done.error)
        assert client.ask(answer) == Settled(False, "second", "y")
        assert (tmp_path / "work/effects").read_text() == "once\n"
        state = client.states[session_id]
        assert not state.questions
        assert [entry.result.ok for entry in state.entries if isinstance(entry, ToolCallEnd)] == [True]


def test_a_question_of_an_earlier_server_is_answered_with_an_edit(tmp_path: Path) -> None:
    """After kill -9 edited arguments that do not fit are refused, and the question stays; those that fit are used once."""
    script: Script = [
        {"call": "run", "with": {"command": "echo asked >> effects", "need": ["write"]}},
        {"say": "done"},
    ]
    with server(tmp_path, script) as process:
        client, session_id = begun(tmp_path)
        question_id = until(client, PermissionRequested).question_id
        process.kill()
        process.wait()
        client.__exit__()
    with server(tmp_path, script), Client(tmp_path / "run/jaato.sock", name="second") as client:
        client.ask(SessionAttach(session_id=session_id))
        until(client, SessionInfo)
        with pytest.raises(InvalidArguments, match="/command"):
            client.ask(PermissionResponse(question_id=question_id, answer="e", arguments={"command": 3}))
        assert list(client.states[session_id].questions) == [question_id]
        fits = {"command": "echo edited >> effects", "need": ["write"]}
        answer = PermissionResponse(question_id=question_id, answer="e", arguments=fits)
        assert client.ask(answer) == Settled(True, "second")
        done = until(client, TurnCompleted)
        assert done.reason == "stop", str(done.error)
        assert (tmp_path / "work/effects").read_text() == "edited\n"
        assert not client.states[session_id].questions


def test_a_call_that_had_begun_is_interrupted_and_not_repeated(tmp_path: Path) -> None:
    """After kill -9 in the middle of a call it has the result `interrupted`; the turn goes on when somebody says so."""
    script: Script = [
        {"call": "run", "with": {"command": "echo begun >> effects; sleep 30", "need": ["write"]}},
        {"say": "I see."},
    ]
    with server(tmp_path, script) as process:
        client, session_id = begun(tmp_path)
        asked = until(client, PermissionRequested)
        client.ask(PermissionResponse(question_id=asked.question_id, answer="y"))
        until(client, ToolCallStart)
        while not (tmp_path / "work/effects").exists():
            time.sleep(0.01)
        process.kill()
        process.wait()
        client.__exit__()
    with server(tmp_path, script), Client(tmp_path / "run/jaato.sock") as client:
        client.ask(SessionAttach(session_id=session_id))
        until(client, SessionInfo)
        asked = until(client, ClarificationQuestion)
        assert asked.outcome
        assert "cut off" in until(client, SystemMessage).text
        client.ask(TurnContinue(session_id=session_id))
        told = [until(client, kind) for kind in (ClarificationResolved, ToolCallEnd, TurnCompleted)]
        assert told[0].qa_pairs == [("What came of run?", None)]
        assert told[1].result.error.code == "interrupted"
        assert told[2].reason == "stop"
        assert (tmp_path / "work/effects").read_text() == "begun\n"
        with pytest.raises(JaatoError, match="No turn was cut off"):
            client.ask(TurnContinue(session_id=session_id))
