"""Pages: the list and the definitions, sent as they are kept, or not at all where the caller has them."""

from __future__ import annotations

from jaato.protocol.arp import InvalidShape, ToolError
from jaato.server.registry.answers import JSON, Answer, error_of, refusing
from jaato.server.registry.query import version_of
from jaato.server.registry.request import Request, Route, accepts_gzip, names_tag
from jaato.server.registry.shelf import Kept, Page, Shelf

SHARED = (b"vary", b"accept-encoding")
FRESH = (b"cache-control", b"no-cache")
"""A page may be kept, and is asked about before it is used again."""


def listed(shelf: Shelf, _route: Route, request: Request) -> Answer:
    """The list of tools."""
    return sent(shelf.views, request)


def defined(shelf: Shelf, route: Route, request: Request) -> Answer:
    """The definition of one tool."""
    found = looked_up(shelf, route.name, request.query)
    return sent(found.page, request) if isinstance(found, Kept) else refusing(found)


def looked_up(shelf: Shelf, name: str, query: bytes) -> Kept | ToolError:
    """The tool a request is about, in the version it asks for; else why there is none."""
    slot = shelf.slot(name)
    if slot is None:
        return error_of("tool.not_found", f"There is no tool {name[:80]!r} here; GET /v1/tools lists them.")
    try:
        version = version_of(query)
    except InvalidShape as error:
        return error_of(error.code, str(error))
    kept = slot.kept(version)
    if kept is not None:
        return kept
    words = f"There is no version {str(version)[:80]!r} of {name}; details.versions has those there are."
    return error_of("tool.not_found", words, {"versions": slot.names})


def sent(page: Page, request: Request) -> Answer:
    """A page as this request may have it: nothing where it is known, compressed where that is shorter and accepted."""
    known = request.header(b"if-none-match")
    packed = accepts_gzip(request.header(b"accept-encoding")) and page.gzipped is not None
    tag = page.gzipped_etag if packed else page.etag
    if known is not None and names_tag(known, (page.etag, page.gzipped_etag)):
        return Answer(304, b"", [(b"etag", tag), FRESH, SHARED])
    if packed and page.gzipped is not None:
        return Answer(
            200, page.gzipped, [JSON, (b"etag", tag), FRESH, SHARED, (b"content-encoding", b"gzip")]
        )
    return Answer(200, page.body, [JSON, (b"etag", tag), FRESH, SHARED])
