"""Waiting for a message to be in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from jaato.errors import JaatoError
from jaato.protocol.events import Event, MessageUser, MidTurnQueued
from jaato.protocol.frames import Taken


class Accepted:
    """Waits for a message to be in the log. A listener of the session's bus."""

    def __init__(self) -> None:
        self._taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        if self._taken.done() or not isinstance(event, MessageUser | MidTurnQueued):
            return
        if event.message.source == "user":
            self._taken.set_result(Taken(event.seq, queued=isinstance(event, MidTurnQueued)))

    def failed(self, error: JaatoError) -> bool:
        """It will not be; whether that is news to whoever waits."""
        if self._taken.done():
            return False
        self._taken.set_exception(error)
        return True

    def __await__(self) -> Generator[Any, None, Taken]:
        return self._taken.__await__()
