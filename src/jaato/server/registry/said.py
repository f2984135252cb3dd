"""What is said to requests that are not answered as they wish: refused, not understood, or failed inside."""

from __future__ import annotations

from jaato.log import logger
from jaato.server.asgi import Refused
from jaato.server.registry.answers import Answer, error_of, failure, refusal
from jaato.server.registry.request import Request, Route, request_id, route_of

LOG = logger("server.registry")
REFUSED = {
    400: "request.invalid_http",
    401: "auth.required",
    403: "auth.forbidden",
    404: "route.not_found",
    408: "request.timeout",
    421: "request.misdirected",
    429: "request.too_many",
    431: "request.head_too_large",
    503: "registry.unavailable",
}
"""The codes of what a gate refuses, by their status."""
REALM = 'Bearer realm="jaato tool registry"'
"""What answers to who may not come in begin with."""
CALLS = frozenset(("invoke", "batchInvoke"))
"""What is answered by a whole result even where it fails."""


def turned_away(request: Request, problem: Refused) -> Answer:
    """A refusal at the gate: a whole result where a call was meant."""
    code = REFUSED.get(problem.status, "request.misdirected")
    route = route_of(request.path)
    meant = route if request.method == b"POST" else None
    return said(meant, code, problem.text)


def denied(route: Route, scope: str) -> Answer:
    """Who calls may not do this (RFC 6750, 3.1)."""
    answer = said(route, "auth.forbidden", f"This needs a key with the scope {scope}.")
    answer.headers.append(
        (b"www-authenticate", f'{REALM}, error="insufficient_scope", scope="{scope}"'.encode())
    )
    return answer


def broken(code: str, words: str, request: Request) -> Answer:
    """What gave no answer, said in the form of what it was."""
    meant = route_of(request.path) if request.method == b"POST" else None
    return identified(said(meant, code, words), request_id(request.header(b"x-request-id")))


def unanswered(request: Request, problem: BaseException | None) -> Answer:
    """A request whose work gave no answer: it was cancelled, or something is wrong with the registry."""
    if problem is None:
        return broken("tool.cancelled", "The call was cancelled.", request)
    answer = broken("registry.failed", "The registry failed inside; its log says why.", request)
    LOG.error("Request %s could not be answered", answer.headers[-1][1].decode(), exc_info=problem)
    return answer


def said(route: Route | None, code: str, words: str) -> Answer:
    """An error in the form of what was asked for: a whole result where it was a call."""
    if route is not None and route.kind in CALLS:
        return failure(error_of(code, words))
    return refusal(code, words)


def identified(answer: Answer, id_: bytes) -> Answer:
    """The answer with the id of its request."""
    answer.headers.append((b"x-request-id", id_))
    return answer
