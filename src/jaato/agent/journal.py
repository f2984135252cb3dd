"""Journal of a session, its only writer: persists events in the store, applies them to the state, then publishes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jaato.abc.store import Damaged, InvalidEvent, Store, lost_start_error
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
MAX_SHARED = 64
"""How many share a commit, which blocks the event loop."""

Held = tuple[Event, Callable[[], None] | None, "Journal"]
"""A held event, a callback for when it was published, and the journal it belongs to."""


class Unit(Struct, eq=False):
    """Events of which all are stored or none, the future of the task that waits for it, and why they could not be stored."""

    events: tuple[Event, ...]
    done: asyncio.Future[None] | None = None
    error: JaatoError | None = None

    def resolve(self, error: Exception | None = None) -> None:
        """Resume the task that waits for the commit; an error is raised there."""
        if self.done is None or self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def without_event(units: list[Unit], error: InvalidEvent, seq: int) -> list[Unit]:
    """The units without that of an invalid event, which gets the error; their events are numbered from `seq`."""
    count, rest = 0, []
    for unit in units:
        invalid = count <= error.index < count + len(unit.events)
        count += len(unit.events)
        if invalid:
            unit.error = error
            continue
        unit.events = tuple([replace(event, seq=number) for number, event in enumerate(unit.events, seq)])
        seq += len(unit.events)
        rest.append(unit)
    return rest


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
        self._shared: list[Unit] = []
        self._waiting_since = 0
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
        event = redact_event(event, self.secrets)
        self._await_commit()
        self.held.append((event, seen, holder or self))

    async def share(self, *events: Event, writer: Journal | None = None) -> None:
        """Commit these together with what others share in this iteration of the event loop; they are durable and published
        when this returns, and also when it is cancelled. Raises `StoreError` as `record` does; what others share is stored
        all the same, unless the store takes nothing."""
        if self.held or (writer or self).fault is not None:  # these come first, and a failure is for both
            return self.record(*events, writer=writer)
        if self._frozen:
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unit = Unit(redact_events(events, self.secrets), done)
        self._await_commit()
        self._shared.append(unit)
        if len(self._shared) >= MAX_SHARED:
            self.let_go()
        try:
            await done
        except (asyncio.CancelledError, GeneratorExit):
            self.let_go()  # what is recorded about the cancellation comes after these
            raise

    @property
    def is_sharing(self) -> bool:
        """Whether events wait for a shared commit."""
        return bool(self._shared)

    def _await_commit(self) -> None:
        """Commit what waits in the next iteration of the event loop."""
        if not (self.held or self._shared):
            self._waiting_since = self.secrets.known
            asyncio.get_running_loop().call_soon(self.let_go)

    def freeze(self) -> None:
        """Stop writing and publishing: the log stays as it is now."""
        self._frozen = True
        shared, self._shared = self._shared, []
        for unit in shared:
            unit.resolve()

    @property
    def frozen(self) -> bool:
        """Whether writing has stopped; then nothing may be done that would have to be recorded first."""
        return self._frozen

    def flush(self) -> None:
        """Commit what is held now. Raises as `record` does."""
        if self.held or self._shared or self.fault is not None:
            self.record()

    def let_go(self) -> None:
        """Commit what is held or shared now; an error is raised by the next `record` of each journal that held events."""
        if not (self.held or self._shared):
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
        """Commit held events and these together, then publish them. Raises `StoreError`: nothing of these was stored then,
        and the journals whose events were held raise it, too. What others share is in the same commit. `writer` is the
        subagent's journal, if it is one."""
        if self._frozen:
            self.held = []
            return
        own = Unit(redact_events(events, self.secrets))
        held, self.held = self.held, []
        shared, self._shared = self._shared, []
        if held:
            own.events = tuple([one[0] for one in held]) + own.events
        pen = writer or self
        own.error, pen.fault = pen.fault, None
        try:
            if (held or shared) and self._waiting_since != self.secrets.known:
                # a secret has become known meanwhile
                for unit in (*shared, own):
                    unit.events = redact_events(unit.events, self.secrets)
            stored = self._store([*shared, own] if own.error is None else shared)
        except Exception as error:
            for unit in shared:
                unit.resolve(error)
            raise
        finally:
            self._next = self.state.seq + 1
        if own.error is not None:
            for _, _, holder in held:
                holder.fault = own.error if holder is not pen else None
        self._publish(stored)
        for unit in shared:
            unit.resolve(unit.error)
        if own.error is not None:
            raise own.error
        for _, seen, _ in held:
            if seen is not None:
                seen()

    def _store(self, units: list[Unit]) -> list[Event]:
        """Commit all units at once and apply their events, which are returned. One that is invalid gets the error, and the
        others go without it; if the store takes nothing, all get its error."""
        while True:
            events = [event for unit in units for event in unit.events]
            try:
                self.store.append(events)
            except InvalidEvent as error:
                units = without_event(units, error, self.state.seq + 1)
            except JaatoError as error:
                for unit in units:
                    unit.error = error
                return []
            else:
                apply = self.session_state.apply
                for event in events:
                    apply(event)
                return events

    def _publish(self, events: list[Event]) -> None:
        self._unseen.extend(events)
        if self._telling:
            return  # a listener records: its events are published after the one it handles
        self._telling = True
        try:
            while self._unseen:
                self.bus.publish(self._unseen.popleft())
        finally:
            self._telling = False

    def show(self, event: Event) -> None:
        """Publish an ephemeral event."""
        if self._frozen:
            return
        self.bus.publish(*redact_events((event,), self.secrets))

    def load(self, session_id: str) -> None:
        """Apply the stored log to the state; damaged records are collected in `damaged`. Raises `StoreError` for a log without
        its first record."""
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
        if not self.state.session_id:
            raise lost_start_error(
                self.store.path, session_id, next(iter(self.damaged), None), len(self.damaged)
            )
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

    async def share(self, *events: Event, writer: Journal | None = None) -> None:
        """As the root's."""
        await self._root.share(*events, writer=writer or self)

    @property
    def is_sharing(self) -> bool:
        """As the root's."""
        return self._root.is_sharing

    def let_go(self) -> None:
        """As the root's."""
        self._root.let_go()

    def flush(self) -> None:
        """As the root's."""
        if self._root.held or self._root.is_sharing or self.fault is not None:
            self.record()

    def record(self, *events: Event, writer: Journal | None = None) -> None:
        """As the root's."""
        self._root.record(*events, writer=writer or self)
