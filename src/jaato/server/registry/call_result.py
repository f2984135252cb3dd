"""A call's result and course: what goes with it, how it ended, and its value whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from jaato.errors import JaatoError
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Problem, Text, ToolResult
from jaato.server.registry.limits import Places
from jaato.server.registry.streaming import Heard
from jaato.tools.call import Call

MAX_RESULT_BYTES = 8_000_000

Read = Callable[[str, int, int], bytes]


class TooLarge(JaatoError):
    """A result that is too large to be sent."""

    code = "tool.result_too_large"


def value_of(result: ToolResult, read: Read, *, text: bool) -> Any:
    """The data of a result, else its text; `read(handle, offset, limit)` gives what is kept apart, which is no data where
    it is `text`. Raises `TooLarge`, `StoreError`."""
    if result.structured is not None:
        return result.structured
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if not texts:
        return [msgspec.to_builtins(part) for part in result.content] or None
    if result.handle is None:
        return "\n".join(texts)
    data = read(result.handle, 0, MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The tool has run, and its result has more than {MAX_RESULT_BYTES:,} bytes, which are not sent. "
            "Ask for less at once."
        )
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")


NOT_BEGUN = Problem(code="cancelled", message="Cancelled before it began; nothing was done.")
UNKNOWN = (
    "The call has begun and may have been carried out, but how it ended is not recorded. "
    "Look at what it was to do before it is made again."
)


def had_begun(end: ToolCallEnd) -> bool:
    """Whether the tool was run, as far as the end of its call says: one that was cancelled keeps no permission, and has its
    origin itself where there is no start that has it, and its arguments where it ran all the same."""
    problem = end.result.error
    if problem is not None and problem.code == NOT_BEGUN.code:
        return end.origin is None or end.arguments is not None
    return end.permission is not None


class OutcomeUnknown(JaatoError):
    """A call that may have been carried out, and whose end is not in the log."""

    code = "tool.outcome_unknown"


class Done(NamedTuple):
    """How a call ended: its value, or the problem; in milliseconds. `begun`: the tool was run."""

    value: Any
    problem: Problem | None
    latency_ms: float
    begun: bool = True


@dataclass(frozen=True, slots=True)
class How:
    """What else there is to a call: who hears of it, the place it takes, and what is to be done before it may begin, with
    its session, its id and the last event before it."""

    heard: Heard
    places: Places | None = None
    claim: Callable[[str, str, int], None] | None = None


class Running(Struct, eq=False):
    """A call that is under way and the task it is in; who hears of it, and its end, once that is known. `stopped`: it was
    told to end."""

    task: asyncio.Task[Any] | None
    call: Call
    heard: Heard | None = None
    end: ToolCallEnd | None = None
    stopped: bool = False
