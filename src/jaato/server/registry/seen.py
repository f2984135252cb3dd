"""The shelf as a key sees it: a shelf of its own, without the tools that are not there for it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from jaato.server.registry.shelf import Shelf
from jaato.server.registry.sight import Sight

MOST = 64
"""Sights of one shelf that are kept; the one made first makes room."""
MADE: WeakKeyDictionary[Shelf, dict[Sight, Shelf]] = WeakKeyDictionary()


def seen(shelf: Shelf, sight: Sight | None) -> Shelf:
    """What of a shelf is seen, made once for all who see the same."""
    if sight is None:
        return shelf
    made = MADE.setdefault(shelf, {})
    mine = made.get(sight)
    if mine is None:
        while len(made) >= MOST:
            del made[next(iter(made))]
        mine = made[sight] = shelf.only(sight.has)
    return mine
