"""What happens in a flow, as the records of its trace; the last one says how it ended."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from jaato.protocol.events.envelope import now
from jaato.protocol.messages import FinishReason, Problem, ToolCall, ToolResult, Usage

FORMAT = 1
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
    """A call of a step's tool: what it was called with, and what came of it; refused arguments were never sent."""

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
