"""The pen of a session: store, then state, then everybody who watches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from jaato.abc.store import Damaged, Store
from jaato.agent.bus import Bus
from jaato.agent.masking import masked_event, masked_events
from jaato.agent.state import Family, State
from jaato.errors import JaatoError
from jaato.log import logger
from jaato.protocol.events import Event
from jaato.tools.redaction.redactor import Redactor

LOG = logger("journal")
AT_ONCE = 64
"""Events of a stored log that are folded in one go."""

Held = tuple[Event, Callable[[], None] | None, "Journal"]
"""An event that is held, what is called once it has been seen, and whose it is."""


class Journal:
    """Writes a session's log. An event is durable when `record` returns, and only then does anyone see it.

    What is secret is masked before anything else: the log, the model and the watchers get the same words.
    `loaded_seq` is the last event that was there when the log was opened; 0 for a new one.
    """

    def __init__(
        self, store: Store, state: State, bus: Bus | None = None, secrets: Redactor | None = None
    ) -> None:
        self.store = store
        self.state = state
        self.secrets = secrets or Redactor.none()
        self.bus = bus or Bus()
        self.damaged: list[Damaged] = []
        self.loaded_seq = 0
        self.family = Family(state)
        self._next = state.seq + 1
        self.held: list[Held] = []
        self._held_since = 0
        self.fault: JaatoError | None = None
        self._unseen: deque[Event] = deque()
        self._telling = False
        self._frozen = False

    def branch(self, agent_id: str) -> Journal:
        """The pen of a subagent: the same log, the state of its own."""
        return Branch(self, self.family.members[agent_id].state)

    def head(self, agent_id: str | None = None) -> dict[str, Any]:
        """The common fields of the next durable event; recorded in the order the heads were taken."""
        seq = self._next
        self._next += 1
        return {"session_id": self.state.session_id, "agent_id": agent_id or self.state.agent_id, "seq": seq}

    def shown(self, agent_id: str | None = None) -> dict[str, Any]:
        """The common fields of an ephemeral event."""
        state = self.state
        return {"session_id": state.session_id, "agent_id": agent_id or state.agent_id, "seq": state.seq}

    def begin(self, *first: Event) -> None:
        """Create the log with its first events."""
        first = masked_events(first, self.secrets)
        self.store.create(first)
        for event in first:
            self.family.apply(event)
        self._next = self.state.seq + 1

    def hold(
        self, event: Event, seen: Callable[[], None] | None = None, holder: Journal | None = None
    ) -> None:
        """Commit an event together with the next one, at the latest when the loop gets its turn.

        For an event that must be durable before the next effect and not before: what follows at once shares its
        commit. `seen` is called when it has been seen. A failing commit is raised by the next `record` of the same
        pen, which is `holder` when it is a subagent's.
        """
        held = self.held
        if not held:
            self._held_since = self.secrets.known
            asyncio.get_running_loop().call_soon(self.let_go)
        held.append((masked_event(event, self.secrets), seen, holder or self))

    def freeze(self) -> None:
        """Write and show nothing any more: the log stays as it is now."""
        self._frozen = True

    @property
    def frozen(self) -> bool:
        """Whether nothing is written any more; nothing may be done then that has to be written first."""
        return self._frozen

    def flush(self) -> None:
        """Commit what is held now. Raises as `record` does."""
        if self.held or self.fault is not None:
            self.record()

    def let_go(self) -> None:
        """Commit what is held now; why it could not be is raised by the next `record` of each pen."""
        if not self.held:
            return
        holders = [one[2] for one in self.held]
        waiting, self.fault = self.fault, None
        try:
            self.record()
        except JaatoError as error:
            LOG.exception("Session %s: its log could not be written", self.state.session_id)
            for holder in holders:
                holder.fault = error  # heard of when it next records
        if waiting is not None:
            self.fault = waiting

    def record(self, *events: Event, writer: Journal | None = None) -> None:
        """Commit events, and what is held before them, together, then let them be seen. Raises `StoreError`; nothing has
        happened then, and others whose events were held hear of it too. `writer` is the pen, where it is a subagent's."""
        if self._frozen:
            self.held = []
            return
        events = masked_events(events, self.secrets)
        held = self.held
        if held:
            self.held = []
            before = tuple([one[0] for one in held])
            if self._held_since != self.secrets.known:  # a secret has come to light since they were masked
                before = masked_events(before, self.secrets)
            events = before + events
        pen = writer or self
        try:
            if pen.fault is not None:
                fault, pen.fault = pen.fault, None
                raise fault
            self.store.append(events)
            apply = self.family.apply
            for event in events:
                apply(event)
        except JaatoError as error:
            for _, _, holder in held:
                holder.fault = error if holder is not pen else None
            raise
        finally:
            self._next = self.state.seq + 1
        self._unseen.extend(events)
        if (
            not self._telling
        ):  # else a listener records: what it says is seen after what it heard, by everyone
            self._telling = True
            try:
                while self._unseen:
                    self.bus.publish(self._unseen.popleft())
            finally:
                self._telling = False
        for _, seen, _ in held:
            if seen is not None:
                seen()

    def show(self, event: Event) -> None:
        """Let an ephemeral event be seen."""
        if self._frozen:
            return
        self.bus.publish(*masked_events((event,), self.secrets))

    def load(self, session_id: str) -> None:
        """Fold the stored log into the state; damaged records are kept aside in `damaged`."""
        for _ in self.loading(session_id):
            pass

    def loading(self, session_id: str) -> Iterator[None]:
        """The same, piece by piece: others may have their turn after each. Use the journal after the last one only."""
        for number, event in enumerate(self.store.read(session_id), 1):
            if isinstance(event, Damaged):
                self.damaged.append(event)
            else:
                self.family.apply(*masked_events((event,), self.secrets))
            if number % AT_ONCE == 0:
                yield
        self._next = max(self.state.seq, self.store.last_seq(session_id)) + 1
        self.state.seq = self.loaded_seq = self._next - 1


class Branch(Journal):
    """A subagent's pen: writes its root's log, in the order of all heads taken there, and knows its own state."""

    def __init__(self, root: Journal, state: State) -> None:
        super().__init__(root.store, state, root.bus, root.secrets)
        self.family = root.family
        self.damaged = root.damaged
        self.loaded_seq = root.loaded_seq
        self._root = root

    def branch(self, agent_id: str) -> Journal:
        """A pen for another subagent of the log."""
        return self._root.branch(agent_id)

    def head(self, agent_id: str | None = None) -> dict[str, Any]:
        """As the root's, in the name of this agent."""
        return self._root.head(agent_id or self.state.agent_id)

    def shown(self, agent_id: str | None = None) -> dict[str, Any]:
        """As the root's, in the name of this agent."""
        return self._root.shown(agent_id or self.state.agent_id)

    def show(self, event: Event) -> None:
        """As the root's."""
        self._root.show(event)

    @property
    def frozen(self) -> bool:
        """As the root's."""
        return self._root.frozen

    def hold(
        self, event: Event, seen: Callable[[], None] | None = None, holder: Journal | None = None
    ) -> None:
        """As the root's."""
        self._root.hold(event, seen, holder or self)

    def let_go(self) -> None:
        """As the root's."""
        self._root.let_go()

    def flush(self) -> None:
        """As the root's."""
        if self._root.held or self.fault is not None:
            self.record()

    def record(self, *events: Event, writer: Journal | None = None) -> None:
        """As the root's."""
        self._root.record(*events, writer=writer or self)
