"""What every event and command has, and what they are called."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from tests.protocol.strategies import COMMAND_TYPES, EVENT_TYPES, values_of

from jaato.protocol.codec import encode
from jaato.protocol.events import Ephemeral, EventBase, PlanCleared, now
from jaato.protocol.frames import Result

EVENT_NAMES = """
    session.info agent.created agent.output agent.status_changed agent.completed tool.call_start tool.output
    tool.call_end permission.requested permission.resolved clarification.question clarification.resolved
    plan.updated plan.cleared context.updated turn.progress turn.completed message.user message.model
    tool.activated permission.granted permission.revoked session.list error retry init.progress system.message
    mid_turn.queued mid_turn.injected gc.completed waypoint.updated background.updated history tools.status
    command.list memory.list workspace.files_changed
"""
COMMAND_NAMES = """
    message.send permission.response clarification.response session.stop session.attach session.create
    session.delete session.list command.execute history.request tools.disable client.config
"""
DOCUMENTED_EVENTS = set(EVENT_NAMES.split())
DOCUMENTED_COMMANDS = set(COMMAND_NAMES.split())
OUR_OWN = {"session.created", "session.updated", "shared.updated", "context.pinned", "budget.updated"}
"""Events of the log that no document names."""
OUR_COMMANDS = {
    "turn.continue",
    "task.stop",
    "call.stop",
    "session.detach",
    "session.update",
    "session.fork",
    "session.settle",
    "blob.request",
    "server.reload",
    "pairing.create",
    "files.find",
    "file.response",
}
"""Commands that no document names."""


def tag(kind: type[Any]) -> str:
    return str(kind.__struct_config__.tag)


@pytest.mark.spec("C8", "Server and events")
@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_events_have_documented_names(kind: type[Any]) -> None:
    """The `type` of every event is one the documents name, or one of those of the log's own, and every documented one is
    there; a list of sessions and a part of the history are replies."""
    assert tag(kind) in DOCUMENTED_EVENTS | OUR_OWN
    replies = {tag(one) for one in get_args(Result)}
    assert {tag(one) for one in EVENT_TYPES} | replies >= DOCUMENTED_EVENTS


@pytest.mark.spec("C8", "Server and events", "C8.events.3")
@pytest.mark.parametrize("kind", COMMAND_TYPES)
def test_commands_have_documented_names(kind: type[Any]) -> None:
    """The `type` of every command is one the documents name, or one of ours, and every documented one is there."""
    assert tag(kind) in DOCUMENTED_COMMANDS | OUR_COMMANDS
    assert {tag(one) for one in COMMAND_TYPES} >= DOCUMENTED_COMMANDS


def test_names_follow_the_classes() -> None:
    """No two events, and no two commands, share a `type`; the name of each is that of its class."""
    for kinds in (EVENT_TYPES, COMMAND_TYPES):
        assert len({tag(kind) for kind in kinds}) == len(kinds)
        for kind in kinds:
            words = re.sub(r"[._]", "", tag(kind))
            assert kind.__name__.lower() in {words, f"{words}raised"}


@pytest.mark.spec("C8", "Server and events")
@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_event_says_what_when_where_and_which(kind: type[Any]) -> None:
    """Every encoded event has `type`, `timestamp`, `session_id`, `agent_id` and `seq`, whatever
    their values.
    """

    @settings(max_examples=5, deadline=None, derandomize=True, database=None)
    @given(values_of(kind))
    def check(event: Any) -> None:
        fields = msgspec.json.decode(encode(event))
        assert fields["type"] == tag(kind)
        for name in ("timestamp", "session_id", "agent_id", "seq"):
            assert fields[name] == getattr(event, name)

    check()


@pytest.mark.spec("S3", "Event Protocol")
def test_there_are_at_least_twenty_five_events() -> None:
    """The protocol has 25 event types or more."""
    assert len(EVENT_TYPES) >= 25


@pytest.mark.parametrize("kind", [*EVENT_TYPES, *COMMAND_TYPES])
def test_structs_are_frozen_and_described(kind: type[Any]) -> None:
    """Data that travels cannot be changed, and says in a sentence what it is."""
    assert kind.__struct_config__.frozen
    assert (kind.__doc__ or "").endswith(".")


def test_every_event_of_the_module_is_in_the_union() -> None:
    """No event is defined and forgotten."""
    assert {*EventBase.__subclasses__(), *Ephemeral.__subclasses__()} - {Ephemeral} == set(EVENT_TYPES)


def test_what_streams_is_not_stored() -> None:
    """Exactly the deltas, progress and snapshots are ephemeral."""
    assert {tag(kind) for kind in EVENT_TYPES if not kind.durable} == {
        "session.info",
        "agent.output",
        "agent.status_changed",
        "turn.progress",
        "context.updated",
        "tool.output",
        "retry",
        "init.progress",
        "system.message",
        "command.list",
        "memory.list",
    }


def test_timestamps_are_iso_8601_in_utc() -> None:
    """An event is stamped with the present moment, to the millisecond, with a Z."""
    before = datetime.now(UTC)
    text = PlanCleared(session_id="s", agent_id="a", seq=1, plan_id="p").timestamp
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    stamped = datetime.fromisoformat(text)
    assert stamped.tzinfo is not None
    assert abs((stamped - before).total_seconds()) < 60
    assert now() >= text
