"""What a session, its present turn and the present day have used: a fold of the log of all its agents."""

from __future__ import annotations

import msgspec

from jaato.protocol.events import (
    AgentCreated,
    BudgetUpdated,
    Event,
    GcCompleted,
    MessageModel,
    MessageUser,
    SessionCreated,
    SessionUpdated,
    TurnCompleted,
)
from jaato.settings.budgets import Scope, Unit

Key = tuple[Scope, Unit]
DAY_CHARS = len("2026-01-31")


class Budget(msgspec.Struct, frozen=True):
    """Limits by scope and unit; with `more`, budgets that were used up begin again with as much as they had."""

    limits: dict[Key, float] = {}
    more: bool = False


class Amount(msgspec.Struct):
    """Tokens, US dollars and seconds."""

    tokens: int = 0
    usd: float = 0.0
    s: float = 0.0

    def add(self, other: Amount) -> None:
        """Add another amount."""
        self.tokens += other.tokens
        self.usd += other.usd
        self.s += other.s

    def grown(self, most: Amount, share: float) -> Amount:
        """The amount with a share of what `most` is beyond it."""
        tokens = self.tokens + int((most.tokens - self.tokens) * share)
        return Amount(tokens, self.usd + (most.usd - self.usd) * share, self.s)

    def of(self, unit: Unit) -> float:
        """The amount in one unit."""
        return self.tokens if unit == "tokens" else self.usd if unit == "usd" else self.s


class Spending(msgspec.Struct):
    """Changed by `apply` only, but for `unrecorded`: what replies have used, by agent, until their event is applied."""

    session: Amount = msgspec.field(default_factory=Amount)
    turn: Amount = msgspec.field(default_factory=Amount)
    day: Amount = msgspec.field(default_factory=Amount)
    turn_id: str = ""
    """The latest turn of the root that a message of the user has begun; those that ended background work begins belong to it."""
    date: str = ""
    """The day that `day` is about, in UTC."""
    created_at: str = ""
    is_own: bool = False
    """Whether an event was recorded since the session was created; what is older before it was copied from another session."""
    budgets: dict[Key, BudgetUpdated] = msgspec.field(default_factory=dict)
    """The latest event of each budget that was used up."""
    unrecorded: dict[str, Amount] = msgspec.field(default_factory=dict)

    def apply(self, event: Event, *, is_root: bool) -> None:
        """Apply one event of `SPENDING_EVENTS`; `is_root` says whether it is the root's."""
        match event:
            case MessageModel() | GcCompleted():
                self.unrecorded.pop(event.agent_id, None)
                self._add(event.timestamp, measure_call(event))
            case MessageUser() if (
                is_root and event.turn_id != self.turn_id and event.message.source == "user"
            ):
                self.turn_id = event.turn_id
                self.turn = Amount()
                self.budgets = {key: one for key, one in self.budgets.items() if key[0] != "turn"}
            case TurnCompleted() if is_root:
                self._add(event.timestamp, Amount(s=event.duration_s))
            case BudgetUpdated():
                self.budgets[event.scope, event.unit] = event
            case SessionCreated():
                self.created_at = event.timestamp
                return
        self.is_own = self.is_own or event.timestamp >= self.created_at

    def begin_day(self, date: str) -> None:
        """Count from now on what is used in this day, if it is later than the one before."""
        if date > self.date:
            self.date, self.day = date, Amount()

    def _add(self, timestamp: str, amount: Amount) -> None:
        """Count an amount; a clock that was set back begins no earlier day."""
        if not self.is_own and timestamp < self.created_at:
            return
        self.begin_day(timestamp[:DAY_CHARS])
        self.session.add(amount)
        self.turn.add(amount)
        self.day.add(amount)


SPENDING_EVENTS = frozenset(
    (
        MessageModel,
        GcCompleted,
        MessageUser,
        TurnCompleted,
        BudgetUpdated,
        SessionCreated,
        SessionUpdated,
        AgentCreated,
    )
)
"""`SessionUpdated` and `AgentCreated` only show where the session's own events begin."""


def measure_call(event: MessageModel | GcCompleted) -> Amount:
    """What a model call has used; where the provider did not say, the tokens that the context has with it."""
    usage = event.usage
    if usage is not None:
        return Amount(usage.input_tokens + usage.output_tokens, event.cost_usd or 0.0)
    return (
        Amount(event.context_tokens, event.cost_usd or 0.0) if isinstance(event, MessageModel) else Amount()
    )
