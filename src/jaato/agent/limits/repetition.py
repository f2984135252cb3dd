"""Detects repeated steps of an agent: a fold of its log that keeps hashes of the last few steps."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from jaato.protocol.events import ClarificationResolved
from jaato.protocol.messages import ToolCall, ToolResult

Kind = Literal["call", "cycle", "error"]


class Thresholds(NamedTuple):
    """After how many steps something is done: of the same calls, of the same error, and of a cycle by its length."""

    call: int
    error: int
    cycle: dict[int, int]


NUDGE_AFTER = Thresholds(4, 5, {2: 8, 3: 8, 4: 12, 5: 15, 6: 18})
"""Steps after which the model gets a message about a repetition; of a long cycle three rounds, as two may be chance."""
ASK_AFTER = Thresholds(10, 10, {2: 12, 3: 12, 4: 16, 5: 20, 6: 24})
"""Steps after which the user is asked."""
PERIODS = (1, *NUDGE_AFTER.cycle)
STILL_RUNNING = frozenset(("running", "waiting", "pending", "blocked"))
"""What the `status` or `state` of a result says of something that has not ended; asking for it again is no repetition."""
NUDGE_KEY = "limit:repetition"
"""The idempotency key (`once`) of the message that tells the model."""
QUESTION_CALL = "limit:repetition"
"""The `call_id` of the question to the user, which belongs to no call."""


CONTINUE = ("continue", "y", "yes")
STOP = ("stop", "n", "no")
"""Answers of the user; any other one is what the agent is to do instead."""


class Repetition(msgspec.Struct, frozen=True):
    """What an agent repeats: `steps` in a row are alike, or alternate; `tools` are those it calls in them."""

    kind: Kind
    steps: int
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        """The repetition in words."""
        names = ", ".join(self.tools)
        match self.kind:
            case "error":
                return f"{names} has failed {self.steps} times in a row with the same error"
            case "cycle":
                return f"the last {self.steps} steps repeat the same calls in turns ({names}), with the same results"
        if not self.tools:
            return f"the last {self.steps} replies are the same"
        return f"{names} was called {self.steps} times in a row with the same arguments and the same result"


class RepetitionFold(msgspec.Struct):
    """Counts repeated steps. `add_step` and `reset` cost the same for any length of the history."""

    nudged: bool = False
    """Whether the model got a message about the present repetition."""
    steps: deque[bytes] = msgspec.field(default_factory=lambda: deque(maxlen=max(PERIODS)))
    tools: deque[tuple[str, ...]] = msgspec.field(default_factory=lambda: deque(maxlen=max(PERIODS)))
    runs: dict[int, int] = msgspec.field(default_factory=dict)
    """By period, how many steps in a row equal the one a period before; none is 0."""
    error: bytes = b""
    errors: int = 0

    def reset(self) -> None:
        """Start anew: a person has spoken."""
        self.steps.clear()
        self.tools.clear()
        self.runs.clear()
        self.error, self.errors, self.nudged = b"", 0, False

    def add_step(self, calls: Sequence[ToolCall], results: dict[str, ToolResult]) -> None:
        """Count one reply with the results of its calls."""
        given = [results[call.call_id] for call in calls]
        if any(map(is_still_running, given)):
            self.reset()
            return
        parts = [
            (call.name, call.arguments, call.malformed, get_outcome(results[call.call_id])) for call in calls
        ]
        tools = tuple(dict.fromkeys(call.name for call in calls))
        errors = {(one.name, one.error.code, one.error.message) for one in given if one.error is not None}
        failed = len(errors) == 1 and all(not one.ok for one in given)
        self._count(hash_data(parts), tools, hash_data(sorted(errors)) if failed else b"")

    def add_text(self, text: str) -> None:
        """Count a reply without calls."""
        self._count(hash_data(text), (), b"")

    def _count(self, step: bytes, tools: tuple[str, ...], error: bytes) -> None:
        steps, runs = self.steps, self.runs
        self.runs = {
            period: runs.get(period, 0) + 1
            for period in PERIODS
            if period <= len(steps) and steps[-period] == step
        }
        self.errors = 0 if not error else self.errors + 1 if error == self.error else 1
        self.error = error
        self.steps.append(step)
        self.tools.append(tools)
        if self.nudged and self.find(NUDGE_AFTER) is None:
            self.nudged = False

    def find(self, after: Thresholds) -> Repetition | None:
        """The repetition that has lasted for so many steps; None when there is none."""
        runs = self.runs
        if not runs and self.errors < after.error:
            return None  # as after most steps
        recent = list(self.tools)
        if 1 in runs and runs[1] + 1 >= after.call:
            return Repetition("call", runs[1] + 1, recent[-1])
        for period, steps in after.cycle.items():
            if period in runs and runs[period] + period >= steps:
                names = dict.fromkeys(name for tools in recent[-period:] for name in tools)
                return Repetition("cycle", runs[period] + period, tuple(names))
        if self.errors >= after.error:
            return Repetition("error", self.errors, recent[-1])
        return None


def is_continued(call_id: str, resolved: object) -> bool:
    """Whether the user has answered the question about a repetition with `continue`."""
    if call_id != QUESTION_CALL or not isinstance(resolved, ClarificationResolved):
        return False
    return any((answer or "").strip().lower() in CONTINUE for _, answer in resolved.qa_pairs)


def is_still_running(result: ToolResult) -> bool:
    """Whether a result says that what it was asked about has not ended."""
    data = result.structured
    return isinstance(data, dict) and (
        is_running_word(data.get("status")) or is_running_word(data.get("state"))
    )


def is_running_word(value: object) -> bool:
    """Whether a status is that of unfinished work."""
    return isinstance(value, str) and value in STILL_RUNNING


def get_outcome(result: ToolResult) -> tuple[object, ...]:
    """What the model reads of a result."""
    error = result.error
    texts = result.texts
    return (result.ok, texts, None if error is None else (error.code, error.message))


SORTED = msgspec.json.Encoder(order="deterministic")


def hash_data(value: object) -> bytes:
    """A short hash of data; dictionaries with the same items in another order have the same."""
    return hashlib.blake2b(SORTED.encode(value), digest_size=12).digest()
