"""Pages of the list: what has these tags, what a search finds, so many at once, and where the next page begins."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from jaato.protocol.arp import ToolView
from jaato.protocol.codec import encode
from jaato.server.registry.cursor import Cursor, key_of, place_in, read, written
from jaato.server.registry.finding import Finder
from jaato.server.registry.query import Wanted
from jaato.server.registry.request import Headers
from jaato.server.registry.shelf import Page, Shelf

FOUND = 20
"""How many tools a search gives that is not told how many."""
TOTAL = b"x-total-count"
"""The header that says how many tools there are on all pages together."""
PROCESS = os.urandom(6).hex()
"""In whose order places in the list count: after a restart they may be others."""


class Listed(NamedTuple):
    """A page of the list, and what is said beside it."""

    page: Page
    headers: Headers


def in_order(shelf: Shelf, wanted: Wanted) -> Listed:
    """A page of the tools in the order of the list. Raises `InvalidShape` for a cursor that is none."""
    names = tagged(shelf, list(shelf.tools), wanted.tags) if wanted.tags else list(shelf.tools)
    start = 0
    if wanted.cursor:
        cursor = read(wanted.cursor)
        after = cursor.place
        if cursor.since != PROCESS and (found := place_in(list(shelf.tools), cursor.key)) is not None:
            after = shelf.place(list(shelf.tools)[found])
        start = bisect_right(names, after, key=shelf.place)
    chosen = names[start : start + wanted.limit] if wanted.limit else names[start:]
    last = None
    if start + len(chosen) < len(names):
        last = Cursor(shelf.place(chosen[-1]), key_of(chosen[-1]), PROCESS)
    return listed(shelf, wanted, chosen, len(names), last)


def by_rank(shelf: Shelf, everything: Shelf, finder: Finder, wanted: Wanted) -> Listed:
    """A page of what a search finds, the best first; all its pages are of the same search while that is kept. What is
    searched is `everything`, of which only what is on the shelf is told: so there is one index for all who ask.

    Takes milliseconds, the first time longer. Raises `InvalidShape`.
    """
    cursor = read(wanted.cursor) if wanted.cursor else None
    wanted = wanted._replace(limit=wanted.limit or FOUND)
    kept = finder.kept(wanted.text, cursor.since) if cursor is not None else None
    names = finder.ranked(everything.tools, wanted.text) if kept is None else kept
    start = 0
    if cursor is not None:
        moved = place_in(names, cursor.key) if kept is None else None
        start = 1 + (cursor.place if moved is None else moved)
    having = tagged(shelf, names, wanted.tags)
    rest = tagged(shelf, names[start:], wanted.tags)
    chosen = rest[: wanted.limit]
    last = None
    if len(chosen) < len(rest):
        place, name = names.index(chosen[-1]), chosen[-1]
        last = Cursor(place, key_of(name), finder.keep(wanted.text, names))
    return listed(shelf, wanted, chosen, len(having), last)


def tagged(shelf: Shelf, names: Sequence[str], tags: tuple[str, ...]) -> Sequence[str]:
    """Those that are on the shelf, and have all of these tags."""
    tools = shelf.tools
    if not tags:
        return [name for name in names if name in tools]
    wanted = set(tags)
    return [name for name in names if name in tools and wanted.issubset(tools[name].tags)]


def listed(shelf: Shelf, wanted: Wanted, names: Sequence[str], count: int, last: Cursor | None) -> Listed:
    """A page with these tools; `last` where others follow it."""
    headers = [(TOTAL, str(count).encode())]
    if last is not None:
        headers.append((b"link", f'<{wanted.page(written(last))}>; rel="next"'.encode()))
    views = [ToolView(name, shelf.tools[name].spec.description) for name in names]
    return Listed(Page(encode(views), b"\n".join(value for _, value in headers)), headers)
