"""The routes of the registry: what each request is answered. It knows HTTP, and of tools only what is on the shelf."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import UNSET

from jaato.errors import ConfigError, JaatoError, Overloaded
from jaato.log import logger
from jaato.protocol.arp import InvalidJson, InvalidShape, Invocation, ToolError, decode_invocation
from jaato.protocol.codec import encode
from jaato.server.asgi import Refused
from jaato.server.registry.answers import (
    JSON,
    STATUS,
    Answer,
    error_for,
    error_of,
    failure,
    refusal,
    success,
)
from jaato.server.registry.callers import Callers
from jaato.server.registry.request import (
    ALLOWED,
    Request,
    Route,
    accepts_gzip,
    names_tag,
    request_id,
    route_of,
    trace_id,
)
from jaato.server.registry.shelf import Page, Shelf

LOG = logger("server.registry")
MAX_BODY_BYTES = 1_000_000
SHARED = (b"vary", b"accept-encoding")
FRESH = (b"cache-control", b"no-cache")
"""A page may be kept, and is asked about before it is used again."""
STORED = (b"cache-control", b"no-store")
MAX_ID_CHARS = 200
REFUSED = {
    401: "auth.required",
    403: "auth.forbidden",
    404: "route.not_found",
    421: "request.misdirected",
    429: "request.too_many",
    503: "registry.unavailable",
}
"""The codes of what a gate refuses, by their status."""


@dataclass(frozen=True, slots=True)
class Who:
    """Who calls: the key of the session, and the name it is shown by."""

    key: str = ""
    name: str = "anyone"


@dataclass(slots=True)
class Pending:
    """A call whose body is still to come: whose, of which tool, and the id of its request."""

    route: Route
    request: Request
    id: bytes
    who: Who = field(default_factory=Who)


class RegistryDoor:
    """Answers requests with what is on the shelf, and with what the callers' calls give."""

    def __init__(self, shelf: Shelf, callers: Callers, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.callers = callers
        self.onward = callers.onward
        self.max_body_bytes = max_body_bytes
        self._shelf = shelf
        self._changed = False
        callers.watch(self._look_again)

    @property
    def shelf(self) -> Shelf:
        """What is served now."""
        if self._changed:
            self._changed = False
            self._shelf = Shelf(self.callers.catalog, self._shelf)
        return self._shelf

    def _look_again(self) -> None:
        """Tools have come or gone; from any thread."""
        self._changed = True

    def at_once(self, request: Request) -> Answer | Pending:
        """The answer to a request that needs no body; else the call, of which nothing is known to be wrong yet."""
        id_ = request_id(request.header(b"x-request-id"))
        route = route_of(request.path)
        if route is not None and request.method in ALLOWED[route.kind]:
            if route.kind == "invoke":
                return self._called(route, request, id_)
            if self.onward and self._is_elsewhere(route):
                return Pending(route, request, id_)
            answer = self._page(route, request)
        elif route is None:
            answer = refusal("route.not_found", "There is nothing here; the tools are at /v1/tools.")
        else:
            allowed = b", ".join(ALLOWED[route.kind])
            words = f"Only {allowed.decode()} is answered here."
            answer = refusal("request.method_not_allowed", words, (b"allow", allowed))
        return identified(answer, id_)

    def _is_elsewhere(self, route: Route) -> bool:
        """Whether others have to be asked before a page can be given."""
        tool = self.shelf.tools.get(route.name)
        return tool is None or tool.remote is not None

    async def _asked(self, pending: Pending) -> Answer:
        """A page for which others are asked."""
        route = pending.route
        tool = self.shelf.tools.get(route.name)
        if tool is None:
            await self.onward.renew(pending.request.header(b"via") or b"")
            tool = self.shelf.tools.get(route.name)
        if tool is not None and tool.remote is not None:
            problem = await self.onward.describe(tool)
            if problem is not None:
                error = error_for(problem, pending.id.decode("ascii"))
                return Answer(STATUS[error.code], encode(error), [JSON, STORED])
            self.shelf.describe(tool)
        answer = self._page(route, pending.request)
        if route.kind == "list":
            answer.headers.append(self.onward.via)
        return answer

    def _page(self, route: Route, request: Request) -> Answer:
        """The list, or a definition, or that the caller has it already."""
        page = self.shelf.views if route.kind == "list" else self.shelf.definitions.get(route.name)
        return unknown(route) if page is None else sent(page, request)

    def _called(self, route: Route, request: Request, id_: bytes) -> Answer | Pending:
        """What can be said of a call before its body has come."""
        coding = request.header(b"content-encoding")
        length = request.header(b"content-length")
        if coding is not None and coding.strip().lower() != b"identity":
            answer = failure(
                error_of("request.unsupported_encoding", "A body is sent as it is, uncompressed.")
            )
        elif length is not None and length.isdigit() and int(length[:20]) > self.max_body_bytes:
            return self.too_large(id_)
        else:
            return Pending(route, request, id_)
        return identified(answer, id_)

    def too_large(self, id_: bytes) -> Answer:
        """A body beyond the bound; nothing else on the connection is read."""
        words = f"A request has at most {self.max_body_bytes:,} bytes."
        return identified(failure(error_of("request.too_large", words)), id_)

    def too_slow(self, id_: bytes) -> Answer:
        """A body that did not come in time."""
        words = "The body did not come in time; send it again."
        return identified(failure(error_of("request.timeout", words)), id_)

    async def invoke(self, pending: Pending, body: bytes) -> Answer:
        """The answer to a call, or to what others had to be asked for."""
        if pending.route.kind != "invoke":
            return identified(await self._asked(pending), pending.id)
        name = pending.route.name
        if name not in self.shelf.tools and self.onward:
            await self.onward.renew(pending.request.header(b"via") or b"")
        if name not in self.shelf.tools:
            answer = failure(not_found(name))
        else:
            try:
                invocation = decode_invocation(body)
            except (InvalidJson, InvalidShape) as error:
                answer = failure(error_of(error.code, str(error)))
            else:
                answer = await self._run(pending, name, invocation)
        answer.headers.append(STORED)
        return identified(answer, pending.id)

    async def _run(self, pending: Pending, name: str, invocation: Invocation) -> Answer:
        request = pending.request
        origin = origin_of(pending.id, request.header(b"traceparent"), invocation)
        try:
            caller = await self.callers.caller(pending.who.key, pending.who.name)
            done = await caller.call(name, invocation, origin)
        except (Overloaded, ConfigError) as error:
            busy = error_of("request.too_many", str(error))
            return failure(busy, 0.0, (b"retry-after", b"1"))
        except JaatoError:
            LOG.exception("Request %s: the call of %s could not be made", origin["request_id"], name)
            words = "The registry cannot make this call now; its log says why."
            return failure(error_of("registry.unavailable", words), 0.0, (b"retry-after", b"1"))
        if done.problem is None:
            return success(done.value, done.latency_ms)
        if done.problem.code == "tool_raised":
            why = done.problem.traceback or done.problem.message
            LOG.error("Request %s: %s failed: %s", origin["request_id"], name, why)
        return failure(error_for(done.problem, origin["request_id"]), done.latency_ms)


def turned_away(request: Request, problem: Refused) -> Answer:
    """A refusal at the gate: a whole result where a call was meant."""
    code = REFUSED.get(problem.status, "request.misdirected")
    route = route_of(request.path)
    if route is not None and route.kind == "invoke" and request.method == b"POST":
        return failure(error_of(code, problem.text))
    return refusal(code, problem.text)


def identified(answer: Answer, id_: bytes) -> Answer:
    """The answer with the id of its request."""
    answer.headers.append((b"x-request-id", id_))
    return answer


def not_found(name: str) -> ToolError:
    """There is no such tool."""
    return error_of("tool.not_found", f"There is no tool {name[:80]!r} here; GET /v1/tools lists them.")


def unknown(route: Route) -> Answer:
    """There is no such tool, where it was asked for."""
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


def origin_of(id_: bytes, traceparent: bytes | None, invocation: Invocation) -> dict[str, str]:
    """Where a call comes from, by the ids that others know it by."""
    origin = {"request_id": id_.decode("ascii")}
    trace = trace_id(traceparent)
    if trace is not None:
        origin["trace_id"] = trace
    if invocation.trace is not UNSET:
        for name in ("flow_id", "step_id"):
            value = invocation.trace.get(name)
            if isinstance(value, str):
                origin[name] = value[:MAX_ID_CHARS]
    return origin
