"""What a server knows of the newest answers and messages of a session, so that one that comes again is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from jaato.protocol.events import ClarificationResolved, Event, MessageUser, MidTurnQueued, PermissionResolved
from jaato.protocol.frames import Taken

K = TypeVar("K")
T = TypeVar("T")
REMEMBERED = 500


class Recall:
    """Folded from events, and bounded."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.settled: dict[str, tuple[str, str]] = {}
        """Questions that were answered of late: how, and by whom."""
        self.taken: dict[str, Taken] = {}
        """Messages that were taken of late, by the client's own word for them: where they are in the log."""
        for event in events:
            self.keep(event)

    def keep(self, event: Event) -> None:
        """Take in one event."""
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
    """Keep something, and no more than so many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
