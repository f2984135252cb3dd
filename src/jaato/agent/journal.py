"""Journal of a session, its only writer: persists events in the store, applies them to the state, then publishes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from jaato.abc.store import Damaged, Store
from jaato.agent.bus import Bus
from jaato.agent.event_redaction import redact_event, redact_events
from jaato.agent.state import SessionState, State
from jaato.errors import JaatoError
from jaato.log import logger
from jaato.protocol.events import Event
from jaato.tools.redaction.redactor import Redactor

LOG = logger("journal")
AT_ONCE = 64
"""Events of a stored log that are folded in one go."""

Held = tuple[Event, Callable[[], None] | None, "Journal"]
"""A held event, a callback for when it was published, and the journal it belongs to."""


class Journal:
    """Writes a session's log. An event is durable when `record` returns; it is published only after that.

    Secrets are redacted first: the log, the model and the subscribers get the same text.
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
        self.session_state = SessionState(state)
        self._next = state.seq + 1
        self.held: list[Held] = []
        self._held_since = 0
        self.fault: JaatoError | None = None
        self._unseen: deque[Event] = deque()
        self._telling = False
        self._frozen = False

    def branch(self, agent_id: str) -> Journal:
        """The journal of a subagent: the same log, a state of its own."""
        return Branch(self, self.session_state.subagents[agent_id].state)

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
        first = redact_events(first, self.secrets)
        self.store.create(first)
        for event in first:
            self.session_state.apply(event)
        self._next = self.state.seq + 1

    def hold(
        self, event: Event, seen: Callable[[], None] | None = None, holder: Journal | None = None
    ) -> None:
        """Commit an event together with the next one, at the latest in the next iteration of the event loop.

        For an event that must be durable before the next effect and not before: what follows at once shares its
        commit. `seen` is called after it was published. A failing commit is raised by the next `record` of the same
        journal, which is `holder` for a subagent's event.
        """
        held = self.held
        if not held:
            self._held_since = self.secrets.known
            asyncio.get_running_loop().call_soon(self.let_go)
        held.append((redact_event(event, self.secrets), seen, holder or self))

    def freeze(self) -> None:
        """Stop writing and publishing: the log stays as it is now."""
        self._frozen = True

    @property
    def frozen(self) -> bool:
        """Whether writing has stopped; then nothing may be done that would have to be recorded first."""
        return self._frozen

    def flush(self) -> None:
        """Commit what is held now. Raises as `record` does."""
        if self.held or self.fault is not None:
            self.record()

    def let_go(self) -> None:
        """Commit what is held now; an error is raised by the next `record` of each journal concerned."""
        if not self.held:
            return
        holders = [one[2] for one in self.held]
        waiting, self.fault = self.fault, None
        try:
            self.record()
        except JaatoError as error:
            LOG.exception("Session %s: its log could not be written", self.state.session_id)
            for holder in holders:
                holder.fault = error  # raised when it next records
        if waiting is not None:
            self.fault = waiting

    def record(self, *events: Event, writer: Journal | None = None) -> None:
        """Commit held events and these together, then publish them. Raises `StoreError`: nothing was stored then, and the
        journals whose events were held raise it, too. `writer` is the subagent's journal, if it is one."""
        if self._frozen:
            self.held = []
            return
        events = redact_events(events, self.secrets)
        held = self.held
        if held:
            self.held = []
            before = tuple([one[0] for one in held])
            if self._held_since != self.secrets.known:  # a secret has become known since they were redacted
                before = redact_events(before, self.secrets)
            events = before + events
        pen = writer or self
        try:
            if pen.fault is not None:
                fault, pen.fault = pen.fault, None
                raise fault
            self.store.append(events)
            apply = self.session_state.apply
            for event in events:
                apply(event)
        except JaatoError as error:
            for _, _, holder in held:
                holder.fault = error if holder is not pen else None
            raise
        finally:
            self._next = self.state.seq + 1
        self._unseen.extend(events)
        if not self._telling:  # else a listener records: its events are published after the one it handles
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
        """Publish an ephemeral event."""
        if self._frozen:
            return
        self.bus.publish(*redact_events((event,), self.secrets))

    def load(self, session_id: str) -> None:
        """Apply the stored log to the state; damaged records are collected in `damaged`."""
        for _ in self.loading(session_id):
            pass

    def loading(self, session_id: str) -> Iterator[None]:
        """The same in batches, yielding between them so that the event loop can run. Use the journal only after the last one."""
        for number, event in enumerate(self.store.read(session_id), 1):
            if isinstance(event, Damaged):
                self.damaged.append(event)
            else:
                self.session_state.apply(*redact_events((event,), self.secrets))
            if number % AT_ONCE == 0:
                yield
        self._next = max(self.state.seq, self.store.last_seq(session_id)) + 1
        self.state.seq = self.loaded_seq = self._next - 1


class Branch(Journal):
    """The journal of a subagent: writes to the root's log in the order of all sequence numbers, with a state of its own."""

    def __init__(self, root: Journal, state: State) -> None:
        super().__init__(root.store, state, root.bus, root.secrets)
        self.session_state = root.session_state
        self.damaged = root.damaged
        self.loaded_seq = root.loaded_seq
        self._root = root

    def branch(self, agent_id: str) -> Journal:
        """The journal of another subagent of the log."""
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
