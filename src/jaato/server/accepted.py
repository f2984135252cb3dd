"""Waiting for a message to be in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from jaato.errors import JaatoError
from jaato.protocol.events import Event, MessageUser, MidTurnQueued
from jaato.protocol.frames import Taken


class Accepted:
    """Waits for the message with this word of its sender's to be in the log. A listener of the session's bus.

    Whoever waits may give up; the message is on its way all the same, and others may wait for it.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        if self._taken.done() or not isinstance(event, MessageUser | MidTurnQueued):
            return
        if event.message.once == self._word:
            self._taken.set_result(Taken(event.seq, queued=isinstance(event, MidTurnQueued)))

    def failed(self, error: JaatoError) -> bool:
        """It will not be; False when it is already."""
        if self._taken.done():
            return False
        self._taken.set_exception(error)
        self._taken.exception()  # nobody may be waiting any more
        return True

    def __await__(self) -> Generator[Any, None, Taken]:
        return asyncio.shield(self._taken).__await__()
