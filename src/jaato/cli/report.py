"""What `jaato run --output json` says at the end: one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from jaato.agent.session import Session
from jaato.errors import JaatoError
from jaato.protocol.events import ToolCallEnd, TurnCompleted
from jaato.protocol.messages import Usage


def document_of(
    session: Session,
    turns: Sequence[TurnCompleted],
    below: Sequence[TurnCompleted],
    denied: Sequence[ToolCallEnd],
    data: Any,
    code: int,
    problem: JaatoError | None,
) -> dict[str, Any]:
    """A run that has ended: its last text, what it took in all its turns and those of subagents, what was denied, and what went wrong."""
    from jaato.runtime.result import last_text

    usage, cost = Usage(), 0.0
    all_turns = [*turns, *below]
    for turn in all_turns:
        usage, cost = usage.plus(turn.usage), cost + (turn.cost_usd or 0.0)
    priced = all(turn.cost_usd is not None for turn in all_turns)
    spoke = turns[-1].model_calls > 0
    return {
        "text": last_text(session) if spoke else "",
        "data": data,
        "session_id": session.state.session_id,
        "provider": session.state.provider,
        "model": session.state.model,
        "reason": turns[-1].reason,
        "exit_code": code,
        "usage": {name: getattr(usage, name) for name in usage.__struct_fields__},
        "cost_usd": cost if priced else None,
        "duration_s": round(sum(turn.duration_s for turn in turns), 3),
        "model_calls": sum(turn.model_calls for turn in all_turns),
        "tool_calls": sum(turn.tool_calls for turn in all_turns),
        "denied": [denial(session, event) for event in denied],
        "error": {"code": problem.code, "message": str(problem)} if problem else None,
    }


def failure_of(session: Session | None, error: JaatoError) -> dict[str, Any]:
    """A run that could not begin, or whose answer could not be used."""
    return {
        "text": "",
        "data": None,
        "session_id": session.state.session_id if session else None,
        "reason": "error",
        "exit_code": error.exit_code,
        "error": {"code": error.code, "message": str(error)},
    }


def denial(session: Session, event: ToolCallEnd) -> dict[str, Any]:
    """A denied call as data."""
    permission, member = event.permission, session.journal.family.members.get(event.agent_id)
    state = session.state if member is None else member.state
    asked = next(
        (
            call.arguments
            for message in reversed(state.messages)
            for call in message.function_calls
            if call.call_id == event.call_id
        ),
        {},
    )
    who = {} if member is None else {"agent_id": event.agent_id}
    return who | {
        "tool": event.tool,
        "arguments": asked,
        "reason": permission.reason if permission else "",
        "method": permission.method if permission else "",
    }


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()
