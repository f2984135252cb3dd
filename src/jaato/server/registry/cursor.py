"""Where a page of the list ended: what the next one begins after, whatever has come or gone since."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from jaato.protocol.arp import InvalidShape

CURSOR = re.compile(r"(0|[1-9][0-9]{0,14})\.([0-9a-f]{12})\.([0-9a-f]{12})")


class Cursor(NamedTuple):
    """The place of the last tool of a page, what its name is known by, and in which order its place counts."""

    place: int
    key: str
    since: str


def key_of(name: str) -> str:
    """What a name is known by in a cursor, which anything may stand in."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def written(cursor: Cursor) -> str:
    """A cursor as a client is given it."""
    return f"{cursor.place}.{cursor.key}.{cursor.since}"


def read(text: str) -> Cursor:
    """A cursor that a client gives back. Raises `InvalidShape`."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise InvalidShape("cursor= is none of ours; take it, whole, from the Link of the page before.")
    return Cursor(int(found[1]), found[2], found[3])


def place_in(names: list[str] | tuple[str, ...], key: str) -> int | None:
    """Where the name stands that is known by this."""
    return next((place for place, name in enumerate(names) if key_of(name) == key), None)
