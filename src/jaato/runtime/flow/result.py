"""`FlowRun` and its `FlowStep`s: what a flow did, folded from its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from jaato.errors import LimitReached, PermissionDenied, from_code
from jaato.protocol.messages import Problem, Usage
from jaato.runtime.flow.trace import (
    Answering,
    AnyRecord,
    Begun,
    Called,
    Described,
    Ended,
    Kind,
    Offered,
    Place,
    PlanMade,
    Planned,
    Replied,
    Status,
    StepBegun,
    StepEnded,
    StepStatus,
)

CANCELLED_CODE, INTERRUPTED_CODE, FAILED_CODE = 130, 1, 1


class FlowStep(Struct, kw_only=True):
    """One step of a flow: the plan, a tool's call, or the answer.

    `args` are what the tool was called with at last, `issues` what was wrong with arguments that were refused, each
    `{path, message}`. `attempts` counts replies of the model, at most two. `request_id` is the call's id, which the
    registry got as `X-Request-Id`. `result` is data where the tool gave data, else its text, cut where it is long.
    """

    step_id: str
    kind: Kind
    status: StepStatus = "running"
    tool: str = ""
    registry: str = ""
    purpose: str = ""
    parameters: dict[str, Any] | None = None
    args: dict[str, Any] | None = None
    issues: list[dict[str, str]] = field(default_factory=list)
    attempts: int = 0
    request_id: str = ""
    result: Any = None
    text: str = ""
    error: Problem | None = None
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    begun_at: str = ""
    duration_s: float = 0.0


class FlowRun(Struct, kw_only=True):
    """A flow: what was asked, the steps it took, the answer, and what it cost.

    `flow_id` is the id of the session that has its log. `problems` says which registries could not be asked. The error
    is that of the step it failed in, or the model's. Durations in seconds, `cost_usd` None where the model's prices are not known.
    """

    flow_id: str = ""
    trace_id: str = ""
    instruction: str = ""
    status: Status = "interrupted"
    answer: str = ""
    steps: list[FlowStep] = field(default_factory=list)
    error: Problem | None = None
    registries: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    model_calls: int = 0
    begun_at: str = ""
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every step did what it should."""
        return self.status == "ok"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ran it: 0 ok, 1 failed, 3 the provider failed, 4 denied, 5 a limit, 130 cancelled."""
        match self.status:
            case "ok":
                return 0
            case "denied":
                return PermissionDenied.exit_code
            case "limit":
                return LimitReached.exit_code
            case "cancelled":
                return CANCELLED_CODE
            case "interrupted":
                return INTERRUPTED_CODE
        by_a_tool = any(step.kind == "tool" and step.error is not None for step in self.steps)
        if self.error is None or by_a_tool:
            return FAILED_CODE
        return from_code(self.error.code, self.error.message).exit_code

    @property
    def tool_steps(self) -> list[FlowStep]:
        """The steps that call tools."""
        return [step for step in self.steps if step.kind == "tool"]

    def document(self) -> dict[str, Any]:
        """All of it as plain JSON data."""
        return {**msgspec.to_builtins(self), "exit_code": self.exit_code}


def fold(records: Iterable[AnyRecord]) -> FlowRun:
    """Fold records, possibly incomplete, into a run."""
    run = FlowRun()
    steps: dict[str, FlowStep] = {}
    planned: list[Planned] = []
    for record in records:
        match record:
            case Begun():
                run.flow_id, run.instruction, run.begun_at = record.flow_id, record.instruction, record.at
                run.registries = record.registries
            case Offered():
                run.problems = record.problems
            case Answering():
                run.provider, run.model, run.trace_id = record.provider, record.model, record.trace_id
            case PlanMade():
                planned = record.steps
            case StepBegun():
                steps[record.step_id] = step = FlowStep(step_id=record.step_id, kind=record.kind)
                step.tool, step.registry, step.purpose = record.tool, record.registry, record.purpose
                step.begun_at = record.at
            case Ended():
                run.status, run.error, run.duration_s = record.status, record.error, record.duration_s
            case _:
                advance(steps[record.step_id], record, run)
    run.steps = [*steps.values()]
    close(run)
    for number, one in enumerate(planned, 1):
        if (step_id := f"step-{number}") not in steps:
            skipped = FlowStep(step_id=step_id, kind="tool", status="skipped", tool=one.tool)
            skipped.purpose = one.purpose
            run.steps.append(skipped)
    run.steps.sort(key=lambda step: step.kind == "chat")
    return run


def advance(step: FlowStep, record: Replied | Described | Called | StepEnded, run: FlowRun) -> None:
    """Apply a record to its step."""
    match record:
        case Replied():
            step.attempts = record.attempt
            run.model_calls += 1
            if record.usage is not None:
                step.usage, run.usage = step.usage.plus(record.usage), run.usage.plus(record.usage)
            step.cost_usd, run.cost_usd = add_cost(step.cost_usd, record), add_cost(run.cost_usd, record)
            if step.kind == "chat":
                run.answer = step.text = record.text
        case Described():
            step.parameters = record.parameters
        case Called():
            step.args, step.request_id = record.arguments, record.result.call_id
            error = record.result.error
            step.issues = issues_of(error) or step.issues
            if error is None:
                step.result = record.result.result
        case StepEnded():
            step.status, step.error, step.duration_s = record.status, record.error, record.duration_s


def add_cost(cost: float | None, reply: Replied) -> float | None:
    """A price with that of another reply, unknown where one is."""
    return None if cost is None or reply.cost_usd is None else cost + reply.cost_usd


def issues_of(error: Problem | None) -> list[dict[str, str]]:
    """What is wrong with arguments, by an error of ours or a registry's."""
    found = (error.details or {}).get("issues") if error is not None else None
    if not isinstance(found, list):
        return []
    return [
        {"path": str(one.get("path", ""))[:500], "message": str(one.get("message", ""))[:2000]}
        for one in found[:50]
        if isinstance(one, dict)
    ]


def close(run: FlowRun) -> None:
    """Say of the steps that never ended what became of them."""
    unended: StepStatus = "failed" if run.error is not None else "interrupted"
    for step in run.steps:
        if step.status == "running":
            step.status = "cancelled" if run.status == "cancelled" else unended
