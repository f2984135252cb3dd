"""Where a page of the list ended: what the next one begins after, whatever has come or gone since."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jaato.protocol.arp import InvalidShape
from jaato.protocol.codec import encode

MAX_CHARS = 2_000


class Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last tool of a page and its place; `asked` tells for which question, `since` in which order its places count."""

    asked: str
    place: Annotated[int, Meta(ge=0, lt=2**53)]
    name: str
    since: str


CURSOR: msgspec.json.Decoder[Cursor] = msgspec.json.Decoder(Cursor)


def written(cursor: Cursor) -> str:
    """A cursor as a client is given it."""
    return urlsafe_b64encode(encode(cursor)).decode().rstrip("=")


def read(text: str, asked: str) -> Cursor:
    """A cursor that a client gives back with the same question. Raises `InvalidShape`."""
    try:
        if len(text) > MAX_CHARS:
            raise ValueError("too long")
        cursor = CURSOR.decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
        if written(cursor) != text:
            raise ValueError("not as it was written")
    except ValueError:
        raise InvalidShape(
            "cursor= is none of ours; take it, whole, from the Link of the page before, or begin without."
        ) from None
    if cursor.asked != asked:
        raise InvalidShape("cursor= is of a list with another q= or other tags; begin this one without.")
    return cursor
