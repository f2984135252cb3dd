"""Waiting for a message to be in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from jaato.errors import JaatoError
from jaato.protocol.events import Event, MessageUser, MidTurnQueued
from jaato.protocol.frames import Taken


class Accepted:
    """Waits for the message with this word of its sender's to be in the log. A listener of the session's bus."""

    def __init__(self, once: str) -> None:
        self._once = once
        self._taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        if self._taken.done() or not isinstance(event, MessageUser | MidTurnQueued):
            return
        if event.message.once == self._once:
            self._taken.set_result(Taken(event.seq, queued=isinstance(event, MidTurnQueued)))

    def failed(self, error: JaatoError) -> None:
        """It will not be."""
        if not self._taken.done():
            self._taken.set_exception(error)

    def __await__(self) -> Generator[Any, None, Taken]:
        return self._taken.__await__()
