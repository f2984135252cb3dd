"""The routes of the registry: which request is whose, who may make it, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from jaato.server.asgi import Refused
from jaato.server.registry import about, calling, elsewhere, pages, several
from jaato.server.registry.answers import Answer, error_of, failure, refusal
from jaato.server.registry.callers import Callers
from jaato.server.registry.figures import Figures
from jaato.server.registry.finding import Finder
from jaato.server.registry.request import (
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
from jaato.server.registry.shelf import Shelf

MAX_BODY_BYTES = 1_000_000
REFUSED = {
    400: "request.invalid_http",
    401: "auth.required",
    403: "auth.forbidden",
    404: "route.not_found",
    421: "request.misdirected",
    429: "request.too_many",
    503: "registry.unavailable",
}
"""The codes of what a gate refuses, by their status."""
CALLS = frozenset(("invoke",))
"""What is answered by a whole result even where it fails."""

AtOnce = Callable[["RegistryDoor", Shelf, Who, Route, Request], Answer | None]
Work = Callable[["RegistryDoor", Pending, bytes], Awaitable[Answer]]

PAGES: dict[Kind, AtOnce] = {
    "list": lambda _door, shelf, _who, _route, request: pages.listed(shelf, request),
    "tool": lambda _door, shelf, _who, route, request: pages.defined(shelf, route, request),
    "health": lambda door, shelf, *_: about.health(shelf, door.figures),
    "version": lambda *_: about.version(),
    "metrics": lambda door, shelf, *_: about.metrics(shelf, door.figures, door.callers.count),
    "openapi": lambda _door, _shelf, who, _route, request: about.described(who, request),
}
"""What is read without a body, by kind: `GET` and `HEAD`. None is a page that takes time."""


async def page(door: RegistryDoor, pending: Pending, _body: bytes) -> Answer:
    """A page that takes time: others had to be asked, or it is what a search finds."""
    route, request = pending.route, pending.request
    answer = await elsewhere.described(door.onward, door.shelf, pending)
    if answer is None:
        answer = PAGES[route.kind](door, door.shelf, pending.who, route, request)
    if answer is None:
        answer = await pages.searched(door.shelf, door.shelf, door.finder, request)
    if route.kind == "list" and door.onward:
        answer.headers.append(door.onward.via)
    return answer


async def invoke(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The answer to a call."""
    shelf, name = door.shelf, pending.route.name
    answer = await calling.invoke(shelf, door.callers, pending, body)
    if name in shelf.tools:
        door.figures.called(name, answer.code)
    return answer


async def batch_get(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The definitions of several tools."""
    return await several.got(door.shelf, door.onward, pending.request, body)


WORKS: dict[tuple[Kind, bytes], Work] = {("invoke", b"POST"): invoke, ("batchGet", b"POST"): batch_get}
"""What a body comes with, or may take time, by kind and method."""


class RegistryDoor:
    """Answers requests with what is on the shelf, and with what the callers' calls give."""

    def __init__(self, shelf: Shelf, callers: Callers, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.shelf: Shelf = shelf
        self.callers: Callers = callers
        self.finder = Finder(callers.catalog)
        self.figures: Figures = Figures()
        self.onward = callers.onward
        self._followed = elsewhere.Followed(callers.catalog)
        callers.watch(self._followed.note)
        self.max_body_bytes = max_body_bytes

    def at_once(self, request: Request, who: Who) -> Answer | Pending:
        """The answer to a request that needs no body; else what is still to be done, of which nothing is known to be wrong yet."""
        begun = perf_counter()
        id_ = request_id(request.header(b"x-request-id"))
        route = route_of(request.path)
        if route is None:
            answer = refusal("route.not_found", "There is nothing here; the tools are at /v1/tools.")
            return self._counted(answer, None, request, begun, id_)
        methods = allowed(route.kind)
        if request.method not in methods:
            words = f"Only {b', '.join(methods).decode()} is answered here."
            answer = refusal("request.method_not_allowed", words, (b"allow", b", ".join(methods)))
            return self._counted(answer, route.kind, request, begun, id_)
        self._follow()
        scope = SCOPES[route.kind, request.method]
        found: Answer | None
        if scope is not None and scope not in who.scopes:
            found = denied(route, f"This key does not have the scope {scope}.")
        elif (route.kind, request.method) in WORKS:
            found = self._wrong(route, request)
        elif elsewhere.is_elsewhere(self.onward, self.shelf, route):
            found = None
        else:
            found = PAGES[route.kind](self, self.shelf, who, route, request)
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
        method = request.method if kind is not None and request.method in allowed(kind) else b"*"
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
        return self._counted(
            answer, kind, request, perf_counter(), request_id(request.header(b"x-request-id"))
        )

    async def work(self, pending: Pending, body: bytes) -> Answer:
        """The answer to a request whose body is there."""
        begun = perf_counter()
        kind = pending.route.kind
        await elsewhere.asked(self.onward, self.shelf, pending)
        self._follow()
        work = WORKS.get((kind, pending.request.method), page)
        answer = await work(self, pending, body)
        return self._counted(answer, kind, pending.request, begun, pending.id)


def turned_away(request: Request, problem: Refused) -> Answer:
    """A refusal at the gate: a whole result where a call was meant."""
    code = REFUSED.get(problem.status, "request.misdirected")
    route = route_of(request.path)
    meant = route if request.method == b"POST" else None
    return said(meant, code, problem.text)


def denied(route: Route, words: str) -> Answer:
    """Who calls may not do this."""
    return said(route, "auth.forbidden", words)


def said(route: Route | None, code: str, words: str) -> Answer:
    """An error in the form of what was asked for: a whole result where it was a call."""
    if route is not None and route.kind in CALLS:
        return failure(error_of(code, words))
    return refusal(code, words)


def identified(answer: Answer, id_: bytes) -> Answer:
    """The answer with the id of its request."""
    answer.headers.append((b"x-request-id", id_))
    return answer
