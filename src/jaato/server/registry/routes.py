"""The routes of the registry: which request is allowed, and which module answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from time import perf_counter

import anyio

from jaato.protocol.codec import encode
from jaato.server.http.asgi import Refused
from jaato.server.registry import catalog, listing, metrics
from jaato.server.registry.caller_sessions import Callers
from jaato.server.registry.catalog import Page, ServedTools, visible_tools
from jaato.server.registry.invoke import CallLimits, Calls, cancel_calls
from jaato.server.registry.metrics import RegistryMetrics
from jaato.server.registry.registered import routes as registered_routes
from jaato.server.registry.registered.registration import RegisteredTools
from jaato.server.registry.requests import (
    ANONYMOUS_METHODS,
    LIST,
    METHODS,
    SCOPES,
    PendingRequest,
    Principal,
    Request,
    Route,
    RouteKind,
    request_id,
    route_of,
)
from jaato.server.registry.responses import (
    Response,
    error_for_route,
    gate_refusal,
    internal_error,
    missing_scope,
    refusal,
    with_request_id,
)
from jaato.server.registry.results import read_result
from jaato.server.tool_sessions import RemoteSources

MAX_BODY_BYTES = 1_000_000
NO_ROUTE = "There is nothing here; the tools are at /v1/tools."

PageHandler = Callable[["ToolRegistry", ServedTools, Principal, Route, Request], Response | None]
WorkHandler = Callable[["ToolRegistry", PendingRequest, bytes], Awaitable[Response]]


@cache
def openapi_page(*, mounted: bool, requires_key: bool) -> Page:
    """The OpenAPI document, built lazily by the first request for it."""
    from jaato.server.registry.openapi import build_document

    return Page(encode(build_document(mounted=mounted, requires_key=requires_key)))


PAGES: dict[RouteKind, PageHandler] = {
    "list": lambda _registry, tools, _who, _route, request: listing.list_tools(tools, request),
    "tool": lambda _registry, tools, _who, route, request: listing.get_definition(tools, route, request),
    "health": lambda registry, tools, *_: metrics.health_response(tools, registry.metrics),
    "version": lambda *_: metrics.version_response(),
    "metrics": lambda registry, tools, who, *_: metrics.metrics_response(
        tools, registry.metrics, registry.callers.count, who.visibility
    ),
    "result": lambda registry, _tools, who, _route, request: read_result(registry.callers, who, request),
    "openapi": lambda _registry, _tools, who, _route, request: listing.page_response(
        openapi_page(mounted=request.path.startswith(LIST), requires_key=who.key != ""), request
    ),
}
"""Handlers of `GET` and `HEAD`, by kind of route. None is a page that needs more time."""


async def slow_page(registry: ToolRegistry, pending: PendingRequest, _body: bytes) -> Response:
    """A page for which remote sources are asked, or tools are search_tools."""
    route, request = pending.route, pending.request
    tools = await catalog.load_definition(registry.remote_sources, registry.visible(pending.who), pending)
    if isinstance(tools, Response):
        return tools
    response = PAGES[route.kind](registry, tools, pending.who, route, request)
    if response is None:
        response = await listing.search_tools(tools, registry.tools, registry.search, request)
    if route.kind == "list" and registry.remote_sources:
        response.headers.append(registry.remote_sources.via)
    return response


async def cancel(registry: ToolRegistry, pending: PendingRequest, body: bytes) -> Response:
    """Cancel running calls."""
    return cancel_calls(registry.callers, pending, body)


WORK: dict[tuple[RouteKind, bytes], WorkHandler] = {
    ("invoke", b"POST"): lambda registry, pending, body: registry.calls.invoke(
        registry.visible(pending.who), pending, body
    ),
    ("batchInvoke", b"POST"): lambda registry, pending, body: registry.calls.invoke_batch(
        registry.visible(pending.who), pending, body
    ),
    ("batchGet", b"POST"): lambda registry, pending, body: listing.get_definitions(
        registry.visible(pending.who), registry.remote_sources, pending.request, body
    ),
    ("tool", b"PUT"): lambda registry, pending, body: registered_routes.put_tool(
        registry.registered, pending, body
    ),
    ("tool", b"DELETE"): lambda registry, pending, _body: registered_routes.delete_tool(
        registry.registered, pending
    ),
    ("cancel", b"POST"): cancel,
}
"""Handlers of requests with a body, or that take time, by kind of route and method."""


class ToolRegistry:
    """Answers the requests of a registry, with the tools that are served and the sessions of the callers."""

    def __init__(
        self,
        registered: RegisteredTools,
        callers: Callers,
        max_body_bytes: int = MAX_BODY_BYTES,
        limits: CallLimits = CallLimits(),  # noqa: B008 it cannot be changed
    ) -> None:
        self.registered: RegisteredTools = registered
        self.callers: Callers = callers
        self.search = listing.ToolSearch(callers.catalog)
        self.metrics: RegistryMetrics = RegistryMetrics()
        self.remote_sources: RemoteSources = callers.remote_sources
        self._follower = catalog.CatalogFollower(callers.catalog, callers.offer)
        callers.watch(self._follower.mark_changed)
        self.calls: Calls = Calls(callers, limits, self.metrics.record_call)
        self.max_body_bytes = max_body_bytes

    @property
    def tools(self) -> ServedTools:
        """The tools that are served now."""
        return self.registered.served.tools

    def visible(self, who: Principal) -> ServedTools:
        """The tools that are visible to a caller."""
        return visible_tools(self.tools, who.visibility)

    async def maintain(self) -> None:
        """Remove old sessions and follow registered tools, while requests are served."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.callers.sweep)
            group.start_soon(self.registered.watch)

    def dispatch(self, request: Request, who: Principal) -> Response | PendingRequest:
        """The response to a request that needs no body; else the request, checked as far as possible without its body."""
        begun = perf_counter()
        id_ = request_id(request.header(b"x-request-id"))
        route = route_of(request.path)
        if route is None:
            return self._finish(
                error_for_route(route, "route.not_found", NO_ROUTE), None, request, begun, id_
            )
        methods = METHODS[route.kind] if who.key else ANONYMOUS_METHODS[route.kind]
        if request.method not in methods:
            more = "; anything else needs a key" if request.method in METHODS[route.kind] else ""
            words = f"Only {b', '.join(methods).decode()} is answered here{more}."
            response = refusal("request.method_not_allowed", words)
            response.headers.append((b"allow", b", ".join(methods)))
            return self._finish(response, route.kind, request, begun, id_)
        self._update_tools()
        scope = SCOPES[route.kind, request.method]
        found: Response | None
        if scope is not None and scope not in who.scopes:
            found = missing_scope(route, scope)
        elif (route.kind, request.method) in WORK:
            found = self._check_head(route, request)
        elif catalog.is_remote(self.remote_sources, self.tools, route):
            found = None
        else:
            try:
                found = PAGES[route.kind](self, self.visible(who), who, route, request)
            except Exception as error:  # noqa: BLE001 the client gets a response all the same
                return internal_error(request, error)
        if found is None:
            return PendingRequest(route, request, id_, who)
        return self._finish(found, route.kind, request, begun, id_)

    async def work(self, pending: PendingRequest, body: bytes) -> Response:
        """The response to a request whose body has been received."""
        begun = perf_counter()
        kind = pending.route.kind
        if self.remote_sources:
            await catalog.refresh_remote(self.remote_sources, self.tools, pending)
            self._update_tools()
        response = await WORK.get((kind, pending.request.method), slow_page)(self, pending, body)
        return self._finish(response, kind, pending.request, begun, pending.id)

    def _update_tools(self) -> None:
        """Serve the tools that are in the catalog now."""
        if self._follower.changed:
            served = self.registered.served
            served.tools = self._follower.update(served.tools)

    def _finish(
        self, response: Response, kind: RouteKind | None, request: Request, begun: float, id_: bytes
    ) -> Response:
        """The response with the id of its request, counted."""
        method = request.method if (kind, request.method) in SCOPES else b"*"
        self.metrics.record_request(kind, method, response.status, perf_counter() - begun)
        return with_request_id(response, id_)

    def _check_head(self, route: Route, request: Request) -> Response | None:
        """The error of a request that can be refused before its body is received."""
        coding = request.header(b"content-encoding")
        if coding is not None and coding.strip().lower() != b"identity":
            words = "A body is sent as it is, uncompressed."
            return error_for_route(route, "request.unsupported_encoding", words)
        length = request.header(b"content-length")
        if length is not None and length.isdigit() and int(length[:20]) > self.max_body_bytes:
            return self._too_large(route)
        return None

    def _too_large(self, route: Route | None) -> Response:
        words = f"A request has at most {self.max_body_bytes:,} bytes."
        return error_for_route(route, "request.too_large", words)

    def refuse_at_gate(self, request: Request, problem: Refused) -> Response:
        """The response to a request that the gate refused."""
        return self._refuse(request, gate_refusal(request, problem))

    def refuse_large_body(self, request: Request) -> Response:
        """The response to a body beyond the limit."""
        return self._refuse(request, self._too_large(route_of(request.path)))

    def refuse_slow_body(self, request: Request) -> Response:
        """The response to a body that was not received in time."""
        words = "The body did not come in time; send it again."
        return self._refuse(request, error_for_route(route_of(request.path), "request.timeout", words))

    def _refuse(self, request: Request, response: Response) -> Response:
        route = route_of(request.path)
        kind = None if route is None else route.kind
        id_ = request_id(request.header(b"x-request-id"))
        return self._finish(response, kind, request, perf_counter(), id_)
