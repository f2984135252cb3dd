"""A trace played again: the same course with the records in the places of model and registries, held against the records."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import msgspec

import jaato
from jaato.errors import JaatoError, PermissionDenied, PluginError, ToolError
from jaato.protocol.messages import Problem, ToolCall
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow.calling import INVALID, MISTAKEN
from jaato.runtime.flow.course import Course
from jaato.runtime.flow.parts import Performed
from jaato.runtime.flow.records import (
    Answering,
    AnyRecord,
    Called,
    Described,
    Ended,
    Offered,
    Record,
    Replied,
    StepEnded,
)
from jaato.runtime.flow.result import FlowRun, fold
from jaato.runtime.flow.trace import Trace
from jaato.runtime.flow.words import Ask, Said
from jaato.tools.schema_bounds import validator_of
from jaato.tools.secrets import placeholder_in
from jaato.tools.unseen import one_line

MAX_SHOWN_CHARS = 300
T = TypeVar("T")


class Differs(JaatoError):
    """A trace does not play again as it was recorded: it was changed, or jaato was."""

    code = "flow_differs"


class Over(Exception):
    """The records are over."""


class Recorded(ToolError):
    """A failure of a registry, as it was recorded."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Replayed(NamedTuple):
    """What was played again. `whole`: to the end of the flow, where the trace has it."""

    run: FlowRun
    whole: bool


class Playback:
    """Stands in for the registries, the model and the pipeline; hears every record, each the one that is due."""

    def __init__(self, trace: Trace) -> None:
        self._records = trace.records
        self._same_version = trace.begun.jaato_version == jaato.__version__
        self._at = 0
        self._described: ToolSpec | None = None

    def __call__(self, record: AnyRecord) -> None:
        """The course has come to a record. Raises `Differs` when it is not the one that is due."""
        due = self._due()
        if plain(record, asked=self._same_version) != plain(due, asked=self._same_version):
            raise Differs(
                f"Line {self._at + 1} of the trace is not what comes of the lines before. There: "
                f"{brief(due)}. Now: {brief(record)}."
            )
        self._at += 1

    def _due(self) -> AnyRecord:
        """The record that comes next. Raises `Over`."""
        if self._at >= len(self._records) or isinstance(self._records[self._at], Ended):
            raise Over
        return self._records[self._at]

    def _wrong(self, wanted: str) -> Differs:
        return Differs(f"Line {self._at + 1} of the trace should be {wanted}, and is {brief(self._due())}.")

    async def offered(self, _instruction: str) -> Offered:
        """The tools there were."""
        match self._due():
            case Offered() as record:
                return record
        raise self._wrong("flow.offered")

    def answering(self) -> Answering:
        """Who answered."""
        match self._due():
            case Answering() as record:
                return record
        raise self._wrong("flow.answering")

    async def described(self, name: str) -> ToolSpec:
        """The tool as it was described. Raises the failure that was recorded."""
        match self._due():
            case Described(description=description, parameters=parameters):
                self._described = ToolSpec(name, description, parameters)
            case StepEnded(error=Problem() as problem):
                raise Recorded(problem)
        if self._described is None or self._described.name != name:
            raise self._wrong("step.described")
        return self._described

    async def ask(self, ask: Ask) -> Said:
        """What the model replied."""
        match self._due():
            case Replied(step_id=ask.step_id, attempt=ask.attempt) as record:
                return Said(record.text, record.call, record.finish_reason, record.usage, record.cost_usd)
        raise self._wrong(f"model.replied in {ask.step_id}")

    async def call(self, step_id: str, tool: ToolSpec, asked: ToolCall) -> Performed:
        """What came of the call; whether its arguments are valid is found out again."""
        match self._due():
            case Called(step_id=of, arguments=arguments, result=result) if of == step_id:
                code = result.error.code if result.error is not None else ""
                wrong = refusal_of(tool, asked, arguments)
                if (
                    wrong != (code if code in (INVALID, MISTAKEN) else "")
                    and placeholder_in(arguments) is None
                ):
                    raise Differs(
                        f"Line {self._at + 1} of the trace: the call should have been "
                        f"{'refused as ' + wrong if wrong else 'made'}, and was not."
                    )
                return Performed(arguments, result)
        raise self._wrong(f"step.called in {step_id}")

    @property
    def left(self) -> list[AnyRecord]:
        """The records that were not come to, but the last."""
        return [record for record in self._records[self._at :] if not isinstance(record, Ended)]


def refusal_of(tool: ToolSpec, asked: ToolCall, arguments: dict[str, Any]) -> str:
    """The code with which a call is refused before it is made; empty for one that may be."""
    if asked.name != tool.name:
        return MISTAKEN
    if asked.malformed is not None:
        return INVALID
    try:
        return INVALID if validator_of(tool.parameters).issues(arguments) else ""
    except PluginError as error:
        raise Differs(f"The definition of {tool.name} in the trace cannot be used: {error}") from None


def replay(trace: Trace) -> Replayed:
    """Play a trace again, without model and registries. Raises `Differs`."""
    playback = Playback(trace)
    course = Course(trace.begun, playback, playback)

    async def whole() -> Problem | None:
        return await course.find() or await course.take(playback.answering(), playback)

    played = False
    problem: Problem | None = None
    try:
        problem = stepped(whole())
        played = True
    except Over:
        pass
    except Differs:
        raise
    except JaatoError:
        pass  # the flow ended so when it ran, as the record of it says
    if playback.left:
        raise Differs(f"The trace goes on where its flow is over, with {brief(playback.left[0])}.")
    if trace.ended is not None and not may_end(trace.ended, played, problem):
        why = "nothing failed" if played and problem is None else "it did not come to its end"
        raise Differs(
            f"Line {len(trace.records)} of the trace cannot be how its flow ended, for "
            f"{f'a step failed ({problem.code})' if problem is not None else why}: {brief(trace.ended)}."
        )
    return Replayed(fold(trace.records), trace.ended is not None)


def may_end(ended: Ended, played: bool, problem: Problem | None) -> bool:
    """Whether a flow can have ended so that was played to its end or not, with this problem of a step. What happens outside
    of its course (it is stopped, the log cannot be kept) ends a flow too, with an error."""
    match ended.status:
        case "ok":
            return played and problem is None
        case "denied":
            return played and problem is not None and problem.code == PermissionDenied.code
        case "failed":
            denied = problem is not None and problem.code == PermissionDenied.code
            return ended.error is not None and not (denied and ended.error == problem)
    return ended.status != "interrupted"


def stepped(coroutine: Coroutine[Any, Any, T]) -> T:
    """What something gives that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise AssertionError("a playback waited for something")


def plain(record: AnyRecord, *, asked: bool) -> dict[str, Any]:
    """A record as data, without its times; prompts of another version are others."""
    data: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("at", "duration_s", *(() if asked else ("asked",))):
        data.pop(name, None)
    return data


def brief(record: Record) -> str:
    """A record in one line."""
    data = {
        key: value for key, value in msgspec.to_builtins(record).items() if key not in ("at", "duration_s")
    }
    return one_line(msgspec.json.encode(data).decode(), MAX_SHOWN_CHARS)
