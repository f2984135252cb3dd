"""Pages: the list and the definitions, sent as they are kept, or not at all where the caller has them."""

from __future__ import annotations

from anyio import to_thread

from jaato.protocol.arp import InvalidShape, ToolError
from jaato.server.registry.answers import JSON, Answer, error_of, refusal, refusing
from jaato.server.registry.finding import Finder
from jaato.server.registry.listing import TOTAL, by_rank, in_order
from jaato.server.registry.query import version_of, wanted
from jaato.server.registry.request import Request, Route, accepts_gzip, names_tag
from jaato.server.registry.shelf import Kept, Page, Shelf

SHARED = (b"vary", b"accept-encoding")
FRESH = (b"cache-control", b"no-cache")
"""A page may be kept, and is asked about before it is used again."""


def listed(shelf: Shelf, request: Request) -> Answer | None:
    """The list of tools, or the page of it that is asked for; None where that has to be searched for first."""
    if not request.query:
        return sent(shelf.views, request, (TOTAL, shelf.total))
    try:
        asked = wanted(request.query)
        if asked.text:
            return None
        if not (asked.tags or asked.limit or asked.cursor):
            return sent(shelf.views, request, (TOTAL, shelf.total))
        page, headers = in_order(shelf, asked)
    except InvalidShape as error:
        return refusal(error.code, str(error))
    return sent(page, request, *headers)


async def searched(shelf: Shelf, everything: Shelf, finder: Finder, request: Request) -> Answer:
    """A page of what a search finds; see `by_rank`."""
    try:
        page, headers = await to_thread.run_sync(
            by_rank, shelf, everything, finder, wanted(request.query), limiter=finder.places
        )
    except InvalidShape as error:
        return refusal(error.code, str(error))
    return sent(page, request, *headers)


def defined(shelf: Shelf, route: Route, request: Request) -> Answer:
    """The definition of one tool."""
    found = looked_up(shelf, route.name, request.query)
    return sent(found.page, request) if isinstance(found, Kept) else refusing(found)


def looked_up(shelf: Shelf, name: str, query: bytes) -> Kept | ToolError:
    """The tool a request is about, in the version it asks for; else why there is none."""
    if name not in shelf.tools:
        return unknown(name)
    try:
        version = version_of(query)
    except InvalidShape as error:
        return error_of(error.code, str(error))
    return found_in(shelf, name, version)


def found_in(shelf: Shelf, name: str, version: str | None) -> Kept | ToolError:
    """This version of a tool, None for the newest; else why there is none."""
    slot = shelf.slot(name)
    if slot is None:
        return unknown(name)
    kept = slot.kept(version)
    if kept is not None:
        return kept
    words = f"There is no version {str(version)[:80]!r} of {name}; details.versions has those there are."
    return error_of("tool.not_found", words, {"versions": slot.names})


def unknown(name: str) -> ToolError:
    """There is no such tool; an empty name is one that could not be read."""
    if not name:
        return error_of(
            "tool.not_found", "The name is no UTF-8, percent-encoded; GET /v1/tools lists the tools."
        )
    return error_of("tool.not_found", f"There is no tool {name[:80]!r} here; GET /v1/tools lists them.")


def sent(page: Page, request: Request, *beside: tuple[bytes, bytes]) -> Answer:
    """A page as this request may have it: nothing where it is known, compressed where that is shorter and accepted."""
    known = request.header(b"if-none-match")
    packed = accepts_gzip(request.header(b"accept-encoding")) and page.gzipped is not None
    tag = page.gzipped_etag if packed else page.etag
    if known is not None and names_tag(request.joined(b"if-none-match"), (page.etag, page.gzipped_etag)):
        return Answer(304, b"", [(b"etag", tag), FRESH, SHARED, *beside])
    if packed and page.gzipped is not None:
        return Answer(
            200, page.gzipped, [JSON, (b"etag", tag), FRESH, SHARED, *beside, (b"content-encoding", b"gzip")]
        )
    return Answer(200, page.body, [JSON, (b"etag", tag), FRESH, SHARED, *beside])
