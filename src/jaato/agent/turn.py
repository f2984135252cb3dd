"""One turn: model, calls, model, … until the model has nothing more to call."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

from jaato.abc.provider import Reply
from jaato.agent.compaction.words import Spent
from jaato.agent.usage import context_with
from jaato.errors import CancelledException, LimitReached, ProviderError
from jaato.protocol.codec import json_problems
from jaato.protocol.events import (
    AgentStatusChanged,
    ContextUpdated,
    MessageModel,
    MessageUser,
    MidTurnInjected,
    ToolCallEnd,
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
    ToolResult,
    Usage,
)
from jaato.tools.call import clean, problem_of

if TYPE_CHECKING:
    from jaato.agent.session import Session

Ending = Literal["stop", "cancelled", "limit", "length", "refusal", "error", "interrupted"]
ENDINGS: dict[FinishReason, Ending] = {"length": "length", "refusal": "refusal"}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one turn may do before it ends with reason `limit`; None means without end."""

    model_calls: int | None = 200
    tool_calls: int | None = 2000


@dataclass(slots=True)
class Turn:
    """What one turn has used so far."""

    id: str = field(default_factory=lambda: new_id("t"))
    begun: float = field(default_factory=time.perf_counter)
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    model_calls: int = 0
    tool_calls: int = 0


Body = Callable[["Session", Turn], Awaitable[dict[str, Any] | None]]
"""What is done in a turn; gives the last reply, as fields of the event that is still to be recorded."""


async def run_turn(session: Session, message: Message, body: Body | None = None) -> TurnCompleted:
    """Take a user's message to the end of the turn it opens. Every ending is recorded; only a foreign cancellation
    and a failing store are raised. A `ProviderError` ends the turn with reason `error`. `body` stands in for `converse`."""
    turn = Turn()
    journal = session.journal
    opening = MessageUser(**journal.head(), message=message, turn_id=turn.id)
    if message.id in session.state.queued:
        journal.record(opening, MidTurnInjected(**journal.head(), message_id=message.id))
        session.heard(message)
    else:
        journal.record(opening)
    return await carry(session, turn, body=body)


async def continue_turn(session: Session) -> TurnCompleted:
    """Go on with the turn that an earlier process has left open: the calls that have no result, then the model."""
    assert session.state.open_turn is not None
    try:
        return await carry(session, Turn(id=session.state.open_turn), list(session.state.open_calls.values()))
    finally:
        session.desk.withdraw(session.state.agent_id)


async def carry(
    session: Session, turn: Turn, calls: Sequence[ToolCall] = (), body: Body | None = None
) -> TurnCompleted:
    """Take a turn that is open to its end."""
    show_status(session, "active")
    ending: Ending = "interrupted"
    problem: Problem | None = None
    last: dict[str, Any] | None = None
    try:
        with anyio.CancelScope() as scope:
            session.scope = scope
            if calls:
                await session.steps.run_all(list(calls), turn.id, again=True)
                session.desk.withdraw(session.state.agent_id)
                await session.crew.take_up()
            last = await (body or converse)(session, turn)
            ending = ENDINGS.get(last["finish_reason"], "stop") if last is not None else "stop"
        if scope.cancelled_caught:
            ending = "cancelled"
    except (ProviderError, LimitReached) as error:
        ending = "limit" if isinstance(error, LimitReached) else "error"
        problem = problem_of(error)
    except CancelledException:
        ending = "cancelled"
    finally:
        session.scope = None
        done = finish(session, turn, ending, problem, last)
    return done


def finish(
    session: Session, turn: Turn, ending: Ending, problem: Problem | None, last: dict[str, Any] | None
) -> TurnCompleted:
    """Record how the turn ended, in one commit with the last reply, every call answered and a partial reply kept."""
    journal = session.journal
    journal.flush()
    partial = session.reply.partial
    session.reply.clear()
    if partial:
        reason: FinishReason = "cancelled" if ending != "error" else "error"
        message = Message("assistant", [Text(partial)], id=new_id("m"), model=session.state.model)
        journal.record(MessageModel(**journal.head(), message=message, turn_id=turn.id, finish_reason=reason))
    close_calls(session, "Not run: the turn was stopped before it began.")
    session.gate.end_turn()
    spoken = [] if last is None else [MessageModel(**journal.head(), **last)]
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
    journal.record(*spoken, done)
    if spoken:
        show_progress(session, turn, spoken[0])
    show_status(session, "error" if ending == "error" else "idle")
    return done


def close_calls(session: Session, why: str) -> None:
    """Give every call without a result one, so that the conversation stays valid."""
    journal = session.journal
    for call in list(session.state.open_calls.values()):
        begun = call.call_id in session.state.started
        code, text = ("interrupted", INTERRUPTED) if begun else ("cancelled", why)
        result = ToolResult(call.call_id, call.name, False, error=Problem(code=code, message=text))
        journal.record(
            ToolCallEnd(**journal.head(), call_id=call.call_id, tool=call.name, result=result, duration_s=0.0)
        )


def interrupted(session: Session, call_id: str, tool: str, said: str = "") -> ToolCallEnd:
    """The end of a call that an earlier process has begun, with what somebody has said of it."""
    words = f'{INTERRUPTED} The user says of it: "{said}"' if said else INTERRUPTED
    result = ToolResult(call_id, tool, False, error=Problem(code="interrupted", message=words))
    head = session.journal.head()
    return ToolCallEnd(**head, call_id=call_id, tool=tool, result=result, duration_s=0.0)


INTERRUPTED = (
    "Interrupted: the program ended while this call ran. It may have done all, part or nothing of its work; "
    "it was not repeated. Look at what is there before you do it again."
)


async def converse(session: Session, turn: Turn) -> dict[str, Any]:
    """The loop itself; gives the last reply, as fields of the event that is still to be recorded."""
    while True:
        if session.reply.stopped:
            raise CancelledException("Stopped before the model was asked.")
        take_inbox(session, turn)
        check_limits(session.limits, turn)
        if session.compaction is not None:
            count(turn, await session.compaction.before_call(session))
        reply = await session.reply.read(session.provider, session.request())
        spoken = take_reply(session, turn, reply)
        calls = reply.message.function_calls
        if not calls and not session.inbox:
            return spoken
        turn.tool_calls += len(calls)
        said = MessageModel(**session.journal.head(), **spoken)
        session.journal.hold(said, functools.partial(show_progress, session, turn, said))
        if calls:
            await session.steps.run_all(calls, turn.id)


def count(turn: Turn, spent: Spent | None) -> None:
    """Add what a summary took to what the turn has used."""
    if spent is not None:
        turn.usage = turn.usage.plus(spent.usage)
        known = turn.cost_usd is not None and spent.cost_usd is not None
        turn.cost_usd = (turn.cost_usd or 0.0) + (spent.cost_usd or 0.0) if known else None


def check_limits(limits: Limits, turn: Turn) -> None:
    """Raise `LimitReached` when the turn has used up what it may."""
    if limits.model_calls is not None and turn.model_calls >= limits.model_calls:
        raise LimitReached(
            f"Stopped after {turn.model_calls} model calls in one turn; raise --max-turns to allow more."
        )
    if limits.tool_calls is not None and turn.tool_calls >= limits.tool_calls:
        raise LimitReached(f"Stopped after {turn.tool_calls} tool calls in one turn.")


def take_inbox(session: Session, turn: Turn) -> None:
    """Let waiting messages join the conversation."""
    journal = session.journal
    for message in list(session.inbox):
        journal.record(
            MessageUser(**journal.head(), message=message, turn_id=turn.id),
            MidTurnInjected(**journal.head(), message_id=message.id),
        )
        session.heard(message)


def take_reply(session: Session, turn: Turn, reply: Reply) -> dict[str, Any]:
    """Count what the reply cost; gives the fields of the event that makes it durable."""
    state = session.state
    turn.model_calls += 1
    cost = session.price(reply.usage)
    if reply.usage is not None:
        turn.usage = turn.usage.plus(reply.usage)
        session.ledger.record_usage(state.model, reply.usage, cost, session_id=state.session_id)
    turn.cost_usd = None if cost is None or turn.cost_usd is None else turn.cost_usd + cost
    message = msgspec.structs.replace(
        reply.message,
        parts=[storable(part) for part in reply.message.parts],
        id=new_id("m"),
        provider=session.provider.name,
        model=state.model,
    )
    session.reply.clear()
    return {
        "message": message,
        "turn_id": turn.id,
        "finish_reason": reply.finish_reason,
        "usage": reply.usage,
        "cost_usd": cost,
        "context_tokens": context_with(state, message, reply.usage),
        "context_limit": session.model_info().context_limit,
    }


def storable(part: Part) -> Part:
    """A part as the log can carry it: text as Unicode, arguments that are no JSON as malformed ones."""
    match part:
        case Text() | Thinking() | Refusal():
            return part if part.text.isascii() else msgspec.structs.replace(part, text=clean(part.text))
        case ToolCall() if problems := json_problems(part.arguments):
            said = "; ".join(f"{path or '/'} {problem}" for path, problem in problems[:8])
            return msgspec.structs.replace(part, name=clean(part.name), arguments={}, malformed=said)
    return part


def show_progress(session: Session, turn: Turn, said: MessageModel) -> None:
    """Tell the watchers what the turn has used and how full the context is with what was said."""
    if not session.journal.bus.watched:
        return
    journal = session.journal
    head = journal.shown()
    journal.show(
        TurnProgress(
            **head,
            turn_id=turn.id,
            model_calls=turn.model_calls,
            tool_calls=turn.tool_calls,
            usage=turn.usage,
        )
    )
    tokens, limit = said.context_tokens, said.context_limit
    percent = 100 * tokens / limit if limit else None
    journal.show(ContextUpdated(**head, total_tokens=tokens, context_limit=limit, percent_used=percent))


def show_status(session: Session, status: Literal["active", "idle", "error"]) -> None:
    """Tell the watchers whether the agent works."""
    if not session.journal.bus.watched:
        return
    session.journal.show(AgentStatusChanged(**session.journal.shown(), status=status))
