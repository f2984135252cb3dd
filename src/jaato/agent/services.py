"""Plans, pins and waypoints of a session: read from the fold, changed through the log."""

from __future__ import annotations

from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.model import ModelClient
from jaato.errors import ConfigError
from jaato.protocol.events import ContextPinned, PlanCleared, PlanUpdated, WaypointUpdated, now
from jaato.protocol.messages import Message
from jaato.protocol.specs import Owner, Plan, Waypoint
from jaato.tools.call import replace_surrogates
from jaato.tools.waypoints import Action, Tree


class Plans:
    """The plans of a session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def current(self) -> Plan | None:
        """The plan in work."""
        return self._journal.state.plan

    @property
    def plans(self) -> dict[str, Plan]:
        """Every plan by id."""
        return self._journal.state.plans

    def update(self, plan: Plan) -> None:
        """Record a plan as it is now."""
        self._journal.record(PlanUpdated(**self._journal.head(), plan=plan))

    def clear(self, plan_id: str) -> None:
        """Forget a plan."""
        self._journal.record(PlanCleared(**self._journal.head(), plan_id=plan_id))


MAX_PINS, MAX_PIN_CHARS = 30, 2_000


class Pins:
    """The texts that the user pinned in a session: every compaction keeps them."""

    def __init__(self, journal: Journal, inbox: Inbox, model: ModelClient) -> None:
        self._journal = journal
        self._inbox = inbox
        self._model = model

    def add(self, text: str) -> str:
        """Pin a text and send it to the model; returns its id. Raises `ConfigError` for one too long, for too many, and where
        they would take too much of the context."""
        text, pins = replace_surrogates(text).strip(), self._journal.state.pins
        if not 0 < len(text) <= MAX_PIN_CHARS or len(pins) >= MAX_PINS:
            raise ConfigError(f"Pin up to {MAX_PINS} texts of 1 to {MAX_PIN_CHARS:,} characters: /pin TEXT.")
        most, taken = self._model.pin_chars, sum(map(len, pins.values()))
        if taken + len(text) > most:
            raise ConfigError(
                f"Pins may take {most:,} characters of this model's context of {self._model.limit.tokens:,} tokens; "
                f"{taken:,} are taken, and this text has {len(text):,}. Shorten it, or remove a pin: /pin remove ID."
            )
        pin_id = f"p{max([0, *(int(known[1:]) for known in pins)]) + 1}"
        pinned = ContextPinned(**self._journal.head(), pin_id=pin_id, text=text)
        self._inbox.notify(f"The user pinned this, to be remembered: {text}", "system", pinned)
        return pin_id

    def remove(self, pin_id: str) -> None:
        """Remove a pin."""
        self._journal.record(ContextPinned(**self._journal.head(), pin_id=pin_id, gone=True))


PREVIEW_CHARS = 100


class Waypoints:
    """The waypoints of a session. Called on its loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def tree(self) -> Tree:
        """The waypoints as they are."""
        return self._journal.state.waypoints

    def create(self, description: str, owner: Owner, mark: str, *, ceiling: bool = False) -> Waypoint:
        """Make one where the session stands, which is then the current one."""
        state = self._journal.state
        made = Waypoint(
            self.tree.next_id,
            description,
            owner,
            parent=self.tree.current,
            created_at=now(),
            message_count=len(state.messages),
            turn_index=state.turns,
            preview=preview_of(state.messages),
            mark=mark,
            ceiling=ceiling,
        )
        self._record("created", made, made.id, mark, True)
        return made

    def stand(self, waypoint_id: str, mark: str, saved: bool) -> None:
        """Note that the files went back to one."""
        self._record("restored", self.tree.waypoints[waypoint_id], waypoint_id, mark, saved)

    def delete(self, waypoint_id: str) -> None:
        """Forget one; those that went on from it go on from the one before."""
        current, saved = self.tree.without(waypoint_id)
        self._record("deleted", self.tree.waypoints[waypoint_id], current, self.tree.mark, saved)

    def _record(self, action: Action, waypoint: Waypoint, current: str, mark: str, saved: bool) -> None:
        journal = self._journal
        journal.record(
            WaypointUpdated(
                **journal.head(), action=action, waypoint=waypoint, current=current, mark=mark, saved=saved
            )
        )


def preview_of(messages: list[Message]) -> str:
    """The beginning of the last user message."""
    for message in reversed(messages):
        if message.role == "user" and message.source == "user" and message.text:
            return " ".join(message.text[: 4 * PREVIEW_CHARS].split())[:PREVIEW_CHARS]
    return ""
