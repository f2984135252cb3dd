"""A trace played again at the registries: the model's replies as they were, the tools called anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from jaato.abc.provider import Chunk, ModelRequest, Reply
from jaato.errors import MalformedReply
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Text, ToolCall, ToolResult
from jaato.protocol.specs import ModelInfo, ToolSpec
from jaato.runtime.flow.live import LiveHands
from jaato.runtime.flow.parts import Performed
from jaato.runtime.flow.records import AnyRecord, Called, Replied
from jaato.runtime.flow.trace import Trace
from jaato.runtime.flow.words import Ask, Said


class TraceModel:
    """A model that says what it is told to say next."""

    name = "trace"

    def __init__(self) -> None:
        self.next: Reply | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Say it."""
        reply, self.next = self.next, None
        if reply is None:
            raise MalformedReply("The trace has no reply for this.", provider=self.name)
        yield reply

    def model_info(self, model: str) -> ModelInfo:
        """Nothing is known of it."""
        return ModelInfo(id=model, provider=self.name)

    async def models(self) -> list[ModelInfo]:
        """The one there is."""
        return [self.model_info("trace")]

    async def aclose(self) -> None:
        """Nothing is open."""


class ToldHands:
    """A session's pipeline, and the replies of a trace."""

    def __init__(self, live: LiveHands, model: TraceModel, trace: Trace) -> None:
        self._live = live
        self._model = model
        self._whole = trace.ended is not None
        self._replies = {
            (record.step_id, record.attempt): record
            for record in trace.records
            if isinstance(record, Replied)
        }

    async def ask(self, ask: Ask) -> Said:
        """What the model replied. Raises `MalformedReply` where the flow takes a course that it did not take before."""
        record = self._replies.get((ask.step_id, ask.attempt))
        if record is None:
            why = ask.before[-1].told if ask.before else ""
            if isinstance(why, ToolResult):
                why = why.error.message if why.error is not None else ""
            missing = f"the trace has no reply {ask.attempt} for {ask.step_id}. {why}".rstrip()
            if not self._whole and not why:
                raise MalformedReply(f"The trace was cut off here: {missing}")
            raise MalformedReply(f"The flow takes another course now: {missing}")
        parts: list[Part] = [Text(record.text)] if record.text else []
        if record.call is not None:
            parts.append(
                ToolCall(
                    new_id("c"), record.call.name, record.call.arguments, malformed=record.call.malformed
                )
            )
        self._model.next = Reply(Message("assistant", parts), record.finish_reason)
        return await self._live.ask(ask)

    async def call(self, step_id: str, tool: ToolSpec, asked: ToolCall) -> Performed:
        """Call a tool, as the session does."""
        return await self._live.call(step_id, tool, asked)


class Compared(NamedTuple):
    """A step's call then and now."""

    step_id: str
    tool: str
    same: bool
    before: ToolResult | None
    now: ToolResult | None


def compared(before: list[AnyRecord], now: list[AnyRecord]) -> list[Compared]:
    """What each step's last call gave then and now; steps that were not come to have none."""
    old, new = last_results(before), last_results(now)
    return [
        Compared(step_id, result.name, same(result, new.get(step_id)), result, new.get(step_id))
        for step_id, result in old.items()
    ]


def last_results(records: list[AnyRecord]) -> dict[str, ToolResult]:
    """The result of each step's last call."""
    return {record.step_id: record.result for record in records if isinstance(record, Called)}


def same(one: ToolResult, other: ToolResult | None) -> bool:
    """Whether two calls gave the same."""
    if other is None or one.ok != other.ok:
        return False
    if one.error is not None and other.error is not None:
        return one.error.code == other.error.code
    return (one.structured, one.content) == (other.structured, other.content)
