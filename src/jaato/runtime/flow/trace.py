"""The trace of a flow: its records, written to a file of JSON lines as they happen, and validated when read back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from jaato.agent.event_redaction import redact_struct
from jaato.errors import ConfigError
from jaato.log import logger
from jaato.protocol.events.turn import now
from jaato.protocol.messages import FinishReason, Problem, ToolCall, ToolResult, Usage
from jaato.tools.filesystem.atomic import read_bounded
from jaato.tools.redaction.redactor import Redactor

FORMAT = 1
MOST_STEPS, MAX_INSTRUCTION_CHARS, MOST_ROOM_CHARS = 50, 1_000_000, 24_000
Kind = Literal["plan", "tool", "chat"]
StepStatus = Literal["running", "ok", "failed", "denied", "skipped", "cancelled", "interrupted"]
Status = Literal["ok", "failed", "denied", "limit", "cancelled", "interrupted"]
"""`interrupted`: the program ended in the middle of it."""


class Place(Struct, frozen=True, omit_defaults=True):
    """A registry: what it is called, where it is, and whether it is configured under that name."""

    name: str
    url: str
    configured: bool = False


class Offer(Struct, frozen=True, omit_defaults=True):
    """A tool as the planner sees it, and whose it is."""

    name: str
    description: str
    registry: str = ""


class Planned(Struct, frozen=True, omit_defaults=True):
    """A step of the plan: which tool is to be called, and what for."""

    tool: str
    purpose: str = ""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a trace; `at` is ISO 8601 UTC."""

    at: str = field(default_factory=now)


class Begun(Record, frozen=True, kw_only=True, tag="flow.begun"):
    """A flow begins. `flow_id` is the session whose log it is in."""

    format: int
    flow_id: str
    instruction: str
    registries: list[Place]
    max_steps: int
    jaato_version: str


class Offered(Record, frozen=True, kw_only=True, tag="flow.offered"):
    """The tools there are: those a planner may be shown, how many there are in all, and which registries fail."""

    tools: list[Offer]
    known: int
    problems: list[str] = []


class Answering(Record, frozen=True, kw_only=True, tag="flow.answering"):
    """Who answers: the model, in which turn of the session, with room for how many characters of text of others."""

    provider: str
    model: str
    turn_id: str
    trace_id: str
    room_chars: int


class Replied(Record, frozen=True, kw_only=True, tag="model.replied"):
    """A reply of the model. `asked` is a digest of all it was asked with; times are in seconds, cost in US dollars."""

    step_id: str
    attempt: int
    asked: str
    text: str = ""
    call: ToolCall | None = None
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_s: float = 0.0


class PlanMade(Record, frozen=True, kw_only=True, tag="flow.planned"):
    """The plan; empty where no tool is needed."""

    steps: list[Planned]


class StepBegun(Record, frozen=True, kw_only=True, tag="step.begun"):
    """A step begins."""

    step_id: str
    kind: Kind
    tool: str = ""
    registry: str = ""
    purpose: str = ""


class Described(Record, frozen=True, kw_only=True, tag="step.described"):
    """The definition of a step's tool, as its registry gave it."""

    step_id: str
    description: str
    parameters: dict[str, Any]


class Called(Record, frozen=True, kw_only=True, tag="step.called"):
    """A call of a step's tool: its arguments and its result; refused arguments were never sent."""

    step_id: str
    attempt: int
    arguments: dict[str, Any]
    result: ToolResult
    duration_s: float = 0.0


class StepEnded(Record, frozen=True, kw_only=True, tag="step.ended"):
    """A step has ended."""

    step_id: str
    status: StepStatus
    error: Problem | None = None
    duration_s: float = 0.0


class Ended(Record, frozen=True, kw_only=True, tag="flow.ended"):
    """The flow has ended."""

    status: Status
    error: Problem | None = None
    duration_s: float = 0.0


AnyRecord = (
    Begun | Offered | Answering | Replied | PlanMade | StepBegun | Described | Called | StepEnded | Ended
)


MAX_TRACE_BYTES = 64_000_000
MAX_RECORDS = 10_000
LOG = logger("flow")
DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class Recorder:
    """Takes every record of a flow, stores it without secrets, and writes it to the trace file, where one is wanted, before
    `on_record` is called. `fault` says why the file ends before the flow does; empty where it does not.
    """

    def __init__(
        self, path: Path | None, on_record: Callable[[AnyRecord], object], secrets: Redactor
    ) -> None:
        self.records: list[AnyRecord] = []
        self._secrets = secrets
        self.fault = ""
        self.path = path
        self._on_record = on_record
        self._file: int | None = None if path is None else create_file(path)

    def __call__(self, record: AnyRecord) -> None:
        """Record one event."""
        record = redact_struct(record, self._secrets)
        self.records.append(record)
        if self._file is not None:
            self._write(msgspec.json.encode(record) + b"\n")
        try:
            self._on_record(record)
        except Exception:
            LOG.exception("A listener failed on %s", type(record).__name__)

    def _write(self, line: bytes) -> None:
        """Write a whole line or nothing; the flow continues when the file cannot be written."""
        assert self._file is not None
        size = os.fstat(self._file).st_size
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.fault = f"The trace {self.path} ends early: {error.strerror or error}."
            LOG.warning("%s", self.fault)
            os.ftruncate(self._file, size)
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def create_file(path: Path) -> int:
    """A new file, readable by its owner alone. Raises `ConfigError`, also where there is one already."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"There is something at {path} already; name a file that is not there yet."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"The trace {path} cannot be written: {reason}.") from None


class Trace(NamedTuple):
    """The records of a trace file. `torn`: its last line is not whole, as when the program was killed."""

    records: list[AnyRecord]
    torn: bool

    @property
    def begun(self) -> Begun:
        """How the flow began."""
        first = self.records[0]
        assert isinstance(first, Begun)
        return first

    @property
    def ended(self) -> Ended | None:
        """How the flow ended; None where the trace ends before."""
        last = self.records[-1]
        return last if isinstance(last, Ended) else None


def read_trace(path: Path) -> Trace:
    """A trace, checked. Raises `ConfigError` saying what is wrong with it."""
    if path.exists() and not path.is_file():
        raise ConfigError(
            f"{path} is no regular file; name a trace that `jaato flow run --trace FILE` has written."
        )
    content = read_bounded(path, MAX_TRACE_BYTES)
    if content is None:
        raise ConfigError(f"There is no file {path}; `jaato flow run --trace FILE` writes one.")
    lines = content.split(b"\n")
    tail = lines.pop()
    if len(lines) > MAX_RECORDS:
        raise ConfigError(f"{path} has {len(lines):,} lines; a trace has at most {MAX_RECORDS:,}.")
    records = [decode_record(line, path, number) for number, line in enumerate(lines, 1)]
    check(records, path)
    return Trace(records, bool(tail))


def decode_record(line: bytes, path: Path, number: int) -> AnyRecord:
    """One record. Raises `ConfigError`."""
    try:
        return DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}, line {number} is no record of a flow: {str(error)[:300]}.") from None


def check(records: list[AnyRecord], path: Path) -> None:
    """Raise `ConfigError` where the records do not make a flow, however far it came, or have bounds that no flow has."""
    match records:
        case [Begun(format=spoken), *_] if spoken != FORMAT:
            raise ConfigError(f"{path} is a trace of format {spoken}; {FORMAT} is understood here.")
        case [Begun(), *_]:
            pass
        case _:
            raise ConfigError(f"{path} is no trace of a flow: it does not begin with flow.begun.")
    begun: set[str] = set()
    for number, record in enumerate(records, 1):
        if wrong := find_fault(record, begun, is_first=number == 1, is_last=number == len(records)):
            raise ConfigError(f"{path}, line {number}: {wrong}.")


def find_fault(record: AnyRecord, begun: set[str], *, is_first: bool, is_last: bool) -> str:
    """What is wrong with a record after these steps were begun; empty where nothing is."""
    step_id = getattr(record, "step_id", None)
    match record:
        case Begun() if not is_first:
            return "a flow begins twice; a trace has one"
        case Begun(max_steps=steps, instruction=text) if (
            not 1 <= steps <= MOST_STEPS or len(text) > MAX_INSTRUCTION_CHARS
        ):
            return "no flow has such bounds"
        case Answering(room_chars=room) if not 0 < room <= MOST_ROOM_CHARS:
            return "no prompt has such room"
        case Ended() if not is_last:
            return "the flow ends, and the trace goes on"
        case StepBegun() if step_id in begun:
            return f"the step {step_id[:40]!r} begins twice"
        case StepBegun():
            begun.add(record.step_id)
        case _ if step_id is not None and step_id not in begun:
            return f"the step {step_id[:40]!r} was never begun"
    return ""
