"""Turns: the loop of model and tool calls, until a reply has no calls."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct

from jaato.abc.provider import Reply
from jaato.agent.compaction.engine import TOO_LARGE, CompactionEngine, with_advice
from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.limits.repetition_guard import RepetitionGuard
from jaato.agent.model import ModelClient, ModelCost
from jaato.agent.questions import Questions
from jaato.agent.recovery import Recovery, close_calls
from jaato.agent.tool_runner import ToolRunner
from jaato.errors import CancelledException, ContextOverflow, LimitReached, ProviderError
from jaato.protocol.codec import json_problems
from jaato.protocol.events import (
    AgentStatusChanged,
    ContextUpdated,
    MessageModel,
    Retry,
    TurnCompleted,
    TurnProgress,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import (
    FinishReason,
    Message,
    Part,
    Problem,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from jaato.tools.call import problem_of, replace_surrogates
from jaato.tools.permissions.gate import Gate

Ending = Literal["stop", "cancelled", "limit", "length", "refusal", "error", "interrupted"]
ENDINGS: dict[FinishReason, Ending] = {"length": "length", "refusal": "refusal"}
NOT_BEGUN = "Not run: the turn was stopped before it began."
CUT = "Your reply was cut at what the budget had left. Continue it exactly where it ended."
ReplyFields = dict[str, Any]
"""The last reply, as fields of the event that is still to be recorded."""


class Limits(Struct, frozen=True):
    """How much one turn may do before it ends with reason `limit`; None means unlimited."""

    model_calls: int | None = 200
    tool_calls: int | None = 2000


class Turn:
    """Usage, cost and counts of one turn so far."""

    __slots__ = ("begun", "cost_usd", "id", "model_calls", "tool_calls", "usage")

    def __init__(self, turn_id: str = "") -> None:
        self.id = turn_id or new_id("t")
        self.begun = time.perf_counter()
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.model_calls = 0
        self.tool_calls = 0

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Add usage and cost; the cost of a turn is unknown once that of a part of it is."""
        if usage is not None:
            self.usage = self.usage.plus(usage)
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd


class CompactionRequest:
    """A compaction that waits for the running turn; `done` is set once it was made or dropped."""

    __slots__ = ("done", "freed", "reason", "words")

    def __init__(self, reason: str, words: str) -> None:
        self.reason = reason
        self.words = words
        self.freed = False
        self.done = anyio.Event()


class TurnContext(Struct, frozen=True):
    """What the turns of an agent use of its session."""

    journal: Journal
    model: ModelClient
    tools: ToolRunner
    inbox: Inbox
    gate: Gate
    questions: Questions
    compaction: CompactionEngine
    recovery: Recovery
    repetition: RepetitionGuard
    limits: Limits
    resume_subagents: Callable[[], Awaitable[None]]
    start: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
    """Starts a coroutine that may outlive the turn."""


TurnBody = Callable[[Turn], Awaitable[ReplyFields | None]]
"""Runs in place of the loop of model and tool calls; returns the last reply."""


class TurnRunner:
    """Runs the turns of one agent, one at a time. `is_busy`: something runs; `is_stopping`: its stop was requested."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._journal = context.journal
        self._scope: anyio.CancelScope | None = None
        self._idle = asyncio.Event()
        self._requested: CompactionRequest | None = None
        self.is_busy = self.is_stopping = self.is_compacting = False

    def stop(self) -> None:
        """Stop the running turn at once; the model is not called again, also not for a compaction that was requested."""
        self.is_stopping = self.is_busy
        self._drop_request()
        if self._scope is not None:
            self._scope.cancel()

    async def wait_idle(self) -> None:
        """Wait until no turn runs."""
        if self.is_busy:
            await self._idle.wait()

    async def occupy(
        self, work: Callable[[], Awaitable[TurnCompleted]], *, stopped: bool = False
    ) -> TurnCompleted:
        """Run a turn exclusively; with `stopped` it was stopped before it started. Raises `StoreError` when the store still
        refuses earlier events."""
        self._context.recovery.record_refused()
        self._begin(stopped=stopped)
        try:
            turn = await work()
            await self._compact_between()
            return turn
        finally:
            self._end()
            self._context.gate.go_idle()

    async def run(self, message: Message, body: TurnBody | None = None) -> TurnCompleted:
        """Take a message to the end of the turn it opens. Every ending is recorded; only a foreign cancellation and a
        failing store are raised. A `ProviderError` ends the turn with reason `error`."""
        turn = Turn()
        self._context.inbox.deliver(message, turn.id)
        return await self._run_open(turn, body or self._loop)

    async def resume(self) -> TurnCompleted:
        """Resume the open turn of an earlier process: the calls without a result, then the model."""
        state, context = self._journal.state, self._context
        assert state.open_turn is not None
        turn = Turn(state.open_turn)

        async def body(turn: Turn) -> ReplyFields | None:
            if calls := list(state.open_calls.values()):
                self.check_stopped("Stopped before the calls began.")
                await context.tools.run_calls(calls, turn.id, context.recovery.resume_call)
                context.questions.withdraw(state.agent_id)
                await context.resume_subagents()
            return await self._loop(turn)

        try:
            return await self._run_open(turn, body)
        finally:
            context.questions.withdraw(state.agent_id)

    async def compact(self, reason: str, words: str = "") -> bool:
        """Compact the context: at once between turns, else as requested; whether anything was freed. `words` say what the
        summary is to keep."""
        wanted = self.request_compaction(reason, words)
        if self.is_busy:
            await wanted.done.wait()
        else:
            self._begin()
            try:
                await self._compact_between()
            finally:
                self._end()
        return wanted.freed

    def request_compaction(self, reason: str, words: str = "") -> CompactionRequest:
        """Have the running turn compact the context before its next call to the model, or when it has ended. Requests that
        wait are one."""
        wanted = self._requested = self._requested or CompactionRequest(reason, words)
        wanted.words = words or wanted.words
        return wanted

    async def _compact_between(self) -> None:
        """Make the requested compactions after a turn."""
        self.is_compacting = True
        try:
            while self._requested is not None:
                self.is_stopping = False
                with anyio.CancelScope() as self._scope:
                    await self._compact_as_requested()
        finally:
            self.is_compacting = False

    async def _compact_as_requested(self) -> ModelCost | None:
        """Make the requested compaction, if there is one; returns the cost of a summary."""
        wanted, self._requested = self._requested, None
        engine = self._context.compaction
        if wanted is None:
            return None
        try:
            if engine.setup is not None:  # it may have been turned off meanwhile
                wanted.freed = await engine.compact(wanted.reason, wanted.words)
        finally:
            wanted.done.set()
        return engine.take_cost()

    def _drop_request(self) -> None:
        wanted, self._requested = self._requested, None
        if wanted is not None:
            wanted.done.set()

    def _begin(self, *, stopped: bool = False) -> None:
        self.is_busy, self.is_stopping = True, stopped
        self._idle.clear()

    def _end(self) -> None:
        self._scope = None
        self._drop_request()
        self.is_busy = self.is_stopping = False
        self._idle.set()

    async def _run_open(self, turn: Turn, body: TurnBody) -> TurnCompleted:
        """Run an open turn to its end."""
        show_status(self._journal, "active")
        ending: Ending = "interrupted"
        problem: Problem | None = None
        last: ReplyFields | None = None
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                last = await body(turn)
                ending = ENDINGS.get(last["finish_reason"], "stop") if last is not None else "stop"
            if scope.cancelled_caught:
                ending = "cancelled"
        except (ProviderError, LimitReached) as error:
            ending = "limit" if isinstance(error, LimitReached) else "error"
            problem = problem_of(error)
        except CancelledException:
            ending = "cancelled"
        finally:
            self._scope = None
            done = self._finish(turn, ending, problem, last)
        return done

    def _finish(
        self, turn: Turn, ending: Ending, problem: Problem | None, last: ReplyFields | None
    ) -> TurnCompleted:
        """Record how the turn ended, in one commit with the last reply, every call answered and a partial reply kept."""
        journal, model = self._journal, self._context.model
        journal.flush()
        partial = model.partial_text
        model.clear_partial()
        if partial:
            reason: FinishReason = "cancelled" if ending != "error" else "error"
            message = Message("assistant", [Text(partial)], id=new_id("m"), model=journal.state.model)
            journal.record(
                MessageModel(**journal.head(), message=message, turn_id=turn.id, finish_reason=reason)
            )
        close_calls(journal, NOT_BEGUN)
        self._context.gate.end_turn()
        last_reply = [] if last is None else [MessageModel(**journal.head(), **last)]
        done = TurnCompleted(
            **journal.head(),
            turn_id=turn.id,
            reason=ending,
            usage=turn.usage,
            model_calls=turn.model_calls,
            tool_calls=turn.tool_calls,
            duration_s=round(time.perf_counter() - turn.begun, 6),
            cost_usd=turn.cost_usd,
            error=problem,
        )
        journal.record(*last_reply, done)
        if last_reply:
            show_progress(self._context, turn)
        show_status(journal, "error" if ending == "error" else "idle")
        return done

    async def _loop(self, turn: Turn) -> ReplyFields:
        context, journal = self._context, self._journal
        if context.model.is_limit_fetchable:
            await context.start(context.model.fetch_limit)
        while True:
            self.check_stopped("Stopped before the model was asked.")
            await context.repetition.check()
            for message in list(context.inbox.messages):
                context.inbox.deliver(message, turn.id)
            check_limits(context.limits, turn)
            add_cost(turn, await self._compact_as_requested())
            add_cost(turn, await context.compaction.compact_if_needed())
            reply = await self._ask_model(turn)
            last_reply = self.take_reply(turn, reply)
            calls = reply.message.function_calls
            if reply.finish_reason == "length" and context.model.is_clipped:
                context.inbox.notify(CUT)
            if not calls and not context.inbox.messages:
                return last_reply
            turn.tool_calls += len(calls)
            problem_text = MessageModel(**journal.head(), **last_reply)
            journal.hold(problem_text, functools.partial(show_progress, context, turn))
            if calls:
                self.check_stopped("Stopped before the calls began.")
                await context.tools.run_calls(calls, turn.id)

    async def _ask_model(self, turn: Turn) -> Reply:
        """The model's reply. A request that the provider refuses as too long is made once more, after a compaction."""
        model = self._context.model
        try:
            return await model.stream_reply(model.request(), lambda: self.is_stopping)
        except ContextOverflow as error:
            model.clear_partial()
            problem = problem_of(error)
            try:
                await self._context.compaction.recover(error)
                show_retry(self._journal, problem)
            finally:
                add_cost(turn, self._context.compaction.take_cost())
        try:
            return await model.stream_reply(model.request(), lambda: self.is_stopping)
        except ContextOverflow as error:
            raise with_advice(error, TOO_LARGE.format(limit=model.limit.tokens)) from None

    def check_stopped(self, why: str) -> None:
        """Raise `CancelledException` when a stop of the turn was requested."""
        if self.is_stopping:
            raise CancelledException(why)

    def take_reply(self, turn: Turn, reply: Reply) -> ReplyFields:
        """Count what the reply cost; gives the fields of the event that makes it durable."""
        model, state = self._context.model, self._journal.state
        turn.model_calls += 1
        cost = model.price_reply(reply)
        turn.add(reply.usage, cost)
        if reply.usage is not None:
            model.ledger.record_usage(state.model, reply.usage, cost, session_id=state.session_id)
        message = msgspec.structs.replace(
            reply.message,
            parts=[to_storable(part) for part in reply.message.parts],
            id=new_id("m"),
            provider=model.provider.name,
            model=state.model,
        )
        model.clear_partial()
        limit = model.limit
        return {
            "message": message,
            "turn_id": turn.id,
            "finish_reason": reply.finish_reason,
            "usage": reply.usage,
            "cost_usd": cost,
            "context_tokens": model.context_tokens_with(message, reply.usage),
            "context_limit": limit.tokens,
            "limit_source": limit.source,
        }


def add_cost(turn: Turn, spent: ModelCost | None) -> None:
    """Add what a summary cost to its turn."""
    if spent is not None:
        turn.add(spent.usage, spent.cost_usd)


def check_limits(limits: Limits, turn: Turn) -> None:
    """Raise `LimitReached` when the turn has used up what it may."""
    if limits.model_calls is not None and turn.model_calls >= limits.model_calls:
        raise LimitReached(
            f"Stopped after {turn.model_calls} model calls in one turn; raise --max-turns to allow more."
        )
    if limits.tool_calls is not None and turn.tool_calls >= limits.tool_calls:
        raise LimitReached(f"Stopped after {turn.tool_calls} tool calls in one turn.")


def to_storable(part: Part) -> Part:
    """A part as the log can carry it: text as Unicode, arguments that are no JSON as malformed ones."""
    match part:
        case Text() | Thinking() | Refusal():
            return (
                part
                if part.text.isascii()
                else msgspec.structs.replace(part, text=replace_surrogates(part.text))
            )
        case ToolCall() if problems := json_problems(part.arguments):
            problem_text = "; ".join(f"{path or '/'} {problem}" for path, problem in problems[:8])
            return msgspec.structs.replace(
                part, name=replace_surrogates(part.name), arguments={}, malformed=problem_text
            )
    return part


def show_progress(context: TurnContext, turn: Turn) -> None:
    """Publish what the turn has used and how full the context is."""
    journal = context.journal
    if not journal.bus.watched:
        return
    journal.show(
        TurnProgress(
            **journal.shown(),
            turn_id=turn.id,
            model_calls=turn.model_calls,
            tool_calls=turn.tool_calls,
            usage=turn.usage,
        )
    )
    account = context.model.account
    journal.show(
        ContextUpdated(
            **journal.shown(),
            total_tokens=account.usage.total_tokens,
            context_limit=account.usage.limit.tokens,
            percent_used=account.usage.percent_used,
            limit_source=account.usage.limit.source,
            threshold_percent=context.compaction.threshold_percent,
            blocks=account.list_blocks(),
        )
    )


def show_retry(journal: Journal, problem: Problem) -> None:
    """Publish that a request that was too long is made once more; what was shown of its reply does not count."""
    journal.show(Retry(**journal.shown(), attempt=2, max_attempts=2, wait_s=0.0, error=problem))


def show_status(journal: Journal, status: Literal["active", "idle", "error"]) -> None:
    """Publish whether the agent is working."""
    if journal.bus.watched:
        journal.show(AgentStatusChanged(**journal.shown(), status=status))
