"""Repairs a conversation into strictly alternating turns in which every call has exactly one result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import is_
from typing import Literal

import msgspec
from msgspec import Struct

from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.messages import (
    Media,
    Message,
    Problem,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from jaato.providers.wire_encoding import result_content

OMITTED = "(Earlier messages were left out.)"
CONTINUE = "Continue."
CALL_ID = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
"""Call ids every dialect takes."""


class WireCall(Struct, frozen=True):
    """A call and the id it has on the wire, which no other call of the conversation has."""

    call: ToolCall
    wire_id: str


class WireResult(Struct, frozen=True):
    """A result and the call it belongs to."""

    asked: WireCall
    result: ToolResult


Piece = Text | Thinking | Media | Refusal | WireCall | WireResult


class WireTurn(Struct):
    """The messages of one side up to the next of the other; a user turn begins with the results, in call order."""

    role: Literal["user", "assistant"]
    pieces: list[Piece]


class Conversation:
    """Follows one conversation: which turns are complete since the last request, and how it ends now.

    A history that no API would take is repaired: adjacent messages of one side are one turn, a call without a
    result is answered as interrupted, a result without its call becomes text, the user begins and ends it.

    With a `provider`, what other providers gave for themselves stays behind: thoughts, ids, opaque bytes; with a
    `model`, the thoughts of other models too. `ids` are the call ids a provider takes back.
    """

    def __init__(
        self, provider: str | None = None, model: str | None = None, ids: re.Pattern[str] = CALL_ID
    ) -> None:
        self._provider = provider
        self._model = model
        self._call_ids = ids
        self._seen: list[Message] = []
        self._over: list[WireTurn] = []
        self._turn: WireTurn | None = None
        self._pending: dict[str, WireCall] = {}
        self._answers: dict[str, WireResult] = {}
        self._ids: set[str] = set()

    def follow(self, messages: Sequence[Message]) -> bool:
        """Add the new messages; False when they do not continue the earlier ones: make a new object then."""
        seen = self._seen
        if len(messages) < len(seen) or not all(map(is_, seen, messages)):
            return False
        for message in messages[len(seen) :]:
            seen.append(message)
            if message.role == "assistant":
                self._assistant(message)
            else:
                self._user(message)
        return True

    def take(self) -> list[WireTurn]:
        """The turns that ended since the last call; they will not change any more."""
        over, self._over = self._over, []
        return over

    def tail(self) -> list[WireTurn]:
        """The turns that still may grow, as they must be sent now; the last is the user's."""
        match self._turn:
            case None:
                return [WireTurn("user", [Text(OMITTED)])]
            case WireTurn(role="user"):
                return [WireTurn("user", self._collect_results() + self._turn.pieces)]
            case _:
                return [self._turn, WireTurn("user", self._collect_results() or [Text(CONTINUE)])]

    def _assistant(self, message: Message) -> None:
        turn = self._turn
        if turn is None:
            self._over.append(WireTurn("user", [Text(OMITTED)]))
        if turn is not None and (turn.role == "user" or self._pending):
            if turn.role == "assistant":
                self._over.append(turn)
                turn = WireTurn("user", [])
            self._over.append(WireTurn("user", self._collect_results() + turn.pieces))
            self._pending, self._answers = {}, {}
            turn = None
        self._turn = turn = turn or WireTurn("assistant", [])
        foreign = self._provider is not None and message.provider != self._provider
        another = self._model is not None and message.model not in (None, self._model)
        for part in message.parts:
            if foreign and isinstance(part, (Text, ToolCall)):
                part = without_origin(part)  # noqa: PLW2901 - without vendor data
            match part:
                case Thinking() if foreign or another:
                    pass  # only its own provider accepts it
                case ToolCall() if part.call_id not in self._pending:
                    asked = WireCall(part, self._wire_id(part))
                    self._pending[part.call_id] = asked
                    turn.pieces.append(asked)
                case ToolResult():
                    turn.pieces.append(Text(note(part)))
                case Text() | Thinking() | Media() | Refusal():
                    turn.pieces.append(part)

    def _user(self, message: Message) -> None:
        if self._turn is None or self._turn.role == "assistant":
            if self._turn is not None:
                self._over.append(self._turn)
            self._turn = WireTurn("user", [])
        for part in message.parts:
            match part:
                case ToolResult() if part.call_id in self._pending and part.call_id not in self._answers:
                    self._answers[part.call_id] = WireResult(self._pending[part.call_id], part)
                case ToolResult():
                    self._turn.pieces.append(Text(note(part)))
                    self._turn.pieces += [item for item in part.content if isinstance(item, Media)]
                case Text() | Media():
                    self._turn.pieces.append(part)
                case Refusal():
                    self._turn.pieces.append(Text(part.text))
                case Thinking() | ToolCall():
                    pass  # only a model thinks and calls

    def _collect_results(self) -> list[Piece]:
        return [
            self._answers.get(call_id) or make_interrupted_result(asked)
            for call_id, asked in self._pending.items()
        ]

    def _wire_id(self, call: ToolCall) -> str:
        wanted = call.provider_id or ""
        if not self._call_ids.fullmatch(wanted) or wanted in self._ids:
            wanted = re.sub(r"[^A-Za-z0-9_-]", "_", call.call_id)[:56] or "call"
        wire_id, count = wanted, 1
        while wire_id in self._ids:
            count += 1
            wire_id = f"{wanted[:56]}-{count}"
        self._ids.add(wire_id)
        return wire_id


def without_origin(part: Text | ToolCall) -> Text | ToolCall:
    """A part without what only the provider it came from understands."""
    if isinstance(part, Text):
        return part if part.opaque is None else Text(part.text)
    if part.opaque is None and part.provider_id is None:
        return part
    return msgspec.structs.replace(part, opaque=None, provider_id=None)


def make_interrupted_result(asked: WireCall) -> WireResult:
    """The answer to a call that has none."""
    problem = Problem("interrupted", "no result was recorded; the call may or may not have taken effect")
    return WireResult(asked, ToolResult(asked.call.call_id, asked.call.name, ok=False, error=problem))


def note(result: ToolResult) -> str:
    """A result that lost its call, as text."""
    text = "\n".join(part.text for part in result_content(result) if isinstance(part, Text))
    return f"[result of an earlier call of {result.name}]\n{text}"
