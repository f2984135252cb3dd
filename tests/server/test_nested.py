"""Subagents of a server that dies: at any depth their tasks go on, their questions keep their ids, and nothing is repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.test_resume import begun, server, until

from jaato.client.blocking import Client
from jaato.protocol.commands import (
    ClarificationResponse,
    PermissionResponse,
    SessionAttach,
    SessionList,
    SessionStop,
    TurnContinue,
)
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    ClarificationQuestion,
    MessageUser,
    PermissionRequested,
    SessionInfo,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.frames import Sessions, Settled
from jaato.protocol.specs import SessionEntry
from jaato.storage.sqlite import SqliteStore

Scripts = dict[str, list[dict[str, Any]]]
CHAIN: Scripts = {
    "main": [{"call": "delegate", "with": {"task": "x", "name": "one"}}, {"say": "done"}],
    "one": [{"call": "delegate", "with": {"task": "x", "name": "two"}}, {"say": "one did"}],
    "two": [{"call": "delegate", "with": {"task": "x", "name": "three"}}, {"say": "two did"}],
}
EFFECT = {"call": "run", "with": {"command": "echo once >> effects", "need": ["write"]}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which every tool is declared from the start."""
    (tmp_path / ".config/jaato").mkdir(parents=True)
    (tmp_path / ".config/jaato/config.toml").write_text("deferred_tools = false\n")
    return tmp_path


@contextmanager
def again(home: Path, scripts: Scripts) -> Iterator[Client]:
    """A client of the server's next start."""
    with server(home, scripts), Client(home / "run/jaato.sock", name="second") as client:
        yield client


def ended(process: Any, client: Client, *, gently: bool) -> None:
    """The server ends, gently or not."""
    (process.terminate if gently else process.kill)()
    process.wait()
    client.__exit__()


def entry_of(client: Client, session_id: str) -> SessionEntry:
    """The session as the list shows it."""
    listed = client.ask(SessionList())
    assert isinstance(listed, Sessions)
    return next(entry for entry in listed.sessions if entry.id == session_id)


def stored(home: Path, session_id: str) -> list[Any]:
    """The log, which has no gap."""
    store = SqliteStore(home / "state/jaato.db", read_only=True)
    try:
        events = list(store.read(session_id))
    finally:
        store.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return events


def the_end(client: Client, agent_id: str) -> TurnCompleted:
    """The end of an agent's turn."""
    while (turn := until(client, TurnCompleted)).agent_id != agent_id:
        pass
    assert isinstance(turn, TurnCompleted)
    return turn


@pytest.mark.parametrize("gently", [False, True])
def test_a_question_from_the_bottom_survives_the_server(home: Path, gently: bool) -> None:
    """Three deep: the question has the same id and agent after the next start, the list says that it waits, its answer lets
    the call run once, and every agent above goes on in the turn and the call it was in."""
    scripts: Scripts = {**CHAIN, "three": [EFFECT, {"say": "three did"}]}
    with server(home, scripts) as process:
        client, session_id = begun(home)
        asked = until(client, PermissionRequested)
        ended(process, client, gently=gently)
    with again(home, scripts) as client:
        entry = entry_of(client, session_id)
        assert (entry.interrupted, entry.busy, entry.questions) == (True, False, 1)
        client.ask(SessionAttach(session_id=session_id))
        info = until(client, SessionInfo)
        assert list(info.state.questions) == [asked.question_id]
        assert info.state.questions[asked.question_id].agent_id == asked.agent_id
        answer = PermissionResponse(question_id=asked.question_id, answer="y", digest=asked.digest)
        assert client.ask(answer) == Settled(True, "second")
        assert the_end(client, info.state.root_agent_id).reason == "stop"
        assert client.ask(answer) == Settled(False, "second", "y")
        assert not entry_of(client, session_id).interrupted
    assert (home / "work/effects").read_text() == "once\n"
    log = stored(home, session_id)
    assert sum(isinstance(event, AgentCreated) for event in log) == 4
    assert sum(isinstance(event, MessageUser) for event in log) == 4
    calls = [event for event in log if isinstance(event, ToolCallStart)]
    assert len({call.call_id for call in calls}) == len(calls) == 4
    assert all(event.result.ok for event in log if isinstance(event, ToolCallEnd))
    assert [event.reason for event in log if isinstance(event, AgentCompleted)] == ["completed"] * 3
    assert [event.reason for event in log if isinstance(event, TurnCompleted)] == ["stop"] * 4


@pytest.mark.parametrize("gently", [False, True])
def test_a_subagent_in_the_background_goes_on(home: Path, gently: bool) -> None:
    """The turn of the main agent has ended; the subagent's clarification waits for its answer through the restart, then its
    task goes on and the main agent is told."""
    scripts: Scripts = {
        "main": [
            {"call": "delegate", "with": {"task": "x", "name": "one", "background": True}},
            {"say": "it works"},
        ],
        "one": [
            {
                "call": "request_clarification",
                "with": {"context": "colours", "questions": [{"question": "Which?"}]},
            },
            {"say": "one did"},
        ],
    }
    with server(home, scripts) as process:
        client, session_id = begun(home)
        seen = [until(client, ClarificationQuestion | TurnCompleted) for _ in range(2)]
        asked = next(event for event in seen if isinstance(event, ClarificationQuestion))
        ended(process, client, gently=gently)
    with again(home, scripts) as client:
        entry = entry_of(client, session_id)
        assert (entry.interrupted, entry.questions) == (True, 1)
        client.ask(SessionAttach(session_id=session_id))
        until(client, SessionInfo)
        said = ClarificationResponse(question_id=asked.question_id, answers=["blue"])
        assert client.ask(said) == Settled(True, "second")
        done = until(client, AgentCompleted)
        assert (done.agent_id, done.reason, done.summary) == (asked.agent_id, "completed", "one did")
    log = stored(home, session_id)
    [end] = [event for event in log if isinstance(event, ToolCallEnd) and event.agent_id == asked.agent_id]
    assert "blue" in str(end.result.structured)
    assert sum(event.agent_id == asked.agent_id for event in log if isinstance(event, MessageUser)) == 1
    assert sum(isinstance(event, ClarificationQuestion) for event in log) == 1


@pytest.mark.parametrize("said", ["it was done", None])
def test_what_came_of_a_subagents_call_is_asked_and_never_repeated(home: Path, said: str | None) -> None:
    """Kill -9 in the middle of a command of a subagent: what came of it is a question; the answer, or that nobody knows it, is in
    the result `interrupted`, and the turn goes on from there."""
    slow = {"call": "run", "with": {"command": "echo begun >> effects; sleep 30", "need": ["write"]}}
    scripts: Scripts = {**CHAIN, "three": [slow, {"say": "three did"}]}
    with server(home, scripts) as process:
        client, session_id = begun(home)
        first = until(client, PermissionRequested)
        client.ask(PermissionResponse(question_id=first.question_id, answer="y"))
        while not (home / "work/effects").exists():
            time.sleep(0.01)
        ended(process, client, gently=False)
    with again(home, scripts) as client:
        client.ask(SessionAttach(session_id=session_id))
        root = until(client, SessionInfo).state.root_agent_id
        asked = until(client, ClarificationQuestion)
        assert asked.outcome
        assert asked.agent_id == first.agent_id
        while not (entry := entry_of(client, session_id)).is_loaded:
            time.sleep(0.01)
        assert entry.questions == 1
        if said is None:
            client.ask(TurnContinue(session_id=session_id))
        else:
            client.ask(ClarificationResponse(question_id=asked.question_id, answers=[said]))
        assert the_end(client, root).reason == "stop"
    assert (home / "work/effects").read_text() == "begun\n"
    log = stored(home, session_id)
    [end] = [event for event in log if isinstance(event, ToolCallEnd) and event.agent_id == first.agent_id]
    assert end.result.error is not None
    assert end.result.error.code == "interrupted"
    assert ("it was done" in end.result.error.message) == (said is not None)


def test_what_was_cut_off_can_be_stopped(home: Path) -> None:
    """`session.stop` after a restart ends every task and question for good; nothing is offered any more."""
    scripts: Scripts = {**CHAIN, "three": [EFFECT, {"say": "three did"}]}
    with server(home, scripts) as process:
        client, session_id = begun(home)
        asked = until(client, PermissionRequested)
        ended(process, client, gently=True)
    with again(home, scripts) as client:
        client.ask(SessionAttach(session_id=session_id))
        until(client, SessionInfo)
        client.ask(SessionStop(session_id=session_id))
        late = client.ask(PermissionResponse(question_id=asked.question_id, answer="y"))
        assert isinstance(late, Settled)
        assert not late.accepted
        entry = entry_of(client, session_id)
        assert (entry.interrupted, entry.questions) == (False, 0)
    ends = [event.reason for event in stored(home, session_id) if isinstance(event, AgentCompleted)]
    assert ends == ["cancelled"] * 3
    assert not (home / "work/effects").exists()
