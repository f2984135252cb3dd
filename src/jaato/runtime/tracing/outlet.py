"""A way out for spans: a bounded queue that a session never waits for, and the thread that empties it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from jaato.log import logger
from jaato.runtime.tracing import Tally
from jaato.runtime.tracing.spans import Span

LOG = logger("tracing")
CAPACITY = 4_096
BATCH = 512
CLOSING_S = 2.0
"""How long the end of a program may wait for spans that are still to go."""


class SinkFault(Exception):
    """Spans could not be handed on."""


class Sink(Protocol):
    """Where spans go. Called in one thread alone."""

    name: str
    linger_s: float
    """How long a batch may wait for more."""

    def send(self, spans: Sequence[Span], closing: threading.Event) -> int:
        """Hand spans on; gives how many of them were not taken. Raises `SinkFault` where none were. Tries again for a
        bounded time, and not at all once `closing` is set."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class Outlet:
    """Hands spans to a sink in a thread of its own. What comes while the queue is full is dropped and counted; a fault is
    said once, until it is over."""

    def __init__(self, sink: Sink, tally: Tally | None = None, capacity: int = CAPACITY) -> None:
        self.sink = sink
        self.tally = tally or Tally()
        self.exported = self.dropped = 0
        self._capacity = capacity
        self._waiting: deque[Span] = deque()
        self._sending = 0
        self._lock = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._faulty = False
        self._news: deque[str] = deque(maxlen=4)

    def put(self, spans: Sequence[Span]) -> None:
        """Take spans to be handed on; returns at once, whatever becomes of them."""
        with self._lock:
            room = 0 if self._closing.is_set() else max(0, self._capacity - len(self._waiting))
            sleeping = not self._waiting
            self._waiting.extend(spans[:room])
            lost = len(spans) - min(room, len(spans))
            if lost:
                self._lose(lost)
            if self._thread is None and self._waiting:
                self._begin()
            if (
                sleeping or len(self._waiting) >= BATCH
            ):  # else it waits for more, and is not to be woken for each
                self._lock.notify()

    def news(self) -> str | None:
        """The next thing to tell whoever watches; None when there is none."""
        return self._news.popleft() if self._news else None

    def say(self, words: str) -> None:
        """Have something told, and logged."""
        LOG.warning("%s", words)
        self._news.append(words)

    def failed(self, fault: str) -> None:
        """Say that spans do not get through, and why; once, until they do again."""
        if not self._faulty:
            self._faulty = True
            self.say(f"Spans do not get to {self.sink.name}: {fault}")

    def close(self, within_s: float = CLOSING_S) -> None:
        """Hand on what waits, for so long at most; what is left is dropped and counted. May be called again."""
        with self._lock:
            self._closing.set()
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(within_s)
        with self._lock:
            if self._waiting or self._sending:
                self._lose(len(self._waiting) + self._sending)
                self._waiting.clear()
                self._sending = 0
        if self.dropped:
            LOG.warning("%d spans did not get to %s", self.dropped, self.sink.name)

    def _begin(self) -> None:
        """Start the thread; where there can be none, what waits stays until there can."""
        thread = threading.Thread(target=self._run, name="jaato-trace", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self.failed(f"{error}.")
        else:
            self._thread = thread

    def _lose(self, count: int) -> None:
        self.dropped += count
        self.tally.dropped += count

    def _run(self) -> None:
        try:
            while batch := self._next():
                self._send(batch)
        finally:
            self.sink.close()

    def _next(self) -> list[Span]:
        """The next batch, waited for; empty at the end."""
        with self._lock:
            while not self._waiting and not self._closing.is_set():
                self._lock.wait()
            until = time.monotonic() + self.sink.linger_s
            while len(self._waiting) < BATCH and not self._closing.is_set():
                left = until - time.monotonic()
                if left <= 0 or not self._lock.wait(left):
                    break
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._sending = len(batch)
            return batch

    def _send(self, batch: list[Span]) -> None:
        lost, fault = 0, ""
        try:
            lost = self.sink.send(batch, self._closing)
        except SinkFault as error:
            lost, fault = len(batch), str(error)
        except (ValueError, TypeError, RuntimeError, OSError, msgspec.MsgspecError) as error:
            lost, fault = len(batch), f"{type(error).__name__}: {error}"
        with self._lock:
            if not self._sending:
                return  # close() has given them up
            self._sending = 0
            self._lose(lost)
            self.exported += len(batch) - lost
            self.tally.exported += len(batch) - lost
        if fault:
            self.failed(fault)
        elif self._faulty:
            self._faulty = False
            LOG.info("Spans get to %s again", self.sink.name)
