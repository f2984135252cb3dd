"""One session as its watchers see it, whether it is at work here, in another process, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from jaato.abc.store import Store
from jaato.agent.event_redaction import redact_log
from jaato.client.state import apply, live_of
from jaato.errors import JaatoError
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentStatusChanged,
    Event,
    InitProgress,
    SessionInfo,
    SystemMessage,
)
from jaato.protocol.events.state import State
from jaato.protocol.specs import ClientView, SandboxView, SessionEntry
from jaato.server.sessions.idempotency import PendingMessage, RecentRequests
from jaato.server.sessions.subscription import EventBuffer, Subscription, Wire, framed, kind_of
from jaato.tools.redaction.redactor import Redactor

TELL_S = 0.1
"""How often it is said at most who is there: to say it to all costs as much as there are clients and tools."""


class Room:
    """A session's state, its newest events, and who watches it. Everything happens on the loop.

    `hear` takes what happens, from the session's bus or from the store; a watcher is told it in the same step.
    """

    def __init__(
        self, store: Store, secrets: Redactor, state: State, recall: RecentRequests | None = None
    ) -> None:
        self.store = store
        self.secrets = secrets
        self.state = state
        self.ring = EventBuffer()
        self.tools: Callable[[], list[dict[str, object]]] = list
        self.models: list[str] = []
        self.sandbox: Callable[[], SandboxView | None] = lambda: None
        self.at_work: Callable[[], bool] = lambda: False
        self.sessions: Callable[[], list[SessionEntry]] = list
        self.came: Callable[[], None] = nobody_cares
        """What is done when somebody has come."""
        self._watchers: dict[Subscription, ClientView] = {}
        self.recall = recall or RecentRequests()
        self.taking: dict[str, PendingMessage] = {}
        """Those that are just being prepared."""
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self.later: Callable[[float, Callable[[], None]], object] | None = None
        """Does something after so many seconds, where there is a loop."""
        self._told_at = 0.0
        self._to_tell = False

    @property
    def session_id(self) -> str:
        """Which session it is."""
        return self.state.session_id

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    @property
    def informs(self) -> bool:
        """Whether anybody watches who wants to know what surrounds the session."""
        return any(subscription.info for subscription in self._watchers)

    # --- what happens --------------------------------------------------------------------------------------------

    def publish(self, event: Event) -> None:
        """Something has happened."""
        if event.durable and event.seq <= self.state.seq:
            return
        self._keep(event)
        if not self._watchers:
            self.ring.end += 1
            self.ring.start = self.ring.end
            return
        frame, kind = self.ring.add(event), kind_of(event)
        for subscription in self._watchers:
            subscription.heard(frame, kind)

    def _keep(self, event: Event) -> None:
        """What is known of the session after an event."""
        apply(self.state, event)
        self.recall.keep(event)

    def catch_up(self) -> None:
        """Take in what the store holds beyond what was heard."""
        for event in redact_log(self.store.read(self.session_id, self.state.seq), self.secrets):
            if isinstance(event, Event):
                self.publish(event)

    # --- watchers ------------------------------------------------------------------------------------------------

    def enter(
        self,
        wire: Wire,
        client: ClientView,
        after_seq: int | None = None,
        *,
        deltas: bool = True,
        info: bool = True,
    ) -> Subscription:
        """Watch; what the watcher misses is sent by `send_pending` of its subscription. The others learn who is there."""
        subscription = Subscription(self, wire, after_seq, deltas=deltas, info=info)
        self._watchers[subscription] = client
        self.tell()
        self.came()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Watch no more."""
        if self._watchers.pop(subscription, None) is not None:
            if self._watchers:
                self.tell()
            else:
                self.ring.clear()
                self._snapshot = (-1, b"")

    def change(self, subscription: Subscription, client: ClientView) -> None:
        """What a watcher is has changed."""
        if subscription in self._watchers and self._watchers[subscription] != client:
            self._watchers[subscription] = client
            self.tell()

    @property
    def clients(self) -> list[ClientView]:
        """Who watches; one client once, however often."""
        return list({client.id: client for client in self._watchers.values()}.values())

    def tell(self) -> None:
        """Tell everybody what no event says: tools, models, sessions, who is there. When much changes at once, as when
        many come together, it is said once for all of it."""
        self._snapshot = (-1, b"")
        if not self.informs:
            return
        wait_s = self._told_at + TELL_S - time.monotonic()
        if wait_s <= 0 or self.later is None:
            self._tell()
        elif not self._to_tell:
            self._to_tell = True
            self.later(wait_s, self._tell)

    def _tell(self) -> None:
        self._to_tell = False
        self._told_at = time.monotonic()
        if self.informs:  # they may have gone meanwhile, and the store with the server
            self.publish(self._info(None))

    def _head(self) -> dict[str, Any]:
        """What an event has that is told here and is in no log."""
        mine = self.state
        return {"session_id": mine.session_id, "agent_id": mine.root_agent_id, "seq": mine.seq}

    def say(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """A notice to everybody who watches."""
        self.publish(SystemMessage(**self._head(), text=text, level=level))

    def refuse(self, error: JaatoError) -> None:
        """Tell everybody that a new configuration cannot be used."""
        self.say(f"The configuration cannot be read anew here: {error}", "warning")

    def progress(self, step: str, done: int, total: int | None) -> None:
        """Tell everybody how far something has come that the session needs before it can work."""
        self.publish(InitProgress(**self._head(), step=step, done=done, total=total, unit="bytes"))

    def broke_off(self, error: JaatoError) -> None:
        """Tell everybody that a turn has broken off, and why."""
        self.publish(AgentStatusChanged(**self._head(), status="error", reason=str(error)))
        self.say(f"The turn has broken off, and can be gone on with: {error}", "error")
        self.tell()

    # --- what subscriptions send -----------------------------------------------------------------------------------------

    def stored(self, after_seq: int) -> Iterator[tuple[bytes, int]]:
        """Frames of the durable events after this one, with their numbers, up to what was heard last."""
        for event in redact_log(self.store.read(self.session_id, after_seq), self.secrets):
            if isinstance(event, Event):
                if event.seq > self.state.seq:
                    return
                yield framed(encode(event)), event.seq

    def snapshot_frame(self) -> bytes:
        """The whole state as it is now; made once for all who need it at this moment."""
        made, frame = self._snapshot
        if made != self.ring.end:
            frame = framed(encode(self._info(self.state)))
            self._snapshot = (self.ring.end, frame)
        return frame

    def live_frame(self) -> bytes:
        """What no log holds, as it is now."""
        return framed(encode(msgspec.structs.replace(self._info(None), live=live_of(self.state))))

    def _info(self, state: State | None) -> SessionInfo:
        mine = self.state
        return SessionInfo(
            session_id=mine.session_id,
            agent_id=mine.root_agent_id,
            seq=mine.seq,
            session_name=mine.name,
            workspace=mine.workspace,
            model_provider=mine.provider,
            model_name=mine.model,
            tools=self.tools(),
            models=self.models or [mine.model],
            sessions=self.sessions(),
            clients=self.clients,
            at_work=self.at_work(),
            state=state,
            sandbox=self.sandbox(),
        )


def nobody_cares() -> None:
    """Nothing is to be done."""
