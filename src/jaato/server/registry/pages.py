"""Pages: the list and the definitions, sent as they are kept, or not at all where the caller has them."""

from __future__ import annotations

from jaato.server.registry.answers import JSON, Answer, refusal
from jaato.server.registry.request import Request, Route, accepts_gzip, names_tag
from jaato.server.registry.shelf import Page, Shelf

SHARED = (b"vary", b"accept-encoding")
FRESH = (b"cache-control", b"no-cache")
"""A page may be kept, and is asked about before it is used again."""


def listed(shelf: Shelf, _route: Route, request: Request) -> Answer:
    """The list of tools."""
    return sent(shelf.views, request)


def defined(shelf: Shelf, route: Route, request: Request) -> Answer:
    """The definition of one tool."""
    page = shelf.definitions.get(route.name)
    if page is not None:
        return sent(page, request)
    return refusal("tool.not_found", f"There is no tool {route.name[:80]!r} here; GET /v1/tools lists them.")


def sent(page: Page, request: Request) -> Answer:
    """A page as this request may have it: nothing where it is known, compressed where that is shorter and accepted."""
    known = request.header(b"if-none-match")
    packed = page.gzipped is not None and accepts_gzip(request.header(b"accept-encoding"))
    tag = page.gzipped_etag if packed else page.etag
    if known is not None and names_tag(known, (page.etag, page.gzipped_etag)):
        return Answer(304, b"", [(b"etag", tag), FRESH, SHARED])
    if packed and page.gzipped is not None:
        return Answer(
            200, page.gzipped, [JSON, (b"etag", tag), FRESH, SHARED, (b"content-encoding", b"gzip")]
        )
    return Answer(200, page.body, [JSON, (b"etag", tag), FRESH, SHARED])
