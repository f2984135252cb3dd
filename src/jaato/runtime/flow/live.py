"""Who thinks and acts in a flow that runs: a session's model, and its pipeline."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from jaato.abc.provider import ModelRequest, Reply
from jaato.agent.session import Session
from jaato.agent.turn import Turn, take_reply
from jaato.errors import CancelledException
from jaato.plugins.arp.sent import TRACE
from jaato.protocol.events import MessageModel
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Problem, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow.calling import MISTAKEN
from jaato.runtime.flow.parts import Performed
from jaato.runtime.flow.words import Ask, Said
from jaato.runtime.result import parse
from jaato.tools.call import Outcome
from jaato.tools.pipeline import run


class LiveHands:
    """One turn of a session. `last` is the newest reply of the model that is not in the log yet."""

    def __init__(self, session: Session, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self._raw: dict[str, Message] = {}
        self._calls: dict[str, ToolCall] = {}
        self.last: dict[str, Any] | None = None

    # --- the model ---------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Said:
        """What the model replies; without a tool to call it is the answer, which the end of the turn makes durable.

        Raises `ProviderError`, `CancelledException`."""
        session = self._session
        if session.reply.stopped:
            raise CancelledException("Stopped before the model was asked.")
        reply = await session.reply.read(session.provider, self._request(ask))
        fields = take_reply(session, self._turn, fitted(reply, ask.tool))
        message: Message = fields["message"]
        self._raw[key_of(ask)] = message
        if ask.tool is None and ask.schema is None:
            self.last = fields
        else:
            session.journal.record(MessageModel(**session.journal.head(), **fields))
        call = next(iter(message.function_calls), None)
        if call is not None:
            self._calls[call.call_id] = call
        return self._said(message, call, fields)

    def _request(self, ask: Ask) -> ModelRequest:
        session = self._session
        state = session.state
        return ModelRequest(
            model=state.model,
            messages=self._messages(ask),
            system=ask.system,
            tools=[ask.tool] if ask.tool is not None else [],
            settings=msgspec.structs.replace(session.settings, response_schema=ask.schema),
            conversation_id=state.session_id,
            read_blob=functools.partial(session.journal.store.get_blob, state.session_id),
        )

    def _messages(self, ask: Ask) -> list[Message]:
        """The prompt, and the reply that would not do with what is said of it."""
        messages = [Message("user", [Text(ask.prompt)])]
        for one in ask.before:
            messages.append(self._raw[key_of(ask._replace(attempt=ask.attempt - 1))])
            if isinstance(one.told, str):
                messages.append(Message("user", [Text(one.told)]))
            else:
                messages.append(Message("tool", [one.told]))
        return messages

    def _said(self, message: Message, call: ToolCall | None, fields: dict[str, Any]) -> Said:
        secrets = self._session.journal.secrets
        shown = None
        if call is not None:
            shown = ToolCall(
                call.call_id, call.name, secrets.masked(call.arguments), malformed=call.malformed
            )
        return Said(
            secrets.mask(message.text), shown, fields["finish_reason"], fields["usage"], fields["cost_usd"]
        )

    # --- the pipeline ------------------------------------------------------------------------------------------

    async def call(self, step_id: str, tool: ToolSpec, asked: ToolCall) -> Performed:
        """Call a tool as a step of this flow: valid, permitted, in the log before and after."""
        session = self._session
        session.activate([tool.name])
        self._turn.tool_calls += 1
        call = session.steps.call(self._calls[asked.call_id], self._turn.id)
        trace = {"flow_id": session.state.session_id, "step_id": step_id}
        call.services = {**call.services, TRACE: trace}
        if call.name == tool.name:
            await run(call, session.steps)
        else:
            text = f"This step calls {tool.name}, and nothing else."
            session.steps.ended(call, Outcome(False, problem=Problem(code=MISTAKEN, message=text)))
        return Performed(session.journal.secrets.masked(call.arguments), self._result(call.id))

    def _result(self, call_id: str) -> ToolResult:
        """The result as it is in the log: without secrets, and bounded; data without the same as text."""
        for message in reversed(self._session.state.messages):
            for part in message.parts:
                if isinstance(part, ToolResult) and part.call_id == call_id:
                    return part if part.structured is None else msgspec.structs.replace(part, content=[])
        raise LookupError(call_id)


def key_of(ask: Ask) -> str:
    """One reply among those of a flow."""
    return f"{ask.step_id} {ask.attempt}"


def fitted(reply: Reply, tool: ToolSpec | None) -> Reply:
    """The reply with no call beyond the first, and none where there is no tool to call; arguments that were written
    as text are a call."""
    message = reply.message
    calls = message.function_calls[:1] if tool is not None else []
    parts: list[Part] = [part for part in message.parts if not isinstance(part, ToolCall) or part in calls]
    if tool is not None and not calls and (arguments := written(message.text)) is not None:
        parts.append(ToolCall(new_id("c"), tool.name, arguments))
    return msgspec.structs.replace(reply, message=msgspec.structs.replace(message, parts=parts))


def written(text: str) -> dict[str, Any] | None:
    """Arguments that a model wrote as text."""
    try:
        value = parse(text, dict[str, Any])
    except (ValueError, RecursionError):
        return None
    return dict(value)
