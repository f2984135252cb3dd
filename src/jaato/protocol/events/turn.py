"""Events of messages and turns: progress, completion, context usage, compaction."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jaato.protocol.events.envelope import Ephemeral, EventBase
from jaato.protocol.messages import FinishReason, Message, Problem, Usage


class MessageUser(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.user"):
    """Someone speaks to the agent; outside a turn it opens one."""

    message: Message
    turn_id: str


class MessageModel(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.model"):
    """The model has spoken: one whole reply and what it cost."""

    message: Message
    turn_id: str
    finish_reason: FinishReason
    usage: Usage | None = None
    cost_usd: float | None = None
    context_tokens: int = 0
    """How full the context is with this reply; the provider's count where it said, an estimate elsewhere."""
    context_limit: int | None = None


class MidTurnQueued(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="mid_turn.queued"
):
    """A message came while the model worked; it waits for the next pause."""

    message: Message


class MidTurnInjected(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="mid_turn.injected"
):
    """A waiting message has joined the conversation (its `message.user` stands beside this event)."""

    message_id: str


class TurnProgress(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="turn.progress"):
    """What the turn has used so far."""

    turn_id: str
    model_calls: int
    tool_calls: int
    usage: Usage


class TurnCompleted(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="turn.completed"):
    """A turn has ended; `reason` says how."""

    turn_id: str
    reason: Literal["stop", "cancelled", "limit", "length", "refusal", "error", "interrupted"]
    usage: Usage
    model_calls: int
    tool_calls: int
    duration_s: float
    cost_usd: float | None = None
    error: Problem | None = None


class ContextUpdated(
    Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="context.updated"
):
    """How full the model's context is; token counts are the provider's where it said, estimates elsewhere."""

    total_tokens: int
    context_limit: int | None
    percent_used: float | None


class Placed(Struct, frozen=True, gc=False, omit_defaults=True):
    """A new message of a shortened history, and the id of the message it stands before; empty for the end."""

    message: Message
    before: str = ""


class GcCompleted(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="gc.completed"):
    """Room was made in the context: messages are left out of what the model is sent, new ones are in. With a
    `problem` nothing has changed. Token counts are estimates."""

    strategy: str
    reason: str
    tokens_before: int
    tokens_after: int
    dropped: list[str] = []
    added: list[Placed] = []
    note: str | None = None
    """The id of the message that tells the model what it must still know."""
    notification: str | None = None
    problem: str | None = None
    usage: Usage | None = None
    """What a model that was asked for a summary used; None where none was, or none said."""
    cost_usd: float | None = None
