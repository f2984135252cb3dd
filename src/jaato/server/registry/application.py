"""The registry as an application: opened from the settings, as an ASGI application, and served at an address of its own."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.runtime.domains import load_domains
from jaato.runtime.session_options import SessionOptions, settings_for, workspace_of
from jaato.server.auth.gate import Gate
from jaato.server.auth.identity import KEY
from jaato.server.http import listeners as listen
from jaato.server.http.asgi import BODY_S, Receive, Refused, Scope, Send, is_whole, receive_now
from jaato.server.registry.caller_sessions import Callers, log_retention_of
from jaato.server.registry.catalog import ServedTools, is_served
from jaato.server.registry.invoke import CallLimits
from jaato.server.registry.keys import Guard, peer_of
from jaato.server.registry.limits import parse_concurrency_limits
from jaato.server.registry.registered.handlers import Handlers
from jaato.server.registry.registered.registration import RegisteredTools
from jaato.server.registry.registered.store import ToolFolder
from jaato.server.registry.requests import OWNER_SCOPES, PendingRequest, Principal, Request, request_id
from jaato.server.registry.responses import (
    REFUSAL_LOG,
    Response,
    Stream,
    gate_refusal,
    internal_error,
    with_request_id,
)
from jaato.server.registry.routes import ToolRegistry
from jaato.server.tool_sessions import Offer
from jaato.settings import Settings

LOG = logger("server.registry")


@asynccontextmanager
async def run_maintenance(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these in the background while the body runs, then cancel them. One that fails is logged and ends nothing else."""
    tasks = [asyncio.create_task(work) for work in works]
    for task in tasks:
        task.add_done_callback(note_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def note_end(task: asyncio.Task[None]) -> None:
    """Log the error of a background task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.critical("Maintenance of the registry has failed; restart it", exc_info=error)


def open_registry(
    blueprint: SessionOptions,
    domains: Iterable[str] | None = None,
    entry_points: Iterable[str] = (),
    tools: tuple[str, ...] = (),
) -> ToolRegistry:
    """Open the registry of these domains (None: those of the settings), the blueprint's plugins and the registered tools.
    `entry_points` are allowed beside those of the settings. If there are `tools`, only these are served.

    Naming a domain or registering a tool allows calls of its tools, but a rule that denies them has precedence. A call that
    would ask is denied, since no user can be asked. Raises `JaatoError`s.
    """
    workspace = workspace_of(blueprint)
    settings = settings_for(blueprint, workspace)
    names = settings["tool_registry_domains"] if domains is None else list(domains)
    loaded = load_domains(names)
    allowed = tuple(tool.name for tool in loaded if tool.spec.access != "read")
    most = settings["tool_registry_body_bytes"]
    if most < 1:
        raise ConfigError(f"tool_registry_body_bytes = {most}: a request has at least one byte.")
    bounds = call_limits_of(settings)
    served = ServedTools(loaded)  # all versions; a session has the newest of each
    described = replace(
        blueprint,
        plugins=blueprint.plugins or (),
        tools=(*blueprint.tools, *served.tools.values()),
        allow=(*blueprint.allow, *allowed),
    )
    offer = Offer(
        whole=True, scope=partial(is_served, named=frozenset(blueprint.allow), only=frozenset(tools))
    )
    retention = log_retention_of(settings)
    callers = Callers.open(described, offer)
    with ExitStack() as undo:
        undo.callback(callers.abandon)
        callers.retention = retention
        for tool in loaded:
            tool.auto_approved = False  # allowed by a rule, over which others may have precedence
        offered = filter(offer.scope, callers.catalog)
        everything = ServedTools(one for first in offered for one in served.all_of(first))
        allowed_code = (*settings["tool_registry_entry_points"], *entry_points)
        handlers = Handlers(
            settings, workspace, callers.state_dir, allowed_code, callers.registry.services["secrets"]
        )
        registered = RegisteredTools(everything, callers, ToolFolder(callers.state_dir), handlers)
        undo.pop_all()
    return ToolRegistry(registered, callers, most, bounds)


def call_limits_of(settings: Settings) -> CallLimits:
    """The timeout and concurrency limits of the settings. Raises `ConfigError`."""
    within_s = settings["tool_registry_timeout_s"]
    if not within_s > 0:
        raise ConfigError(f"tool_registry_timeout_s = {within_s}: a timeout is greater than 0.")
    return CallLimits(within_s, parse_concurrency_limits(settings["tool_registry_at_once"]))


MAX_UNSENT_BYTES = 131_072
"""The send buffer of a connection in the system."""
MAX_CONNECTIONS = 4_096
DRAIN_S = 5.0
"""How long running requests may take when the server stops."""
CANCEL_S = 3
"""How long cancelled calls may take to end and to be answered."""


def bind_listener(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError`."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"{port} is no port: they go from 0 (any that is free) to 65535.")
    listener = listen.bind_tcp(host, port)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # so that a slow client is noticed before megabytes are buffered
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
    return listener


def max_connections() -> int:
    """The number of connections that the limit of open files allows, which is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, soft * 3 // 4))


@asynccontextmanager
async def serving(registry: ToolRegistry, guard: Guard, listener: socket.socket) -> AsyncIterator[None]:
    """Serve at a socket while the body runs; then running requests may finish for a while, and calls are cancelled."""
    config = listen.create_config(Gate(Application(registry), guard, partial(refuse, registry=registry)))
    config.connections = max_connections()
    config.timeout_graceful_shutdown = int(DRAIN_S) + CANCEL_S
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(listen.serve_config(config, listener))
        await stack.enter_async_context(run_maintenance(registry.maintain()))
        try:
            yield
        finally:
            await server.drain(DRAIN_S)
            registry.callers.stop()


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


LINGER_S = 5.0
WATCHED_AFTER_S = 0.025
"""How long a request takes, once or twice, before a disconnect of its client is watched for: most are answered before."""
LAST = frozenset((408, 413))
"""Statuses after which the connection is closed, since the body was not read to its end."""


class Application:
    """The registry as an ASGI application behind a `Gate`."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._watch = DisconnectWatch()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        if scope["type"] != "http":
            return
        request = request_from_scope(scope)
        entered = scope.get("state", {}).get(KEY)
        if entered is not None and entered.key is not None:
            request.rate_headers, request.spend = entered.key.rate_headers, entered.key.spend
        answer = self._registry.dispatch(request, principal_in(scope))
        if isinstance(answer, PendingRequest):
            body = await self._body(answer, receive)
            found = body if isinstance(body, Response) else await self._work(answer, body, receive)
            if found is None:
                return  # the client has disconnected
            answer = found
        if answer.status >= 400:
            REFUSAL_LOG.log(request, answer, peer_of(scope))
        if answer.stream is not None:
            whole = scope.get("http_version") == "1.0"  # has no chunked encoding
            await send_stream(answer, request, answer.stream, receive, send, whole=whole)
            return
        last = [(b"connection", b"close")] if answer.status in LAST else []
        length = [] if answer.status in (204, 304) else [(b"content-length", str(len(answer.body)).encode())]
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, *request.rate_headers, *length, *last],
        }
        await send(start)
        body = b"" if request.method == b"HEAD" else answer.body
        await send({"type": "http.response.body", "body": body, "more_body": bool(last)})
        if last:
            await drain_body(receive)
            await send({"type": "http.response.body", "body": b""})

    async def _body(self, pending: PendingRequest, receive: Receive) -> bytes | Response | None:
        """The body; the error of one that is too large or too slow; None if the client has disconnected."""
        parts: list[bytes] = []
        size = 0
        message = receive_now(receive)
        if (
            message is not None
            and is_whole(message)
            and len(message["body"]) <= self._registry.max_body_bytes
        ):
            body: bytes = message["body"]  # as most are: it needs no timer
            return body
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_S):
                while True:
                    message = message or await receive()
                    if message["type"] != "http.request":
                        return None
                    piece = message.get("body", b"")
                    size += len(piece)
                    if size > self._registry.max_body_bytes:
                        return self._registry.refuse_large_body(pending.request)
                    parts.append(piece)
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    message = None
        return self._registry.refuse_slow_body(pending.request)

    async def _work(self, pending: PendingRequest, body: bytes | None, receive: Receive) -> Response | None:
        """The response; None if the client disconnects first, which cancels the work."""
        if body is None:
            return None
        try:
            return await self._watch.run(self._registry.work(pending, body), receive)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return internal_error(pending.request, None)
        except Exception as error:  # noqa: BLE001 the client gets a response all the same
            return internal_error(pending.request, error)


class WatchedWork(Struct, eq=False):
    """Work on a response, and whether its client has disconnected, which cancels it."""

    task: asyncio.Task[Any]
    receive: Receive
    watcher: asyncio.Task[None] | None = None
    gone: bool = False
    ended: bool = False

    async def watch(self) -> None:
        """Wait until the client disconnects, and cancel the work."""
        await self.receive()
        self.gone = True
        self.task.cancel()


class DisconnectWatch:
    """Watches for disconnects during requests that take longer than `WATCHED_AFTER_S`; most do not, so they share a timer."""

    def __init__(self) -> None:
        self._older: list[WatchedWork] = []
        self._newer: list[WatchedWork] = []

    async def run(self, work: Coroutine[Any, Any, Response], receive: Receive) -> Response | None:
        """The result of some work; None if the client disconnects first, which cancels the work."""
        task = asyncio.current_task()
        assert task is not None
        one = WatchedWork(task, receive)
        if not (self._older or self._newer):
            task.get_loop().call_later(WATCHED_AFTER_S, self._look)
        self._newer.append(one)
        try:
            answer = await work
        except asyncio.CancelledError:
            if not one.gone or task.uncancel():
                raise
            return None
        finally:
            one.ended = True
            if one.watcher is not None:
                one.watcher.cancel()
        if one.gone:
            task.uncancel()
            return None
        return answer

    def _look(self) -> None:
        """Watch those that were running the last time, too."""
        for one in self._older:
            if not one.ended:
                one.watcher = asyncio.create_task(one.watch())
        self._older, self._newer = [one for one in self._newer if not one.ended], []
        if self._older:
            asyncio.get_running_loop().call_later(WATCHED_AFTER_S, self._look)


async def send_stream(
    answer: Response, request: Request, stream: Stream, receive: Receive, send: Send, *, whole: bool
) -> None:
    """Send a stream chunk by chunk, or as one body, until the client disconnects; the server below applies backpressure, and
    disconnects a client that does not read."""

    async def pour() -> None:
        headers = [*answer.headers, *request.rate_headers]
        if whole:
            body = b"".join([piece async for piece in stream])
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for piece in stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with aclosing(stream):
        work, gone = asyncio.ensure_future(pour()), asyncio.ensure_future(receive())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            problem = work.exception() if work.done() and not work.cancelled() else None
            if problem is not None:
                raise problem
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait((work, gone))


async def drain_body(receive: Receive) -> None:
    """Read the rest of a body for a while: a client whose upload is cut off does not read the response."""
    with anyio.move_on_after(LINGER_S):
        while (await receive()).get("more_body", False):
            pass


def request_from_scope(scope: Scope) -> Request:
    """The request of an ASGI scope."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    headers: Any = scope["headers"]
    return Request(
        scope.get("method", "GET").encode(), path.partition(b"?")[0], headers, scope.get("query_string", b"")
    )


def principal_in(scope: Scope) -> Principal:
    """The principal of a request, by its key or token."""
    held = scope.get("state", {}).get(KEY)
    if held is not None and held.key is not None:
        return cast("Principal", held.key.principal)
    if held is None or held.identity is None:
        return Principal()
    name = held.identity.name or held.identity.role
    return Principal(f"token {held.identity.digest or name}", name, OWNER_SCOPES)


def refuse(scope: Scope, problem: Refused, registry: ToolRegistry | None = None) -> Any:
    """The body of a refusal by the gate, as the contract has it, counted by a registry with its own address."""
    request = request_from_scope(scope)
    if registry is not None:
        answer = registry.refuse_at_gate(request, problem)
    else:
        answer = with_request_id(gate_refusal(request, problem), request_id(request.header(b"x-request-id")))
    problem.headers.setdefault("x-request-id", answer.headers[-1][1].decode("ascii"))
    REFUSAL_LOG.log(request, answer, peer_of(scope))
    return msgspec.json.decode(answer.body)
