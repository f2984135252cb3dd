"""`jaato run` when the model server fails in the ways it can: a retry that is told, or a typed error; nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.independent.aimock import Aimock
from tests.independent.running import DIALECTS, KEY, Desk, Outcome

LONG = "A reply that is long enough to be cut in the middle, whatever the dialect wraps around it."


def first(server: Aimock, bad: dict[str, Any], good: dict[str, Any], *more: dict[str, Any]) -> None:
    """For each dialect: the first request meets one fixture, those after it the others."""
    for dialect in DIALECTS:
        replies = [bad, {"response": good}, *({"response": reply} for reply in more)]
        server.add(
            [
                {"match": {"model": dialect.model, "sequenceIndex": index}, **reply}
                for index, reply in enumerate(replies)
            ]
        )


def statuses(server: Aimock) -> dict[str, list[int]]:
    """What the server answered, by dialect."""
    return {
        dialect.name: [entry["response"]["status"] for entry in server.asked(dialect.model)]
        for dialect in DIALECTS
    }


def each(value: Any) -> dict[str, Any]:
    """The same for every dialect."""
    return {dialect.name: value for dialect in DIALECTS}


def kept(outcome: Outcome) -> str:
    """The text of the conversation, which a retry does not double."""
    parts = [part for event in outcome.of("message.model") for part in event["message"]["parts"]]
    return "".join(part["text"] for part in parts if part["type"] == "text")


def error(status: int, **more: Any) -> dict[str, Any]:
    """A fixture that answers with an error of this status."""
    return {"response": {"error": {"message": "not now", "type": "some_error"}, "status": status, **more}}


@pytest.mark.parametrize("status", [429, 500, 529])
def test_failing_for_now(status: int, server: Aimock, desk: Desk) -> None:
    """An overloaded or failing server is asked again, once, after the time it wants; the retry is an event."""
    first(server, error(status, retryAfter=1), {"content": "fine"})
    for name, outcome in desk.run_all("hi").items():
        assert (outcome.code, kept(outcome)) == (0, "fine"), (name, outcome.err)
        (again,) = outcome.of("retry")
        assert again["attempt"] == 2
        assert str(status) in again["error"]["message"]
        assert again["wait_s"] == 1.0 if status == 429 else again["wait_s"] <= 1.0
        (turn,) = outcome.of("turn.completed")
        assert (turn["reason"], turn["model_calls"]) == ("stop", 1)
    assert statuses(server) == each([status, 200])


@pytest.mark.parametrize(("status", "word"), [(400, "request"), (401, "key"), (404, "model")])
def test_refused_for_good(status: int, word: str, server: Aimock, desk: Desk) -> None:
    """What will not get better is not asked again: one request, exit code 3, its meaning in words, and no key."""
    first(server, error(status), {"content": "never"})
    for name, outcome in desk.run_all("hi").items():
        assert outcome.code == 3, (name, outcome.err)
        assert not outcome.of("retry")
        (turn,) = outcome.of("turn.completed")
        assert turn["reason"] == "error"
        assert word in turn["error"]["message"]
        assert "not now" in turn["error"]["message"]
        assert str(status) in turn["error"]["message"]
        assert turn["error"]["message"] in outcome.err
        assert "Traceback" not in outcome.err
        assert KEY not in outcome.err + outcome.out
    assert statuses(server) == each([status])


def test_malformed(server: Aimock, desk: Desk) -> None:
    """A 200 whose body is no stream and no JSON is asked again."""
    bad = {"response": {"content": "-"}, "chaos": {"malformedRate": 1}}
    first(server, bad, {"content": "fine"})
    for name, outcome in desk.run_all("hi").items():
        assert (outcome.code, kept(outcome)) == (0, "fine"), (name, outcome.err)
        assert len(outcome.of("retry")) == 1


def test_dropped(server: Aimock, desk: Desk) -> None:
    """A connection closed before any answer is asked again."""
    first(server, {"response": {"content": "-"}, "chaos": {"disconnectRate": 1}}, {"content": "fine"})
    for name, outcome in desk.run_all("hi").items():
        assert (outcome.code, kept(outcome)) == (0, "fine"), (name, outcome.err)
        assert len(outcome.of("retry")) == 1


def test_cut_in_the_text(server: Aimock, desk: Desk) -> None:
    """A stream that breaks off in the text is asked again; what had come is void and not said twice."""
    bad = {"response": {"content": LONG}, "chunkSize": 6, "truncateAfterChunks": 8}
    first(server, bad, {"content": "fine"})
    for name, outcome in desk.run_all("hi").items():
        assert (outcome.code, kept(outcome)) == (0, "fine"), (name, outcome.err)
        assert len(outcome.of("retry")) == 1
        (turn,) = outcome.of("turn.completed")
        assert turn["model_calls"] == 1


def test_cut_in_a_call(server: Aimock, desk: Desk) -> None:
    """A stream that breaks off in or after a call runs nothing; the call that comes whole runs once."""
    call = {
        "name": "run",
        "arguments": json.dumps({"command": "echo $PPID >> ran.txt", "need": ["write"]}),
        "id": "call_run",
    }
    bad = {"response": {"content": LONG, "toolCalls": [call]}, "chunkSize": 30, "truncateAfterChunks": 3}
    first(server, bad, {"toolCalls": [call]}, {"content": "fine"})
    for name, outcome in desk.run_all("hi").items():
        assert (outcome.code, kept(outcome)) == (0, "fine"), (name, outcome.err)
        assert len(outcome.of("retry")) == 1
        assert len(outcome.of("tool.call_end")) == 1
    assert len((desk.workspace / "ran.txt").read_text().splitlines()) == len(DIALECTS)
