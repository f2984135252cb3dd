"""Events to whoever watches, in this process; a slow watcher loses deltas, never a durable event, and slows nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio

from jaato.log import logger
from jaato.protocol.events import Event

LOG = logger("bus")
BACKLOG = 10_000
"""Ephemeral events a watcher may be behind before it loses them."""

Listener = Callable[[Event], object]


class Subscription:
    """One watcher's own queue; iterate it, and close it (or leave its `with`) to stop."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._events: deque[Event] = deque()
        self._waiting: anyio.Event | None = None
        self._closed = False
        self.lost = 0

    def __call__(self, event: Event) -> None:
        """Take an event in; an ephemeral one is dropped when the watcher is too far behind."""
        if len(self._events) >= BACKLOG and not event.durable:
            self.lost += 1
            return
        self._events.append(event)
        if self._waiting is not None:
            self._waiting.set()

    def close(self) -> None:
        """Stop watching; what is queued can still be read."""
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
    """Hands every event to every listener, in order, on the loop."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def watched(self) -> bool:
        """Whether anybody would see an event; what nobody sees need not be made."""
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
        """Deliver an event; a listener that raises is reported and keeps nobody else from hearing."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                LOG.exception("A listener failed on %s", type(event).__name__)
