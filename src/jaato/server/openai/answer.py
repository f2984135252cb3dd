"""The answer to a message, from the events of its turn: text, and reasoning with a line for each call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from jaato.protocol.events import (
    AgentOutput,
    Event,
    MessageModel,
    MessageUser,
    PermissionRequested,
    Retry,
    SessionInfo,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.messages import Refusal, Thinking, Usage
from jaato.tools.invisible_text import one_line

Kind = Literal["content", "reasoning"]
FinishReason = Literal["stop", "length", "content_filter"]
AGENT_CHARS = 40
ARGUMENT_CHARS = 80
LINE_CHARS = 240
"""More than a call has, whose code would otherwise lose its end."""
NOTE_CHARS = 1_000
FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "cancelled": "stop",
    "interrupted": "stop",
    "length": "length",
    "limit": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
ENDED = {
    "limit": "The turn has ended at a limit of the session; the next message continues.",
    "cancelled": "The turn was stopped.",
    "interrupted": "The turn was interrupted; the next message continues.",
}
"""Notes for turns that did not end by themselves."""


QUOTE = "'"
MARKUP = str.maketrans({"\\": "\\\\", "[": "\\[", "<": "\\<", "`": QUOTE})


def escape_markdown(text: str) -> str:
    """A text in which Markdown finds no link, image, code or HTML."""
    return text.translate(MARKUP)


def unanswered(event: ToolCallEnd) -> list[str]:
    """The questions that the model has asked with this call and that were left open."""
    given = event.result.result
    if event.tool != "request_clarification" or not isinstance(given, dict):
        return []
    if given.get("answered"):
        return [str(question) for question in given.get("left_open", ())]
    return [str(question) for question, _ in given.get("qa_pairs", ())]


class Piece(NamedTuple):
    """A piece of the answer."""

    kind: Kind
    text: str


class AnswerFold:
    """Turns events into pieces of an answer, from the message with this `once` to the end of its turn."""

    def __init__(self, state: State, once: str) -> None:
        self._state = state
        self._once = once
        self.seq = state.seq
        """The last durable event that was handled, or that was there before."""
        self._turn_id = ""
        self._sent: dict[str, int] = {}
        """By source, how many characters of the current reply were sent."""
        self._in_line = False
        """Whether the reasoning so far ends within a line."""
        self._calls: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, ToolCallStart] = {}
        """Running calls that have no line yet, by id: of the calls that an agent runs at once, one is shown at a time."""
        self._shown: dict[str, str] = {}
        """By agent, its running call that has a line."""
        self._open_call = ""
        """The call whose line is not complete, if it is the last one."""
        self._gap = False
        self.completed: TurnCompleted | None = None

    @property
    def usage(self) -> Usage:
        """What the turn has used."""
        return self.completed.usage if self.completed is not None else Usage()

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended."""
        return FINISH.get(self.completed.reason if self.completed is not None else "stop", "stop")

    def feed(self, event: Event) -> Iterator[Piece]:
        """The pieces that an event adds."""
        if isinstance(event, SessionInfo):
            if event.state is not None:
                yield from self._catch_up(event.state)
            return
        if event.durable:
            if event.seq <= self.seq:
                return
            self.seq = event.seq
        elif event.seq < self.seq:
            return  # an entry that was handled, such as of a snapshot, has what it brings
        if isinstance(event, MessageUser) and event.message.once == self._once:
            self._turn_id = event.turn_id
        elif self._turn_id:
            yield from self._pieces(event)

    def _catch_up(self, state: State) -> Iterator[Piece]:
        """The pieces of a snapshot that stands for events that were left out."""
        self._state = state
        for entry in state.entries:
            yield from self.feed(entry)
        root = state.agents.get(state.root_agent_id)
        if root is not None and self._turn_id and self.completed is None:
            for source, text in root.streaming.items():
                yield from self._streamed(source, text, 0)

    def _pieces(self, event: Event) -> Iterator[Piece]:
        is_root = event.agent_id == self._state.root_agent_id
        match event:
            case AgentOutput() if is_root:
                yield from self._streamed(event.source, event.text, event.offset)
            case Retry() if is_root:
                self._gap = self._gap or any(self._sent.values())
                self._sent.clear()
            case MessageModel():
                self._calls |= {call.call_id: call.arguments for call in event.message.function_calls}
                if is_root:
                    yield from self._complete(event)
            case ToolCallStart():  # with the arguments that the user may have edited
                self._calls[event.call_id] = event.arguments
                self._waiting[event.call_id] = event
                yield from self._show_call(event.agent_id)
            case ToolCallEnd():
                yield from self._called(event)
            case PermissionRequested():
                line = (
                    f"waiting for permission: {self.call_text(event.agent_id, event.tool, event.arguments)}"
                )
                yield from self._reasoning_line(line)
            case TurnCompleted() if is_root and event.turn_id == self._turn_id:
                self.completed = event
                if note := ENDED.get(event.reason):
                    yield from self.note(note)

    def _streamed(self, source: str, text: str, offset: int) -> Iterator[Piece]:
        """What of a streamed text was not sent yet."""
        sent = self._sent.get(source, 0)
        if offset + len(text) > sent:
            self._sent[source] = offset + len(text)
            text = text[max(0, sent - offset) :]
            if source == "thinking":
                yield self._piece("reasoning", ("\n" if self._open_call else "") + text)
            else:
                yield self._piece("content", text)

    def _complete(self, event: MessageModel) -> Iterator[Piece]:
        """What of a reply was not streamed."""
        parts = event.message.parts
        whole = {
            "thinking": "".join(part.text for part in parts if isinstance(part, Thinking)),
            "model": event.message.text,
            "refusal": "".join(part.text for part in parts if isinstance(part, Refusal)),
        }
        for source, text in whole.items():
            yield from self._streamed(source, text, 0)
        self._gap = self._gap or bool(self._sent.get("model") or self._sent.get("refusal"))
        self._sent.clear()

    def _piece(self, kind: Kind, text: str) -> Piece:
        """A piece, apart from the reply before it."""
        if kind == "content":
            text, self._gap = ("\n\n" if self._gap else "") + text, False
        elif text:
            self._open_call = ""
            self._in_line = not text.endswith("\n")
        return Piece(kind, text)

    def _show_call(self, agent_id: str) -> Iterator[Piece]:
        """Begin the line of the next running call of an agent, unless another one has a line."""
        call = next((one for one in self._waiting.values() if one.agent_id == agent_id), None)
        if call is None or agent_id in self._shown:
            return
        self._shown[agent_id] = call.call_id
        text = self.call_text(agent_id, call.tool, self._waiting.pop(call.call_id).arguments)
        start = "\n" if self._in_line else ""
        yield self._piece("reasoning", f"{start}{text}")
        self._open_call = call.call_id

    def _called(self, event: ToolCallEnd) -> Iterator[Piece]:
        """The line of a call that has ended; a denial is part of the answer, with its reason."""
        arguments = self._calls.pop(event.call_id, None) or event.arguments or {}
        call = self.call_text(event.agent_id, event.tool, arguments)
        permission = event.permission
        if permission is not None and permission.decision == "denied":
            yield from self._outcome(event, call, "denied")
            reason = escape_markdown(permission.reason[:1].upper() + permission.reason[1:])
            if permission.method == "no_channel":
                reason += f" This session: jaato attach {self._state.session_id}"
            yield from self.note(f"Denied: {call}. {reason}")
        elif event.result.ok:
            yield from self._outcome(event, call, f"done in {event.duration_s:.1f} s")
            if questions := unanswered(event):
                text = escape_markdown(" ".join(questions))
                yield from self.note(
                    f"No one could answer this here: {text} The agent assumes an answer; correct it in your next message."
                )
        else:
            why = event.result.error.message if event.result.error is not None else "no reason was given"
            yield from self._outcome(event, call, f"failed: {escape_markdown(why)}")
        self._waiting.pop(event.call_id, None)
        if self._shown.get(event.agent_id) == event.call_id:
            del self._shown[event.agent_id]
        yield from self._show_call(event.agent_id)

    def _outcome(self, event: ToolCallEnd, call: str, text: str) -> Iterator[Piece]:
        """Complete the line of a call, or write the whole of it where other text has followed its beginning."""
        if self._open_call == event.call_id:
            self._open_call = ""
            yield self._piece("reasoning", f": {one_line(text, LINE_CHARS)}\n")
        else:
            yield from self._reasoning_line(f"{call}: {text}")

    def call_text(self, agent_id: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """A call in short, with the name of its agent if that is a subagent; as code, for front ends render Markdown."""
        agent = self._state.agents.get(agent_id)
        name = (
            f"{one_line(agent.name, AGENT_CHARS)}: "
            if agent is not None and agent_id != self._state.root_agent_id
            else ""
        )
        shown = ", ".join(
            f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in arguments.items()
        )
        call = f"{name}{one_line(tool, ARGUMENT_CHARS)}({one_line(shown, ARGUMENT_CHARS)})"
        return f"`{call.replace('`', QUOTE)}`"

    def _reasoning_line(self, text: str) -> Iterator[Piece]:
        start = "\n" if self._in_line else ""
        yield self._piece("reasoning", f"{start}{one_line(text, LINE_CHARS)}\n")

    def note(self, text: str) -> Iterator[Piece]:
        """A note in the answer that is not the model's."""
        yield self._piece("content", f"> {one_line(text, NOTE_CHARS)}")
        self._gap = True
