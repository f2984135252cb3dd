"""Idempotency of messages and answers: recent ones are recorded, so that a repeated one is recognized."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from jaato.errors import JaatoError
from jaato.protocol.events import ClarificationResolved, Event, MessageUser, MidTurnQueued, PermissionResolved
from jaato.protocol.frames import Taken

K = TypeVar("K")
T = TypeVar("T")
REMEMBERED = 500


class RecentRequests:
    """The recent messages and answers, folded from events and bounded."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.settled: dict[str, tuple[str, str]] = {}
        """Recently resolved questions: the answer, and who gave it."""
        self.taken: dict[str, Taken] = {}
        """Recent messages by idempotency key: their position in the log."""
        for event in events:
            self.keep(event)

    def keep(self, event: Event) -> None:
        """Apply one event."""
        match event:
            case PermissionResolved():
                remember(self.settled, event.question_id, (event.answer, event.by))
            case ClarificationResolved():
                remember(self.settled, event.question_id, ("answered", event.by))
            case MessageUser() | MidTurnQueued() if event.message.source == "user":
                word = event.message.once
                if word and word not in self.taken:
                    remember(self.taken, word, Taken(event.seq, queued=isinstance(event, MidTurnQueued)))


def remember(kept: dict[K, T], key: K, value: T, most: int = REMEMBERED) -> None:
    """Store an entry, and drop the oldest beyond the limit."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


class PendingMessage:
    """Waits until the message with this idempotency key is in the log. A listener of the session's bus.

    A cancelled wait does not stop the message, which others may wait for.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._taken: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()

    def __call__(self, event: Event) -> None:
        """Handle one event."""
        if self._taken.done() or not isinstance(event, MessageUser | MidTurnQueued):
            return
        if event.message.once == self._word:
            self._taken.set_result(Taken(event.seq, queued=isinstance(event, MidTurnQueued)))

    def fail(self, error: JaatoError) -> bool:
        """The message has failed; False when it is already in the log."""
        if self._taken.done():
            return False
        self._taken.set_exception(error)
        self._taken.exception()  # mark it as retrieved: there may be no waiter
        return True

    def __await__(self) -> Generator[Any, None, Taken]:
        return asyncio.shield(self._taken).__await__()
