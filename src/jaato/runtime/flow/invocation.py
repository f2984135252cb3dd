"""Asks a session's model and calls tools through its pipeline, for the steps of a flow."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from jaato.abc.provider import ModelRequest, Reply
from jaato.agent.session import Session
from jaato.agent.turn import Turn
from jaato.plugins.arp.calls import TRACE
from jaato.protocol.events import MessageModel
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Problem, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.result import parse
from jaato.runtime.flow.execution import MISTAKEN, CallResult
from jaato.runtime.flow.prompts import ModelReply, StepPrompt
from jaato.tools.call import Outcome
from jaato.tools.pipeline import run


class SessionInvoker:
    """One turn of a session. `unrecorded` is the newest reply of the model that is not in the log yet."""

    def __init__(self, session: Session, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self._last = Message("assistant", [])
        self.unrecorded: dict[str, Any] | None = None

    async def reply(self, prompt: StepPrompt) -> ModelReply:
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
            call = ToolCall(call.call_id, call.name, secrets.masked(call.arguments), malformed=call.malformed)
        return ModelReply(
            secrets.mask(message.text), call, fields["finish_reason"], fields["usage"], fields["cost_usd"]
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
            settings=msgspec.structs.replace(session.model.settings, response_schema=prompt.schema),
            conversation_id=state.session_id,
            read_blob=functools.partial(session.journal.store.get_blob, state.session_id),
        )

    async def call(self, prompt: StepPrompt, tool: ToolSpec, asked: ToolCall) -> CallResult:
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
            session.tools.ended(call, Outcome(False, problem=Problem(code=MISTAKEN, message=text)))
        return CallResult(session.journal.secrets.masked(call.arguments), self._result(call.id))

    def _result(self, call_id: str) -> ToolResult:
        """The result as it is in the log: without secrets, and bounded; data without the same as text."""
        for message in reversed(self._session.state.messages):
            for part in message.parts:
                if isinstance(part, ToolResult) and part.call_id == call_id:
                    return part if part.structured is None else msgspec.structs.replace(part, content=[])
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
    return msgspec.structs.replace(reply, message=msgspec.structs.replace(message, parts=parts))
