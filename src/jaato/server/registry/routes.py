"""The routes of the registry: which request is whose, who may make it, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from time import perf_counter

import anyio

from jaato.log import logger
from jaato.protocol.codec import encode
from jaato.server.http.asgi import Refused
from jaato.server.registry import batch, listing, metrics
from jaato.server.registry import catalog as elsewhere
from jaato.server.registry import listing as several
from jaato.server.registry import results as behind
from jaato.server.registry.caller_sessions import Callers
from jaato.server.registry.catalog import Page, Shelf, seen
from jaato.server.registry.invoke import Bounds, Calls
from jaato.server.registry.listing import Finder, sent
from jaato.server.registry.metrics import Figures
from jaato.server.registry.registered import routes as requests
from jaato.server.registry.registered.registration import Registered
from jaato.server.registry.requests import (
    LIST,
    SCOPES,
    Kind,
    Pending,
    Request,
    Route,
    Who,
    allowed,
    request_id,
    route_of,
)
from jaato.server.registry.responses import Answer, denied, identified, refusal, said, turned_away, unanswered

LOG = logger("server.registry")
MAX_BODY_BYTES = 1_000_000
NOTHING = "There is nothing here; the tools are at /v1/tools."

AtOnce = Callable[["RegistryDoor", Shelf, Who, Route, Request], Answer | None]
Work = Callable[["RegistryDoor", Pending, bytes], Awaitable[Answer]]

PAGES: dict[Kind, AtOnce] = {
    "list": lambda _door, shelf, _who, _route, request: listing.list_tools(shelf, request),
    "tool": lambda _door, shelf, _who, route, request: listing.defined(shelf, route, request),
    "health": lambda door, shelf, *_: metrics.health(shelf, door.figures),
    "version": lambda *_: metrics.version(),
    "metrics": lambda door, shelf, who, *_: metrics.metrics(
        shelf, door.figures, door.callers.count, who.sight
    ),
    "result": lambda door, _shelf, who, _route, request: behind.read(door.callers, who, request),
    "openapi": lambda _door, _shelf, who, _route, request: sent(
        openapi_page(mounted=request.path.startswith(LIST), requires_key=who.key != ""), request
    ),
}
"""What is read without a body, by kind: `GET` and `HEAD`. None is a page that takes time."""


@cache
def openapi_page(*, mounted: bool, requires_key: bool) -> Page:
    """The OpenAPI document, built lazily by the first request for it."""
    from jaato.server.registry.openapi import build_document

    return Page(encode(build_document(mounted=mounted, requires_key=requires_key)))


async def page(door: RegistryDoor, pending: Pending, _body: bytes) -> Answer:
    """A page that takes time: others had to be asked, or it is what a search finds."""
    route, request = pending.route, pending.request
    shelf = await elsewhere.whole(door.onward, seen(door.shelf, pending.who.sight), pending)
    if isinstance(shelf, Answer):
        return shelf
    answer = PAGES[route.kind](door, shelf, pending.who, route, request)
    if answer is None:
        answer = await listing.searched(shelf, door.shelf, door.finder, request)
    if route.kind == "list" and door.onward:
        answer.headers.append(door.onward.via)
    return answer


def invoke(door: RegistryDoor, pending: Pending, body: bytes) -> Awaitable[Answer]:
    """The answer to a call."""
    return door.calls.invoke(seen(door.shelf, pending.who.sight), pending, body)


async def invoke_all(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The answers to several calls."""
    return await batch.invoke_all(door.calls, seen(door.shelf, pending.who.sight), pending, body)


async def cancel(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """How many calls were cancelled."""
    return batch.cancel(door.callers, pending, body)


async def put(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The answer to who puts a tool there."""
    return await requests.put(door.registered, pending, body)


async def delete(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The answer to who takes a tool away."""
    return await requests.delete(door.registered, pending, body)


async def batch_get(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The definitions of several tools."""
    return await several.got(seen(door.shelf, pending.who.sight), door.onward, pending.request, body)


WORKS: dict[tuple[Kind, bytes], Work] = {
    ("invoke", b"POST"): invoke,
    ("batchGet", b"POST"): batch_get,
    ("tool", b"PUT"): put,
    ("tool", b"DELETE"): delete,
    ("batchInvoke", b"POST"): invoke_all,
    ("cancel", b"POST"): cancel,
}
"""What a body comes with, or may take time, by kind and method."""


class RegistryDoor:
    """Answers requests with what is on the shelf, and with what the callers' calls give."""

    def __init__(
        self,
        registered: Registered,
        callers: Callers,
        max_body_bytes: int = MAX_BODY_BYTES,
        bounds: Bounds = Bounds(),  # noqa: B008 it cannot be changed
    ) -> None:
        self.registered: Registered = registered
        self.callers: Callers = callers
        self.finder = Finder(callers.catalog)
        self.figures: Figures = Figures()
        self.onward = callers.onward
        self._followed = elsewhere.Followed(callers.catalog, callers.offer)
        callers.watch(self._followed.note)
        self.calls = Calls(callers, bounds, self.figures.called)
        self.max_body_bytes = max_body_bytes

    @property
    def shelf(self) -> Shelf:
        """What is served now."""
        return self.registered.served.shelf

    @shelf.setter
    def shelf(self, shelf: Shelf) -> None:
        self.registered.served.shelf = shelf

    async def upkeep(self) -> None:
        """What is to be done again and again while requests are served."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.callers.sweep)
            group.start_soon(self.registered.watch)

    def at_once(self, request: Request, who: Who) -> Answer | Pending:
        """The answer to a request that needs no body; else what is still to be done, of which nothing is known to be wrong yet."""
        begun = perf_counter()
        id_ = request_id(request.header(b"x-request-id"))
        route = route_of(request.path)
        if route is None:
            return self._counted(said(route, "route.not_found", NOTHING), None, request, begun, id_)
        methods = allowed(route.kind)
        if request.method not in methods:
            words = f"Only {b', '.join(methods).decode()} is answered here."
            answer = refusal("request.method_not_allowed", words)
            answer.headers.append((b"allow", b", ".join(methods)))
            return self._counted(answer, route.kind, request, begun, id_)
        self._follow()
        scope = SCOPES[route.kind, request.method]
        found: Answer | None
        if scope is not None and scope not in who.scopes:
            found = denied(route, scope)
        elif (route.kind, request.method) in WORKS:
            found = self._wrong(route, request)
        elif elsewhere.is_elsewhere(self.onward, self.shelf, route):
            found = None
        else:
            try:
                found = PAGES[route.kind](self, seen(self.shelf, who.sight), who, route, request)
            except Exception as error:  # noqa: BLE001 as that of any work: who asks is answered all the same
                return unanswered(request, error)
        if found is None:
            return Pending(route, request, id_, who)
        return self._counted(found, route.kind, request, begun, id_)

    def _follow(self) -> None:
        """Have on the shelf what there is by now."""
        if self._followed.changed:
            self.shelf = self._followed.on(self.shelf)

    def _counted(
        self, answer: Answer, kind: Kind | None, request: Request, begun: float, id_: bytes
    ) -> Answer:
        """The answer with the id of its request, counted."""
        method = request.method if (kind, request.method) in SCOPES else b"*"
        self.figures.answered(kind, method, answer.status, perf_counter() - begun)
        return identified(answer, id_)

    def _wrong(self, route: Route, request: Request) -> Answer | None:
        """What can be said against a request before its body has come."""
        coding = request.header(b"content-encoding")
        if coding is not None and coding.strip().lower() != b"identity":
            return said(route, "request.unsupported_encoding", "A body is sent as it is, uncompressed.")
        length = request.header(b"content-length")
        if length is not None and length.isdigit() and int(length[:20]) > self.max_body_bytes:
            return self._large(route)
        return None

    def _large(self, route: Route | None) -> Answer:
        return said(route, "request.too_large", f"A request has at most {self.max_body_bytes:,} bytes.")

    def turn_away(self, request: Request, problem: Refused) -> Answer:
        """What the gate says to who may not come in."""
        return self._refused(request, turned_away(request, problem))

    def too_large(self, request: Request) -> Answer:
        """A body beyond the bound; nothing else on the connection is read."""
        return self._refused(request, self._large(route_of(request.path)))

    def too_slow(self, request: Request) -> Answer:
        """A body that did not come in time."""
        words = "The body did not come in time; send it again."
        return self._refused(request, said(route_of(request.path), "request.timeout", words))

    def _refused(self, request: Request, answer: Answer) -> Answer:
        route = route_of(request.path)
        kind = None if route is None else route.kind
        id_ = request_id(request.header(b"x-request-id"))
        return self._counted(answer, kind, request, perf_counter(), id_)

    async def work(self, pending: Pending, body: bytes) -> Answer:
        """The answer to a request whose body is there."""
        begun = perf_counter()
        kind = pending.route.kind
        if self.onward:
            await elsewhere.asked(self.onward, self.shelf, pending)
            self._follow()
        answer = await WORKS.get((kind, pending.request.method), page)(self, pending, body)
        return self._counted(answer, kind, pending.request, begun, pending.id)
