"""Structured output: the answer of a run parsed into the type asked for, with retries while it does not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from jaato.errors import MalformedReply
from jaato.protocol.events import TurnCompleted
from jaato.protocol.messages import Message, Usage
from jaato.tools.schema import foreign_value
from jaato.typed_decoding import prepare_type

if TYPE_CHECKING:
    from jaato.agent.session import Session

T = TypeVar("T")
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """The result of a run: the final text, `data` in the type asked for, what it cost, and the conversation so far:
    `messages`, which `history=` takes."""

    text: str
    data: T
    turn: TurnCompleted
    session_id: str
    messages: list[Message] = field(default_factory=list, repr=False)

    def messages_json(self) -> str:
        """The messages as JSON text, which `history=` takes as well."""
        return msgspec.json.encode(self.messages).decode()

    @property
    def usage(self) -> Usage:
        """The tokens of the turn."""
        return self.turn.usage

    @property
    def cost_usd(self) -> float | None:
        """The price of the turn in US dollars, None when the model's prices are unknown."""
        return self.turn.cost_usd


async def ask_until_parsed(
    prompt: str, kind: type[T], ask: Callable[[str], Awaitable[Result[None]]]
) -> Result[T]:
    """Ask, and retry with what is wrong, until the answer parses. Raises `MalformedReply` after `ATTEMPTS` of them."""
    problem: Exception | None = None
    for _ in range(ATTEMPTS):
        answer = await ask(prompt)
        try:
            data = parse(answer.text, kind)
            return Result(answer.text, data, answer.turn, answer.session_id, answer.messages)
        except (ValueError, RecursionError) as error:
            problem = error
            prompt = f"That was not the JSON asked for: {error}. Give only the JSON."
    raise MalformedReply(f"The model's answer does not fit {kind!r}: {problem}")


def parse(text: str, kind: Any) -> Any:
    """Parse an answer, which may be in a code fence, as JSON of a type. Raises ValueError when it does not fit."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.split("\n", 1)[-1].rsplit("```", 1)[0]
    prepare_type(kind)
    return msgspec.json.decode(stripped, type=kind, dec_hook=foreign_value)


def last_text(session: Session) -> str:
    """The text of the model's last message."""
    for message in reversed(session.state.messages):
        if message.role == "assistant":
            return message.text
    return ""
