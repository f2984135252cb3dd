"""The routes of the registry: which request is whose, who may make it, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from jaato.log import logger
from jaato.server.asgi import Refused
from jaato.server.registry import calling, pages
from jaato.server.registry.answers import Answer, error_of, failure, refusal
from jaato.server.registry.callers import Callers
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

LOG = logger("server.registry")
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

AtOnce = Callable[[Shelf, Route, Request], Answer]
Work = Callable[["RegistryDoor", Pending, bytes], Awaitable[Answer]]

PAGES: dict[Kind, AtOnce] = {"list": pages.listed, "tool": pages.defined}
"""What is read without a body, by kind: `GET` and `HEAD`."""


async def invoke(door: RegistryDoor, pending: Pending, body: bytes) -> Answer:
    """The answer to a call."""
    return await calling.invoke(door.shelf, door.callers, pending, body)


WORKS: dict[tuple[Kind, bytes], Work] = {("invoke", b"POST"): invoke}
"""What a body comes with, or may take time, by kind and method."""


class RegistryDoor:
    """Answers requests with what is on the shelf, and with what the callers' calls give."""

    def __init__(self, shelf: Shelf, callers: Callers, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.shelf = shelf
        self.callers = callers
        self.max_body_bytes = max_body_bytes

    def at_once(self, request: Request, who: Who) -> Answer | Pending:
        """The answer to a request that needs no body; else what is still to be done, of which nothing is known to be wrong yet."""
        id_ = request_id(request.header(b"x-request-id"))
        route = route_of(request.path)
        if route is None:
            return identified(
                refusal("route.not_found", "There is nothing here; the tools are at /v1/tools."), id_
            )
        methods = allowed(route.kind)
        if request.method not in methods:
            words = f"Only {b', '.join(methods).decode()} is answered here."
            answer = refusal("request.method_not_allowed", words, (b"allow", b", ".join(methods)))
            return identified(answer, id_)
        scope = SCOPES[route.kind, request.method]
        if scope not in who.scopes:
            return identified(denied(route, f"This key does not have the scope {scope}."), id_)
        if (route.kind, request.method) in WORKS:
            wrong = self._wrong(route, request)
            return Pending(route, request, id_, who) if wrong is None else identified(wrong, id_)
        return identified(PAGES[route.kind](self.shelf, route, request), id_)

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
        return identified(self._large(route_of(request.path)), request_id(request.header(b"x-request-id")))

    def too_slow(self, request: Request) -> Answer:
        """A body that did not come in time."""
        answer = said(
            route_of(request.path),
            "request.timeout",
            "The body did not come in time; send it again.",
        )
        return identified(answer, request_id(request.header(b"x-request-id")))

    async def work(self, pending: Pending, body: bytes) -> Answer:
        """The answer to a request whose body is there."""
        answer = await WORKS[pending.route.kind, pending.request.method](self, pending, body)
        return identified(answer, pending.id)


def turned_away(request: Request, problem: Refused) -> Answer:
    """A refusal at the gate: a whole result where a call was meant."""
    code = REFUSED.get(problem.status, "request.misdirected")
    route = route_of(request.path)
    meant = route if request.method == b"POST" else None
    return said(meant, code, problem.text)


def broken(code: str, words: str, request: Request | None) -> Answer:
    """What came is not to be read; said in the form of what it was, as far as that is known."""
    if request is None:
        return identified(refusal(code, words), request_id(None))
    meant = route_of(request.path) if request.method == b"POST" else None
    return identified(said(meant, code, words), request_id(request.header(b"x-request-id")))


def unanswered(request: Request, problem: BaseException | None) -> Answer:
    """A request whose work gave no answer: it was cancelled, or something is wrong with the registry."""
    if problem is None:
        return broken("tool.cancelled", "The call was cancelled.", request)
    answer = broken("registry.failed", "The registry failed inside; its log says why.", request)
    LOG.error("Request %s could not be answered", answer.headers[-1][1].decode(), exc_info=problem)
    return answer


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
