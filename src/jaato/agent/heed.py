"""Cancellation that ends a tool's coroutine even when the tool swallows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType
from typing import Any

from jaato.log import logger

GRACE_S = 2.0
"""How long a cancelled coroutine may go on awaiting things outside a shield before it is closed."""
LOG = logger("tool")


class Heeding:
    """Awaits a coroutine as `await` does. One that goes on after it was cancelled is closed when its time is over; in
    a shield it has all the time it needs. Time limits of its own, which it cancels itself by and goes on, are its affair.

    A coroutine that resists even that is left where it is, and never resumed.
    """

    __slots__ = ("_name", "_runner", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], name: str, runner: asyncio.Task[Any] | None) -> None:
        self._work = work
        self._name = name
        self._runner = runner

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work
        runner = self._runner
        before = runner.cancelling() if runner is not None else 0
        until: float | None = None
        step, thing = work.send, None
        while True:
            try:
                awaited = step(thing)
            except StopIteration as done:
                return done.value
            if runner is not None and runner.cancelling() <= before:
                until = None  # a scope of its own, which has ended
            try:
                thing = yield awaited
                step = work.send
            except GeneratorExit:
                work.close()
                raise
            except (
                asyncio.CancelledError
            ) as error:  # thrown in again and again, unless a shield keeps it away
                now = time.monotonic()
                until = now + GRACE_S if until is None else until
                if now > until:
                    self._close()
                    raise
                step, thing = work.throw, error
            except BaseException as error:  # noqa: BLE001 whatever is thrown in is the coroutine's to handle
                step, thing = work.throw, error

    def _close(self) -> None:
        LOG.warning("The tool %s did not heed its cancellation and was closed", self._name)
        try:
            self._work.close()
        except RuntimeError:
            pass  # it awaits even now; nobody will wake it


def heeding(value: Any, name: str, runner: asyncio.Task[Any] | None) -> Awaitable[Any]:
    """An awaitable a tool gave, as one that a cancellation of the task ends that awaits it."""
    return Heeding(value, name, runner) if isinstance(value, CoroutineType) else value
