"""What `jaato run --output json` says at the end: one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from jaato.cli.outcome import Outcome
from jaato.errors import JaatoError
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Usage


def document_of(
    outcome: Outcome,
    denied: Sequence[ToolCallEnd],
    data: Any,
    code: int,
    problem: JaatoError | None,
) -> dict[str, Any]:
    """A run that has ended: its last text, what it took in all its turns and those of subagents, what was denied, and
    what went wrong."""
    turns, all_turns = outcome.turns, [*outcome.turns, *outcome.below]
    usage, cost = Usage(), 0.0
    for turn in all_turns:
        usage, cost = usage.plus(turn.usage), cost + (turn.cost_usd or 0.0)
    priced = all(turn.cost_usd is not None for turn in all_turns)
    spoke = turns[-1].model_calls > 0
    return {
        "text": outcome.text if spoke else "",
        "data": data,
        "session_id": outcome.session_id,
        "provider": outcome.provider,
        "model": outcome.model,
        "reason": turns[-1].reason,
        "exit_code": code,
        "usage": {name: getattr(usage, name) for name in usage.__struct_fields__},
        "cost_usd": cost if priced else None,
        "duration_s": round(sum(turn.duration_s for turn in turns), 3),
        "model_calls": sum(turn.model_calls for turn in all_turns),
        "tool_calls": sum(turn.tool_calls for turn in all_turns),
        "denied": [denial(outcome, event) for event in denied],
        "error": {"code": problem.code, "message": str(problem)} if problem else None,
    }


def failure_of(session_id: str, error: JaatoError) -> dict[str, Any]:
    """A run that could not begin, or whose answer could not be used."""
    return {
        "text": "",
        "data": None,
        "session_id": session_id or None,
        "reason": "error",
        "exit_code": error.exit_code,
        "error": {"code": error.code, "message": str(error)},
    }


def denial(outcome: Outcome, event: ToolCallEnd) -> dict[str, Any]:
    """A denied call as data."""
    permission = event.permission
    who = {} if event.agent_id == outcome.agent_id else {"agent_id": event.agent_id}
    return who | {
        "tool": event.tool,
        "arguments": outcome.arguments.get(event.call_id, {}),
        "reason": permission.reason if permission else "",
        "method": permission.method if permission else "",
    }


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()
