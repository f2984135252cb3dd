"""The channel of one session: its state, its recent events and its subscribers, wherever the session runs."""

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
from jaato.server.sessions.client_files import SessionFiles
from jaato.server.sessions.idempotency import PendingMessage, RecentRequests
from jaato.server.sessions.subscription import EventBuffer, Subscription, Wire, encode_frame, kind_of
from jaato.tools.redaction.redactor import Redactor

INFO_INTERVAL_S = 0.1
"""The shortest interval between two updates of session information: an update costs as much as there are clients and tools."""


class Room:
    """The state of a session, its recent events and its subscriptions. Everything happens on the loop.

    `publish` takes events, from the session's bus or from the store, and sends them to up-to-date subscribers at once.
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
        self.on_subscribe: Callable[[], None] = do_nothing
        """Called when a client subscribes."""
        self._subscriptions: dict[Subscription, ClientView] = {}
        self.client_files = SessionFiles()
        self.recall = recall or RecentRequests()
        self.preparing: dict[str, PendingMessage] = {}
        """By key, messages that are being prepared."""
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self.call_later: Callable[[float, Callable[[], None]], object] | None = None
        """Schedules a call on the loop, where there is one."""
        self._info_sent_at = 0.0
        self._info_scheduled = False

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.state.session_id

    @property
    def is_watched(self) -> bool:
        """Whether it has subscribers."""
        return bool(self._subscriptions)

    @property
    def wants_info(self) -> bool:
        """Whether a subscriber wants tools, commands, notes and models."""
        return any(subscription.info for subscription in self._subscriptions)

    # --- what happens --------------------------------------------------------------------------------------------

    def publish(self, event: Event) -> None:
        """Apply an event and send it to the subscribers."""
        if event.durable and event.seq <= self.state.seq:
            return
        self._apply(event)
        if not self._subscriptions:
            self.ring.end += 1
            self.ring.start = self.ring.end
            return
        frame, kind = self.ring.add(event), kind_of(event)
        for subscription in self._subscriptions:
            subscription.send_now(frame, kind)

    def _apply(self, event: Event) -> None:
        """Update the state and the recent requests."""
        apply(self.state, event)
        self.recall.keep(event)

    def catch_up(self) -> None:
        """Publish the events in the store that are newer than the state."""
        for event in redact_log(self.store.read(self.session_id, self.state.seq), self.secrets):
            if isinstance(event, Event):
                self.publish(event)

    # --- watchers ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        wire: Wire,
        client: ClientView,
        after_seq: int | None = None,
        *,
        deltas: bool = True,
        info: bool = True,
    ) -> Subscription:
        """Add a subscriber; `send_pending` of its subscription sends what it has missed. The other clients are informed."""
        subscription = Subscription(self, wire, after_seq, deltas=deltas, info=info)
        self._subscriptions[subscription] = client
        self.publish_info()
        self.on_subscribe()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscriber."""
        if self._subscriptions.pop(subscription, None) is not None:
            if self._subscriptions:
                self.publish_info()
            else:
                self.ring.clear()
                self._snapshot = (-1, b"")

    def update_client(self, subscription: Subscription, client: ClientView) -> None:
        """Update the description of a subscriber."""
        if subscription in self._subscriptions and self._subscriptions[subscription] != client:
            self._subscriptions[subscription] = client
            self.publish_info()

    @property
    def clients(self) -> list[ClientView]:
        """The clients that subscribe, each once."""
        return list({client.id: client for client in self._subscriptions.values()}.values())

    def publish_info(self) -> None:
        """Publish tools, models, sessions and clients, at most once per `INFO_INTERVAL_S`."""
        self._snapshot = (-1, b"")
        if not self.wants_info:
            return
        wait_s = self._info_sent_at + INFO_INTERVAL_S - time.monotonic()
        if wait_s <= 0 or self.call_later is None:
            self._publish_info()
        elif not self._info_scheduled:
            self._info_scheduled = True
            self.call_later(wait_s, self._publish_info)

    def _publish_info(self) -> None:
        self._info_scheduled = False
        self._info_sent_at = time.monotonic()
        if self.wants_info:  # they may have gone meanwhile, and the store with the server
            self.publish(self._info(None))

    def head(self) -> dict[str, Any]:
        """The common fields of an event that is not stored."""
        mine = self.state
        return {"session_id": mine.session_id, "agent_id": mine.root_agent_id, "seq": mine.seq}

    def publish_notice(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Publish a notice."""
        self.publish(SystemMessage(**self.head(), text=text, level=level))

    def publish_deletion(self) -> None:
        """Publish that the session was deleted."""
        text = "This session was removed; there is nothing more to come."
        self.publish(SystemMessage(**self.head(), text=text, level="warning", is_deleted=True))

    def publish_config_error(self, error: JaatoError) -> None:
        """Publish that a new configuration is invalid."""
        self.publish_notice(f"The configuration cannot be read anew here: {error}", "warning")

    def publish_progress(self, step: str, done: int, total: int | None) -> None:
        """Publish the progress of a step that the session needs before it can run."""
        self.publish(InitProgress(**self.head(), step=step, done=done, total=total, unit="bytes"))

    def publish_turn_failure(self, error: JaatoError) -> None:
        """Publish that a turn has failed, and why."""
        self.publish(AgentStatusChanged(**self.head(), status="error", reason=str(error)))
        self.publish_notice(f"The turn has broken off, and can be gone on with: {error}", "error")
        self.publish_info()

    # --- what subscriptions send -----------------------------------------------------------------------------------------

    def stored_frames(self, after_seq: int) -> Iterator[tuple[bytes, int]]:
        """Frames of the durable events after this one, with their numbers, up to the newest that was published."""
        for event in redact_log(self.store.read(self.session_id, after_seq), self.secrets):
            if isinstance(event, Event):
                if event.seq > self.state.seq:
                    return
                yield encode_frame(encode(event)), event.seq

    def snapshot_frame(self) -> bytes:
        """The frame of the current state; encoded once for all subscribers."""
        made, frame = self._snapshot
        if made != self.ring.end:
            frame = encode_frame(encode(self._info(self.state)))
            self._snapshot = (self.ring.end, frame)
        return frame

    def live_frame(self) -> bytes:
        """The frame of the current state that is in no log."""
        return encode_frame(encode(msgspec.structs.replace(self._info(None), live=live_of(self.state))))

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


def do_nothing() -> None:
    """Do nothing."""
