"""Carries out a flow: tools are found, a plan is made, its steps are taken, the answer is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from jaato.errors import JaatoError, LimitReached, MalformedReply, PermissionDenied, ToolError
from jaato.protocol.messages import Problem, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow import planner, prompts
from jaato.runtime.flow.prompts import ModelReply, StepPrompt, StepResult
from jaato.runtime.flow.records import (
    Answering,
    AnyRecord,
    Begun,
    Called,
    Described,
    Offer,
    Offered,
    PlanMade,
    Planned,
    Replied,
    StepBegun,
    StepEnded,
    StepStatus,
)
from jaato.tools.call import problem_of

PLAN_STEP, CHAT_STEP = "plan", "chat"
ATTEMPTS = 2
INVALID, MISTAKEN = "arguments_invalid", "tool_mistaken"
REFUSED = frozenset((INVALID, MISTAKEN, "tool.invalid_args", "request.invalid_shape"))
"""What a call fails with whose arguments are wrong, as we found or as its registry did."""


class NoTools(JaatoError):
    """None of the registries can be asked."""

    code = "registry_failed"


class CallResult(NamedTuple):
    """The arguments of a call as it was made, and its result."""

    arguments: dict[str, Any]
    result: ToolResult


class FlowTools(Protocol):
    """Where tools come from: registries, or a trace."""

    async def offered(self, instruction: str) -> Offered:
        """The tools there are, the likeliest first where there are many; never raises."""
        ...

    async def described(self, prompt: StepPrompt, name: str) -> ToolSpec:
        """A step's tool, whole. Raises `ToolError`."""
        ...


class FlowInvoker(Protocol):
    """What asks the model and calls tools: a session, or a trace. What it raises ends the flow."""

    async def reply(self, prompt: StepPrompt) -> ModelReply:
        """What the model replies."""
        ...

    async def call(self, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall) -> CallResult:
        """Call a step's tool, if its arguments are valid and it is permitted; a failure is a result."""
        ...


class FlowRunner:
    """One flow under way. `record` gets every record. It knows neither model nor registry, so that a trace can take
    their places."""

    def __init__(self, begun: Begun, tools: FlowTools, record: Callable[[AnyRecord], object]) -> None:
        self.begun = begun
        self._tools = tools
        self._record = record
        self._began: dict[str, float] = {}
        self._offers: list[Offer] = []

    async def find_tools(self) -> Problem | None:
        """Learn which tools there are; why the flow cannot go on, where none of the registries answers."""
        self._record(self.begun)
        self._begin(StepBegun(step_id=PLAN_STEP, kind="plan"))
        offered = await self._tools.offered(self.begun.instruction)
        self._record(offered)
        self._offers = offered.tools
        if self._offers or len(offered.problems) < len(self.begun.registries):
            return None
        problem = problem_of(NoTools(" ".join(offered.problems)))
        self._end(PLAN_STEP, problem)
        return problem

    async def run(self, answering: Answering, invoker: FlowInvoker) -> Problem | None:
        """Plan, take the steps, answer; the problem of the step that failed. Raises `ProviderError`, `LimitReached`."""
        self._record(answering)
        instruction, max_chars = self.begun.instruction, answering.room_chars
        done: list[StepResult] = []
        for number, planned in enumerate(await self._plan(invoker, max_chars), 1):
            registry = next(offer.registry for offer in self._offers if offer.name == planned.tool)
            text = prompts.call_prompt(instruction, done, planned, max_chars)
            prompt = StepPrompt(f"step-{number}", prompts.CALLER, text)
            self._begin(
                StepBegun(
                    step_id=prompt.step_id,
                    kind="tool",
                    tool=planned.tool,
                    registry=registry,
                    purpose=planned.purpose,
                )
            )
            done.append(await self._step(invoker, prompt, planned))
            self._end(prompt.step_id, done[-1].problem)
            if done[-1].problem is not None:
                break
        self._begin(StepBegun(step_id=CHAT_STEP, kind="chat"))
        text = prompts.chat_prompt(instruction, done, max_chars)
        await self._ask(invoker, StepPrompt(CHAT_STEP, prompts.ANSWERER, text))
        self._end(CHAT_STEP)
        return done[-1].problem if done else None

    async def _plan(self, invoker: FlowInvoker, max_chars: int) -> list[Planned]:
        """The steps to take. Raises `MalformedReply`, `LimitReached` when the second plan will not do either."""
        offers, most = planner.fitting(self._offers, max_chars), self.begun.max_steps
        if not offers:
            return self._planned([])
        prompt = StepPrompt(
            PLAN_STEP,
            planner.SYSTEM % most,
            planner.plan_prompt(self.begun.instruction, offers),
            schema=planner.plan_schema(offers, most),
        )
        for _ in range(ATTEMPTS):
            reply = await self._ask(invoker, prompt)
            plan = planner.parse_plan(reply.text, {offer.name for offer in offers}, most)
            if not plan.problems:
                return self._planned(plan.steps)
            prompt = prompt.again(reply, planner.correction(plan.problems))
        why = f"The plan cannot be carried out, and neither could the one before: {'; '.join(plan.problems)}."
        error = (
            LimitReached(f"{why} max_steps (--max-steps) allows more.")
            if plan.too_long
            else MalformedReply(why)
        )
        self._end(PLAN_STEP, problem_of(error))
        raise error

    def _planned(self, steps: list[Planned]) -> list[Planned]:
        self._record(PlanMade(steps=steps))
        self._end(PLAN_STEP)
        return steps

    async def _step(self, invoker: FlowInvoker, prompt: StepPrompt, planned: Planned) -> StepResult:
        """A step's tool is described, the model asked for its arguments, the call made; once more where they were
        refused."""
        arguments: dict[str, Any] = {}
        result: ToolResult | None = None
        known: ToolSpec | None = None
        problem: Problem | None = None
        for _ in range(ATTEMPTS):
            try:
                tool = await self._tools.described(prompt, planned.tool)
            except ToolError as error:
                return StepResult(prompt.step_id, planned, arguments, None, problem_of(error))
            if known is None or (tool.description, tool.parameters) != (known.description, known.parameters):
                self._record(
                    Described(
                        step_id=prompt.step_id, description=tool.description, parameters=tool.parameters
                    )
                )
            known, prompt = tool, prompt._replace(tool=tool)
            reply = await self._ask(invoker, prompt)
            if reply.call is None:
                text = prompts.no_call(tool.name)
                problem, prompt = Problem(code="no_call", message=text), prompt.again(reply, text)
                continue
            arguments, result = await self._call(invoker, prompt, tool, reply.call)
            problem = result.error
            if problem is None or problem.code not in REFUSED:
                break
            prompt = prompt.again(reply, result)
        return StepResult(prompt.step_id, planned, arguments, result, problem)

    async def _ask(self, invoker: FlowInvoker, prompt: StepPrompt) -> ModelReply:
        began = time.perf_counter()
        reply = await invoker.reply(prompt)
        self._record(
            Replied(
                step_id=prompt.step_id,
                attempt=prompt.attempt,
                asked=prompt.digest,
                text=reply.text,
                call=reply.call,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                cost_usd=reply.cost_usd,
                duration_s=seconds_since(began),
            )
        )
        return reply

    async def _call(
        self, invoker: FlowInvoker, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall
    ) -> CallResult:
        began = time.perf_counter()
        done = await invoker.call(prompt, tool, asked)
        self._record(
            Called(
                step_id=prompt.step_id,
                attempt=prompt.attempt,
                arguments=done.arguments,
                result=done.result,
                duration_s=seconds_since(began),
            )
        )
        return done

    def _begin(self, record: StepBegun) -> None:
        self._began[record.step_id] = time.perf_counter()
        self._record(record)

    def _end(self, step_id: str, problem: Problem | None = None) -> None:
        status: StepStatus = "ok"
        if problem is not None:
            is_denied = problem.code == PermissionDenied.code and step_id != PLAN_STEP
            status = "denied" if is_denied else "failed"
        spent_s = seconds_since(self._began[step_id])
        self._record(StepEnded(step_id=step_id, status=status, error=problem, duration_s=spent_s))


def seconds_since(began: float) -> float:
    """The seconds since a time of the performance counter."""
    return round(time.perf_counter() - began, 6)
