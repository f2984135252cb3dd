"""The result of a run, folded from its events: its exit code, and the document of `--output json`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from jaato.cli.exit_codes import DENIED, ERROR, INTERRUPTED, OK
from jaato.errors import JaatoError, LimitReached, from_code
from jaato.protocol.events import (
    BackgroundUpdated,
    Event,
    MessageModel,
    MessageUser,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.messages import Usage


class RunResult:
    """The result of a run: model, turns, last text, calls, and the background tasks still running."""

    def __init__(self) -> None:
        self.session_id = ""
        self.agent_id = ""
        self.provider = ""
        self.model = ""
        self.turns: list[TurnCompleted] = []
        self.subagent_turns: list[TurnCompleted] = []
        self.text = ""
        self.arguments: dict[str, dict[str, Any]] = {}
        """The arguments of each call, by its id."""
        self.tasks: dict[str, BackgroundUpdated] = {}
        self.began = False
        """Whether the prompt is in the log; what came before does not belong to this run."""
        self._once = self._turn_id = ""

    def open(self, session_id: str, agent_id: str, provider: str, model: str) -> None:
        """Set the session, once it is open."""
        self.session_id, self.agent_id, self.provider, self.model = session_id, agent_id, provider, model

    def expect(self, once: str) -> None:
        """Set the idempotency key of the message whose turn comes next."""
        self._once, self._turn_id = once, ""

    @property
    def is_running(self) -> bool:
        """Whether the turn of the expected message has not ended."""
        return all(turn.turn_id != self._turn_id for turn in self.turns)

    def __call__(self, event: Event) -> None:
        """Fold one event."""
        match event:
            case MessageUser() if event.message.once == self._once:
                self.began, self._turn_id, self.text = True, event.turn_id, ""
            case MessageModel():
                self.arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
                if event.agent_id == self.agent_id:
                    self.text = event.message.text
            case ToolCallEnd(edited=dict(edited)):
                self.arguments[event.call_id] = edited
            case TurnCompleted() if self.began:
                (self.turns if event.agent_id == self.agent_id else self.subagent_turns).append(event)
            case BackgroundUpdated(status="running"):
                self.tasks[event.task_id] = event
            case BackgroundUpdated():
                self.tasks.pop(event.task_id, None)

    def exit_code(self, *, denied_last: bool) -> int:
        """The exit code for the last turn. Raises the error that ended it."""
        turn = self.turns[-1]
        match turn.reason:
            case "error" | "limit":
                if turn.error is not None:
                    raise from_code(turn.error.code, turn.error.message)
                raise LimitReached("The turn reached its limit.")
            case "cancelled" | "interrupted":
                return INTERRUPTED
            case "refusal":
                return ERROR
            case "length":
                return LimitReached.exit_code
        return DENIED if denied_last else OK

    def document(
        self, denied: Sequence[ToolCallEnd], data: Any, code: int, problem: JaatoError | None
    ) -> dict[str, Any]:
        """The document of a run that ended: text, usage including that of subagents, denied calls and the error."""
        turns, all_turns = self.turns, [*self.turns, *self.subagent_turns]
        usage, cost = Usage(), 0.0
        for turn in all_turns:
            usage, cost = usage.plus(turn.usage), cost + (turn.cost_usd or 0.0)
        priced = all(turn.cost_usd is not None for turn in all_turns)
        return {
            "text": self.text if turns[-1].model_calls > 0 else "",
            "data": data,
            "session_id": self.session_id,
            "provider": self.provider,
            "model": self.model,
            "reason": turns[-1].reason,
            "exit_code": code,
            "usage": {name: getattr(usage, name) for name in usage.__struct_fields__},
            "cost_usd": cost if priced else None,
            "duration_s": round(sum(turn.duration_s for turn in turns), 3),
            "model_calls": sum(turn.model_calls for turn in all_turns),
            "tool_calls": sum(turn.tool_calls for turn in all_turns),
            "denied": [self._denial(event) for event in denied],
            "error": {"code": problem.code, "message": str(problem)} if problem else None,
        }

    def _denial(self, event: ToolCallEnd) -> dict[str, Any]:
        """A denied call as data."""
        permission = event.permission
        who = {} if event.agent_id == self.agent_id else {"agent_id": event.agent_id}
        return who | {
            "tool": event.tool,
            "arguments": self.arguments.get(event.call_id, {}),
            "reason": permission.reason if permission else "",
            "method": permission.method if permission else "",
        }


def failure_document(session_id: str, error: JaatoError) -> dict[str, Any]:
    """The document of a run that could not start, or whose answer is invalid."""
    return {
        "text": "",
        "data": None,
        "session_id": session_id or None,
        "reason": "error",
        "exit_code": error.exit_code,
        "error": {"code": error.code, "message": str(error)},
    }


def print_document(document: Any) -> None:
    """Print a JSON document on one line."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()
