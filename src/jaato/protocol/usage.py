"""What was used, as the stored events say: of each event that counts only the fields that do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from jaato.protocol.messages import Usage


class UsageEvent(Struct, frozen=True, gc=False, kw_only=True, tag_field="type"):
    """What the events below have in common; see `EventBase`."""

    session_id: str
    agent_id: str
    seq: int
    timestamp: str = ""


class AgentBegan(UsageEvent, frozen=True, gc=False, kw_only=True, tag="agent.created"):
    """Of `AgentCreated`."""

    name: str = ""
    provider: str = ""
    model: str = ""
    parent_agent_id: str | None = None


class ModelNamed(Struct, frozen=True, gc=False):
    """Of the message of a reply."""

    provider: str | None = None
    model: str | None = None


class ReplyUsed(UsageEvent, frozen=True, gc=False, kw_only=True, tag="message.model"):
    """Of `MessageModel`: one model call."""

    message: ModelNamed
    usage: Usage | None = None
    cost_usd: float | None = None
    context_tokens: int = 0


class SummaryUsed(UsageEvent, frozen=True, gc=False, kw_only=True, tag="gc.completed"):
    """Of `GcCompleted`: the model call for a summary, where there was one."""

    usage: Usage | None = None
    cost_usd: float | None = None


class TextSize(Struct, frozen=True, gc=False, tag="text"):
    """Text of a result."""

    text: str = ""


class MediaSize(Struct, frozen=True, gc=False, tag="media"):
    """An image of a result, whose tokens are not estimated."""


class ResultSize(Struct, frozen=True, gc=False):
    """Of the result of a call."""

    content: list[TextSize | MediaSize] = []

    @property
    def chars(self) -> int:
        """The characters of its text."""
        return sum(len(part.text) for part in self.content if isinstance(part, TextSize))


class CallUsed(UsageEvent, frozen=True, gc=False, kw_only=True, tag="tool.call_end"):
    """Of `ToolCallEnd`."""

    tool: str
    result: ResultSize
    duration_s: float = 0.0


class TurnUsed(UsageEvent, frozen=True, gc=False, kw_only=True, tag="turn.completed"):
    """Of `TurnCompleted`."""

    duration_s: float = 0.0
    reason: Literal["stop", "cancelled", "limit", "length", "refusal", "error", "interrupted"] = "stop"


UsageRecord = AgentBegan | ReplyUsed | SummaryUsed | CallUsed | TurnUsed
DECODER: msgspec.json.Decoder[UsageRecord] = msgspec.json.Decoder(UsageRecord)
BEGINNING = b'{"type":"'
"""How every stored event begins."""
COUNTED = tuple(
    b'%s%s"' % (BEGINNING, name)
    for name in (b"agent.created", b"message.model", b"gc.completed", b"tool.call_end", b"turn.completed")
)


def get_history_time(created_at: str) -> str:
    """The timestamp of the events of a history that a session was created with at this time; "" for what is no time."""
    try:
        moment = datetime.fromisoformat(created_at) - timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
