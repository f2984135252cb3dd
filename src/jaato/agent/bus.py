"""Event bus of a session: broadcasts (fan-out) to listeners and subscriptions; a slow one loses deltas, never durable events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio

from jaato.log import logger
from jaato.protocol.events import Event

LOG = logger("bus")
BACKLOG = 10_000
"""Length of a subscription's queue from which ephemeral events are dropped."""

Listener = Callable[[Event], object]


class Subscription:
    """A queue of events for one subscriber; iterate it, and close it (or leave its `with`) to unsubscribe."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._events: deque[Event] = deque()
        self._waiting: anyio.Event | None = None
        self._closed = False
        self.lost = 0

    def __call__(self, event: Event) -> None:
        """Queue an event; an ephemeral one is dropped when the subscriber is too far behind."""
        if len(self._events) >= BACKLOG and not event.durable:
            self.lost += 1
            return
        self._events.append(event)
        if self._waiting is not None:
            self._waiting.set()

    def close(self) -> None:
        """Unsubscribe; queued events can still be read."""
        self._closed = True
        self._bus.forget(self)
        if self._waiting is not None:
            self._waiting.set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._waiting = anyio.Event()
            await self._waiting.wait()
            self._waiting = None


class Bus:
    """Delivers every event to every listener, in order, on the event loop."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def watched(self) -> bool:
        """Whether there are listeners; without any, ephemeral events need not be created."""
        return bool(self._listeners)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; returns a function that ends it."""
        self._listeners = (*self._listeners, listener)
        return lambda: self.forget(listener)

    def subscribe(self) -> Subscription:
        """A queue of every event from now on."""
        subscription = Subscription(self)
        self._listeners = (*self._listeners, subscription)
        return subscription

    def forget(self, listener: Listener) -> None:
        """Stop calling a listener."""
        if listener in self._listeners:
            left = list(self._listeners)
            left.remove(listener)
            self._listeners = tuple(
                left
            )  # a new one: an event that is being delivered still reaches the others

    def publish(self, event: Event) -> None:
        """Broadcast an event. A listener that raises is logged; the others still get the event."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                LOG.exception("A listener failed on %s", type(event).__name__)
