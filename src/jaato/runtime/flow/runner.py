"""Executes a flow: finds tools, plans, calls a tool per step through a session, and answers."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

from msgspec.structs import replace

from jaato.abc.provider import ModelRequest, Reply
from jaato.agent.session import Session
from jaato.agent.turn import Turn
from jaato.errors import JaatoError, LimitReached, MalformedReply, PermissionDenied, ToolError
from jaato.plugins.arp.calls import TRACE
from jaato.protocol.events import MessageModel
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Problem, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.structured_output import parse
from jaato.runtime.flow import planner
from jaato.runtime.flow.planner import StepPrompt, StepResult
from jaato.runtime.flow.trace import (
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
from jaato.tools.call import Outcome, problem_of
from jaato.tools.pipeline import run

PLAN_STEP, CHAT_STEP = "plan", "chat"
ATTEMPTS = 2
INVALID, MISTAKEN = "arguments_invalid", "tool_mistaken"
REFUSED = frozenset((INVALID, MISTAKEN, "tool.invalid_args", "request.invalid_shape"))
"""What a call fails with whose arguments are wrong, as we found or as its registry did."""


class NoTools(JaatoError):
    """None of the registries can be asked."""

    code = "registry_failed"


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

    async def reply(self, prompt: StepPrompt) -> Replied:
        """What the model replies."""
        ...

    async def call(self, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall) -> Called:
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
            text = planner.call_prompt(instruction, done, planned, max_chars)
            prompt = StepPrompt(f"step-{number}", planner.CALLER, text)
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
        text = planner.chat_prompt(instruction, done, max_chars)
        await self._ask(invoker, StepPrompt(CHAT_STEP, planner.ANSWERER, text))
        self._end(CHAT_STEP)
        return done[-1].problem if done else None

    async def _plan(self, invoker: FlowInvoker, max_chars: int) -> list[Planned]:
        """The steps to take. Raises `MalformedReply`, `LimitReached` when the second plan will not do either."""
        offers, most = planner.fit_offers(self._offers, max_chars), self.begun.max_steps
        if not offers:
            return self._planned([])
        prompt = StepPrompt(
            PLAN_STEP,
            planner.PLANNER % most,
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
                text = planner.no_call(tool.name)
                problem, prompt = Problem(code="no_call", message=text), prompt.again(reply, text)
                continue
            called = await self._call(invoker, prompt, tool, reply.call)
            arguments, result, problem = called.arguments, called.result, called.result.error
            if problem is None or problem.code not in REFUSED:
                break
            prompt = prompt.again(reply, result)
        return StepResult(prompt.step_id, planned, arguments, result, problem)

    async def _ask(self, invoker: FlowInvoker, prompt: StepPrompt) -> Replied:
        began = time.perf_counter()
        reply = await invoker.reply(prompt)
        self._record(replace(reply, asked=prompt.digest, duration_s=seconds_since(began)))
        return reply

    async def _call(
        self, invoker: FlowInvoker, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall
    ) -> Called:
        began = time.perf_counter()
        done = await invoker.call(prompt, tool, asked)
        self._record(replace(done, duration_s=seconds_since(began)))
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


class SessionInvoker:
    """One turn of a session. `unrecorded` is the newest reply of the model that is not in the log yet."""

    def __init__(self, session: Session, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self._last = Message("assistant", [])
        self.unrecorded: dict[str, Any] | None = None

    async def reply(self, prompt: StepPrompt) -> Replied:
        """What the model replies; without a tool to call it is the answer, which the end of the turn makes durable.

        Raises `ProviderError`, `CancelledException`."""
        session = self._session
        turns = session.turns
        turns.check_stopped("Stopped before the model was asked.")
        answer = await session.model.stream_reply(self._request(prompt), lambda: turns.is_stopping)
        fields = turns.take_reply(self._turn, with_one_call(answer, prompt.tool))
        self._last = message = fields["message"]
        if prompt.tool is None and prompt.schema is None:
            self.unrecorded = fields
        else:
            session.journal.record(MessageModel(**session.journal.head(), **fields))
        secrets = session.journal.secrets
        call = next(iter(message.function_calls), None)
        if call is not None:
            call = ToolCall(
                call.call_id, call.name, secrets.mask_data(call.arguments), malformed=call.malformed
            )
        return Replied(
            step_id=prompt.step_id,
            attempt=prompt.attempt,
            asked=prompt.digest,
            text=secrets.mask(message.text),
            call=call,
            finish_reason=fields["finish_reason"],
            usage=fields["usage"],
            cost_usd=fields["cost_usd"],
        )

    def _request(self, prompt: StepPrompt) -> ModelRequest:
        session, state = self._session, self._session.state
        messages = [Message("user", [Text(prompt.text)])]
        for one in prompt.retries:  # at most one, so the last reply is the one that would not do
            if isinstance(one.reason, str):
                messages += [self._last, Message("user", [Text(one.reason)])]
            else:
                messages += [self._last, Message("tool", [one.reason])]
        return ModelRequest(
            model=state.model,
            messages=messages,
            system=prompt.system,
            tools=[prompt.tool] if prompt.tool is not None else [],
            settings=replace(session.model.settings, response_schema=prompt.schema),
            conversation_id=state.session_id,
            read_blob=functools.partial(session.journal.store.get_blob, state.session_id),
        )

    async def call(self, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall) -> Called:
        """Call a tool as a step of this flow: valid, permitted, in the log before and after."""
        session = self._session
        session.activate([tool.name])
        self._turn.tool_calls += 1
        (unmasked,) = self._last.function_calls
        call = session.tools.new_call(unmasked, self._turn.id)
        trace = {"flow_id": session.state.session_id, "step_id": prompt.step_id}
        call.services = {**call.services, TRACE: trace}
        if asked.name == tool.name:
            await run(call, session.tools)
        else:
            text = f"This step calls {tool.name}, and nothing else."
            await session.tools.record_end(call, Outcome(False, problem=Problem(code=MISTAKEN, message=text)))
        arguments = session.journal.secrets.mask_data(call.arguments)
        result = self._result(call.id)
        return Called(step_id=prompt.step_id, attempt=prompt.attempt, arguments=arguments, result=result)

    def _result(self, call_id: str) -> ToolResult:
        """The result as it is in the log: without secrets, and bounded; data without the same as text."""
        for message in reversed(self._session.state.messages):
            for part in message.parts:
                if isinstance(part, ToolResult) and part.call_id == call_id:
                    return part if part.structured is None else replace(part, content=[])
        raise LookupError(call_id)


def with_one_call(reply: Reply, tool: ToolSpec | None) -> Reply:
    """The reply with no call beyond the first, and none where there is no tool to call; arguments that were written
    as text are a call."""
    message = reply.message
    calls = message.function_calls[:1] if tool is not None else []
    parts: list[Part] = [part for part in message.parts if not isinstance(part, ToolCall) or part in calls]
    if tool is not None and not calls:
        try:
            arguments = parse(message.text, dict[str, Any])
        except (ValueError, RecursionError):
            pass
        else:
            parts.append(ToolCall(new_id("c"), tool.name, dict(arguments)))
    return replace(reply, message=replace(message, parts=parts))
