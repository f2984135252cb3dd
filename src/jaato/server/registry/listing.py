"""Lists of tools: pages, cursors, search, conditional responses, one tool, and batchGet."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from anyio import CapacityLimiter, to_thread
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.json import Decoder

from jaato.protocol.arp import (
    SCHEMA_VERSION,
    InvalidJson,
    InvalidShape,
    ToolError,
    ToolView,
    strict,
)
from jaato.protocol.codec import encode
from jaato.server.http.asgi import accepts_gzip
from jaato.server.registry.catalog import Page, ServedTool, ServedTools
from jaato.server.registry.requests import (
    Headers,
    ListQuery,
    Request,
    Route,
    matches_etag,
    parse_list_query,
    parse_version,
)
from jaato.server.registry.responses import JSON, Response, error_for, error_of, error_response, refusal
from jaato.server.tool_sessions import RemoteSources
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

CURSOR = re.compile(r"(0|[1-9][0-9]{0,14})\.([0-9a-f]{12})\.([0-9a-f]{12})")


class Cursor(NamedTuple):
    """The position of the last tool of a page, the hash of its name, and the order that the position belongs to."""

    place: int
    key: str
    since: str


def key_of(name: str) -> str:
    """The hash of a name, as a cursor has it."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def encode_cursor(cursor: Cursor) -> str:
    """A cursor as text."""
    return f"{cursor.place}.{cursor.key}.{cursor.since}"


def parse_cursor(text: str) -> Cursor:
    """A cursor from a request. Raises `InvalidShape`."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise InvalidShape("cursor= is none of ours; take it, whole, from the Link of the page before.")
    return Cursor(int(found[1]), found[2], found[3])


def find_position(names: list[str] | tuple[str, ...], key: str) -> int | None:
    """The position of the name with this hash."""
    return next((place for place, name in enumerate(names) if key_of(name) == key), None)


MAX_KEPT = 64
AT_ONCE = 2
"""The number of concurrent searches, so that other requests are not delayed."""


class ToolSearch:
    """Ranks tools for a text, and caches rankings for further pages. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = Catalog(catalog.meaning)
        self.places = CapacityLimiter(AT_ONCE)
        self._lock = threading.Lock()
        self._known: Mapping[str, Tool] = {}
        self._stripped: dict[str, Tool] = {}
        self._kept: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()

    def rank(self, tools: Mapping[str, Tool], text: str) -> tuple[str, ...]:
        """The names of the matching tools, best first."""
        with self._lock:
            if tools is not self._known:
                self._update_index(tools)
                self._known = tools
        return tuple(spec.name for spec, _ in self._catalog.search(text, len(tools)) if spec.name in tools)

    def _update_index(self, tools: Mapping[str, Tool]) -> None:
        """Update the index to these tools, without their aliases."""
        gone = {
            name: one
            for name, one in self._stripped.items()
            if name not in tools or tools[name].spec is not one.spec
        }
        come = {
            name: Tool(tool.spec, tool.run)
            for name, tool in tools.items()
            if name in gone or name not in self._stripped
        }
        self._catalog.exchange(gone.values(), come.values())
        self._stripped = {
            **{name: one for name, one in self._stripped.items() if name not in gone},
            **come,
        }

    def store_ranking(self, text: str, names: tuple[str, ...]) -> str:
        """Cache the ranking for a text, for further pages; the key by which it is found again."""
        key = hashlib.sha256("\0".join((text, *names)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        with self._lock:
            self._kept[key] = text, names
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return key

    def stored_ranking(self, text: str, key: str) -> tuple[str, ...] | None:
        """The cached ranking for a text, if it has not been evicted."""
        with self._lock:
            of, names = self._kept.get(key, ("", ()))
        return names if of == text else None


DEFAULT_SEARCH_LIMIT = 20
"""The number of tools that a search returns by default."""
TOTAL = b"x-total-count"
"""The header with the number of tools on all pages."""
PROCESS = os.urandom(6).hex()
"""The id of this process, whose order of the list a cursor belongs to; after a restart it may differ."""


class ListPage(NamedTuple):
    """A page of the list, and its headers."""

    page: Page
    headers: Headers


def list_page(served: ServedTools, wanted: ListQuery) -> ListPage:
    """A page of the list in its order. Raises `InvalidShape` for an invalid cursor."""
    names = filter_tools(served, list(served.tools), wanted.tags) if wanted.tags else list(served.tools)
    start = 0
    if wanted.cursor:
        cursor = parse_cursor(wanted.cursor)
        after = cursor.place
        if cursor.since != PROCESS and (found := find_position(list(served.tools), cursor.key)) is not None:
            after = served.place(list(served.tools)[found])
        start = bisect_right(names, after, key=served.place)
    chosen = names[start : start + wanted.limit] if wanted.limit else names[start:]
    last = None
    if start + len(chosen) < len(names):
        last = Cursor(served.place(chosen[-1]), key_of(chosen[-1]), PROCESS)
    return make_page(served, wanted, chosen, len(names), last)


def search_page(
    served: ServedTools, everything: ServedTools, finder: ToolSearch, wanted: ListQuery
) -> ListPage:
    """A page of what a search finds, the best first; all its pages are of the same search while that is kept. What is
    search_tools is `everything`, of which only `served` is returned: one index serves all callers.

    Takes milliseconds, the first time longer. Raises `InvalidShape`.
    """
    cursor = parse_cursor(wanted.cursor) if wanted.cursor else None
    wanted = wanted._replace(limit=wanted.limit or DEFAULT_SEARCH_LIMIT)
    kept = finder.stored_ranking(wanted.text, cursor.since) if cursor is not None else None
    names = finder.rank(everything.tools, wanted.text) if kept is None else kept
    start = 0
    if cursor is not None:
        moved = find_position(names, cursor.key) if kept is None else None
        start = 1 + (cursor.place if moved is None else moved)
    having = filter_tools(served, names, wanted.tags)
    rest = filter_tools(served, names[start:], wanted.tags)
    chosen = rest[: wanted.limit]
    last = None
    if len(chosen) < len(rest):
        place, name = names.index(chosen[-1]), chosen[-1]
        last = Cursor(place, key_of(name), finder.store_ranking(wanted.text, names))
    return make_page(served, wanted, chosen, len(having), last)


def filter_tools(served: ServedTools, names: Sequence[str], tags: tuple[str, ...]) -> Sequence[str]:
    """The names of served tools that have all of these tags."""
    tools = served.tools
    if not tags:
        return [name for name in names if name in tools]
    wanted = set(tags)
    return [name for name in names if name in tools and wanted.issubset(tools[name].tags)]


def make_page(
    served: ServedTools, wanted: ListQuery, names: Sequence[str], count: int, last: Cursor | None
) -> ListPage:
    """A page with these tools; `last` is the cursor to the next page."""
    headers = [(TOTAL, str(count).encode())]
    if last is not None:
        headers.append((b"link", f'<{wanted.page(encode_cursor(last))}>; rel="next"'.encode()))
    views = [ToolView(name, served.tools[name].spec.description) for name in names]
    return ListPage(Page(encode(views), b"\n".join(value for _, value in headers)), headers)


SHARED = (b"vary", b"accept-encoding")
FRESH = (b"cache-control", b"no-cache")
"""A page may be cached, and must be revalidated."""


def list_tools(served: ServedTools, request: Request) -> Response | None:
    """The list of tools, or the page of it that is asked for; None where that has to be search_tools for first."""
    if not request.query:
        return page_response(served.views, request, (TOTAL, served.total))
    try:
        asked = parse_list_query(request.query)
        if asked.text:
            return None
        if not (asked.tags or asked.limit or asked.cursor):
            return page_response(served.views, request, (TOTAL, served.total))
        page, headers = list_page(served, asked)
    except InvalidShape as error:
        return refusal(error.code, str(error))
    return page_response(page, request, *headers)


async def search_tools(
    served: ServedTools, everything: ServedTools, finder: ToolSearch, request: Request
) -> Response:
    """A page of search results; see `search_page`."""
    try:
        page, headers = await to_thread.run_sync(
            search_page, served, everything, finder, parse_list_query(request.query), limiter=finder.places
        )
    except InvalidShape as error:
        return refusal(error.code, str(error))
    return page_response(page, request, *headers)


def get_definition(served: ServedTools, route: Route, request: Request) -> Response:
    """The definition of one tool."""
    found = find_requested(served, route.name, request.query)
    return page_response(found.page, request) if isinstance(found, ServedTool) else error_response(found)


def find_requested(served: ServedTools, name: str, query: bytes) -> ServedTool | ToolError:
    """The requested tool and version, else the error."""
    if name not in served.tools:
        return not_found(name)
    try:
        version = parse_version(query)
    except InvalidShape as error:
        return error_of(error.code, str(error))
    return find_version(served, name, version)


def find_version(served: ServedTools, name: str, version: str | None) -> ServedTool | ToolError:
    """This version of a tool, None for the newest, else the error."""
    slot = served.slot(name)
    if slot is None:
        return not_found(name)
    kept = slot.get(version)
    if kept is not None:
        return kept
    words = f"There is no version {str(version)[:80]!r} of {name}; details.versions has those there are."
    return error_of("tool.not_found", words, {"versions": slot.names}, tool=name)


def not_found(name: str) -> ToolError:
    """The error for an unknown tool; an empty name could not be decoded."""
    if not name:
        return error_of(
            "tool.not_found",
            "The name is no UTF-8, percent-encoded; GET /v1/tools lists the tools.",
            tool=name,
        )
    words = f"There is no tool {name[:80]!r} here; GET /v1/tools lists them."
    return error_of("tool.not_found", words, tool=name)


def page_response(page: Page, request: Request, *beside: tuple[bytes, bytes]) -> Response:
    """The response with a page: 304 if its `ETag` matches, compressed if the client accepts that."""
    known = request.header(b"if-none-match")
    packed = accepts_gzip(request.header(b"accept-encoding")) and page.gzipped is not None
    tag = page.gzipped_etag if packed else page.etag
    if known is not None and matches_etag(
        request.joined_header(b"if-none-match"), (page.etag, page.gzipped_etag)
    ):
        return Response(304, b"", [(b"etag", tag), FRESH, SHARED, *beside])
    if packed and page.gzipped is not None:
        return Response(
            200, page.gzipped, [JSON, (b"etag", tag), FRESH, SHARED, *beside, (b"content-encoding", b"gzip")]
        )
    return Response(200, page.body, [JSON, (b"etag", tag), FRESH, SHARED, *beside])


MAX_NAMES = 100
MAX_BYTES = 8_000_000
"""The maximum size of a response: a small request may name the same tool a hundred times."""


class NamedTool(Struct, frozen=True, gc=False):
    """A tool and its version; by default the newest."""

    name: str
    version: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET


class BatchGet(Struct, frozen=True, gc=False):
    """The body of `batchGet`: names of tools, or names with versions."""

    names: Annotated[list[str | NamedTool], Meta(max_length=MAX_NAMES)]


BATCH: Decoder[BatchGet] = Decoder(BatchGet)


async def get_definitions(
    served: ServedTools, remote_sources: RemoteSources, request: Request, body: bytes
) -> Response:
    """The definitions of several tools."""
    try:
        asked = strict(body, BATCH)
    except (InvalidJson, InvalidShape) as error:
        return refusal(error.code, str(error))
    names = {one if isinstance(one, str) else one.name for one in asked.names}
    failed = await remote_sources.load_parameters(
        served.tools[name] for name in names if name in served.tools
    )
    errors = {name: error_for(problem, "", name) for name, problem in failed.items()}
    found = [find_named(served, one, errors) for one in asked.names]
    if sum(len(one.page.body) for one in found if isinstance(one, ServedTool)) > MAX_BYTES:
        words = f"These definitions have more than {MAX_BYTES:,} bytes together; ask for fewer at once."
        return refusal("request.invalid_shape", words)
    results = [batch_result(one) for one in found]
    page = Page(encode({"schema_version": SCHEMA_VERSION, "results": results}))
    if accepts_gzip(request.header(b"accept-encoding")) and page.gzipped is not None:
        return Response(200, page.gzipped, [JSON, SHARED, (b"content-encoding", b"gzip")])
    return Response(200, page.body, [JSON, SHARED])


def find_named(
    served: ServedTools, asked: str | NamedTool, errors: Mapping[str, ToolError]
) -> ServedTool | ToolError:
    """The named tool, else the error, also that of its remote source."""
    match asked:
        case str() as name:
            version = None
        case NamedTool(name=name, version=given):
            version = None if given is UNSET else given
    return errors.get(name) or find_version(served, name, version)


def batch_result(found: ServedTool | ToolError) -> dict[str, Raw | ToolError]:
    """One result of a batch, as `GotTool` has it; a definition is the encoded bytes."""
    return {"definition": Raw(found.page.body)} if isinstance(found, ServedTool) else {"error": found}
