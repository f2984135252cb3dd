"""What a run gave: its text, and the value that text is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from jaato.protocol.events import TurnCompleted
from jaato.protocol.messages import Usage
from jaato.tools.schema import foreign_value

if TYPE_CHECKING:
    from jaato.agent.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """What a run gave: the final text, `data` in the type asked for, and what it cost."""

    text: str
    data: T
    turn: TurnCompleted
    session_id: str

    @property
    def usage(self) -> Usage:
        """The tokens of the turn."""
        return self.turn.usage

    @property
    def cost_usd(self) -> float | None:
        """The price of the turn in US dollars, None when the model's prices are unknown."""
        return self.turn.cost_usd


def parse(text: str, kind: Any) -> Any:
    """The answer in the type asked for; raises ValueError (msgspec's errors are such) when it does not fit."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.split("\n", 1)[-1].rsplit("```", 1)[0]
    return msgspec.json.decode(stripped, type=kind, dec_hook=foreign_value)


def last_text(session: Session) -> str:
    """The text of the model's last message."""
    for message in reversed(session.state.messages):
        if message.role == "assistant":
            return message.text
    return ""
