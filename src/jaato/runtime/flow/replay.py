"""Plays a trace again: the same flow with the records in the places of model and registries, then compared with them."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from jaato.errors import JaatoError, PermissionDenied, PluginError, ToolError
from jaato.protocol.messages import Problem, ToolCall
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow.planner import StepPrompt
from jaato.runtime.flow.result import FlowRun, fold
from jaato.runtime.flow.runner import INVALID, MISTAKEN, FlowRunner
from jaato.runtime.flow.trace import (
    Answering,
    AnyRecord,
    Called,
    Described,
    Ended,
    Offered,
    Replied,
    StepEnded,
    Trace,
)
from jaato.tools.invisible_text import one_line
from jaato.tools.pipeline import run_without_loop
from jaato.tools.redaction.redactor import placeholder_in
from jaato.tools.schema import validator_of
from jaato.version import __version__

MAX_SHOWN_CHARS = 300


class ReplayMismatch(JaatoError):
    """A trace does not play again as it was recorded: it was changed, or jaato was."""

    code = "flow_differs"


class EndOfTrace(Exception):
    """The trace has no record of what comes next."""


class RecordedError(ToolError):
    """A failure of a registry, as it was recorded."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Replayed(NamedTuple):
    """What was played again. `whole`: to the end of the flow, where the trace has it."""

    run: FlowRun
    whole: bool


class Playback:
    """Gives what a trace recorded of registries, model and calls; what it has no record of raises `EndOfTrace`."""

    def __init__(self, trace: Trace) -> None:
        self._records = trace.records

    def _find(self, kind: type[AnyRecord], step_id: str = "", attempt: int = 0) -> list[Any]:
        return [
            one
            for one in self._records
            if isinstance(one, kind)
            and getattr(one, "step_id", "") == step_id
            and attempt in (0, getattr(one, "attempt", 0))
        ]

    def _first(self, kind: type[AnyRecord], step_id: str = "", attempt: int = 0) -> Any:
        found = self._find(kind, step_id, attempt)
        if not found:
            raise EndOfTrace
        return found[0]

    async def offered(self, _instruction: str) -> Offered:
        """The tools there were."""
        found: Offered = self._first(Offered)
        return found

    def answering(self) -> Answering:
        """Which model answered."""
        found: Answering = self._first(Answering)
        return found

    async def described(self, prompt: StepPrompt, name: str) -> ToolSpec:
        """The tool as it was described, once more where it had changed. Raises the failure that was recorded."""
        ended = self._find(StepEnded, prompt.step_id)
        if ended and ended[0].error and not self._find(Replied, prompt.step_id, prompt.attempt):
            raise RecordedError(ended[0].error)
        found = self._find(Described, prompt.step_id)[: prompt.attempt]
        if not found:
            raise EndOfTrace
        return ToolSpec(name, found[-1].description, found[-1].parameters)

    async def reply(self, prompt: StepPrompt) -> Replied:
        """What the model replied."""
        found: Replied = self._first(Replied, prompt.step_id, prompt.attempt)
        return found

    async def call(self, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall) -> Called:
        """The result of the call; whether its arguments are valid is checked again. Raises `ReplayMismatch`."""
        found: Called = self._first(Called, prompt.step_id, prompt.attempt)
        code = found.result.error.code if found.result.error is not None else ""
        refused = refusal_of(tool, asked, found.arguments)
        was_refused = code if code in (INVALID, MISTAKEN) else ""
        if refused != was_refused and placeholder_in(found.arguments) is None:
            raise ReplayMismatch(
                f"Line {self._records.index(found) + 1} of the trace: the call should have been "
                f"{'refused as ' + refused if refused else 'made'}, and was not."
            )
        return found


def refusal_of(tool: ToolSpec, asked: ToolCall, arguments: dict[str, Any]) -> str:
    """The code with which a call is refused before it is made; empty for one that may be."""
    if asked.name != tool.name:
        return MISTAKEN
    if asked.malformed is not None:
        return INVALID
    try:
        return INVALID if validator_of(tool.parameters).issues(arguments) else ""
    except PluginError as error:
        raise ReplayMismatch(
            f"Line 1 and on: the definition of {tool.name} in the trace cannot be used: {error}"
        ) from None


def replay(trace: Trace) -> Replayed:
    """Play a trace again, without model and registries. Raises `ReplayMismatch`."""
    playback = Playback(trace)
    played: list[AnyRecord] = []
    runner = FlowRunner(trace.begun, playback, played.append)
    is_done = False
    problem: Problem | None = None

    async def whole() -> None:
        nonlocal is_done, problem
        problem = await runner.find_tools() or await runner.run(playback.answering(), playback)
        is_done = True

    try:
        run_without_loop(whole())
    except EndOfTrace:
        pass
    except ReplayMismatch as error:
        compare(trace, played)
        raise error from None
    except JaatoError:
        pass  # the flow ended so when it ran, as the record of it says
    compare(trace, played)
    recorded = len(trace.records) - (trace.ended is not None)
    if trace.ended is not None and not may_end(trace.ended, is_done and len(played) == recorded, problem):
        raise ReplayMismatch(
            f"Line {len(trace.records)} of the trace cannot be how its flow ended: {to_line(trace.ended)}."
        )
    return Replayed(fold(trace.records), trace.ended is not None)


def compare(trace: Trace, played: list[AnyRecord]) -> None:
    """Raise `ReplayMismatch` for the first record that the flow does not come to again; it may go on where the trace ends."""
    same_version = trace.begun.jaato_version == __version__
    recorded = [record for record in trace.records if not isinstance(record, Ended)]
    for number, (then, now) in enumerate(zip_longest(recorded, played[: len(recorded)]), 1):
        if now is None or to_plain_data(then, asked=same_version) != to_plain_data(now, asked=same_version):
            raise ReplayMismatch(
                f"Line {number} of the trace is not what comes of the lines before. There: {to_line(then)}. "
                f"Now: {'nothing' if now is None else to_line(now)}."
            )


def may_end(ended: Ended, is_done: bool, problem: Problem | None) -> bool:
    """Whether a flow can have ended so that was played to its end or not, with this problem of a step. What happens
    around it (it is stopped, the log cannot be kept) ends a flow too, with an error."""
    denied = problem is not None and problem.code == PermissionDenied.code
    match ended.status:
        case "ok":
            return is_done and problem is None
        case "denied":
            return is_done and denied
        case "failed":
            return ended.error is not None and not (denied and ended.error == problem)
    return ended.status != "interrupted"


def to_plain_data(record: AnyRecord, *, asked: bool) -> dict[str, Any]:
    """A record as data, without its times; prompts of another version are others."""
    data: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("at", "duration_s", *(() if asked else ("asked",))):
        data.pop(name, None)
    return data


def to_line(record: AnyRecord) -> str:
    """A record in one line."""
    return one_line(msgspec.json.encode(to_plain_data(record, asked=True)).decode(), MAX_SHOWN_CHARS)
