"""The course of a call: what goes with it, what is known of it while it runs, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import Struct

from jaato.errors import JaatoError
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Problem
from jaato.server.registry.heard import Heard
from jaato.server.registry.limits import Places
from jaato.tools.call import Call

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
