"""The server as an ASGI application: its routes, and the server from its store to its sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketClose

from jaato.abc.store import Store
from jaato.errors import JaatoError
from jaato.protocol.frames import PROTOCOL
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.auth.admission import KEY
from jaato.server.auth.gate import Gate, Local, Remote, problem, turn_away
from jaato.server.auth.hosts import names_of
from jaato.server.auth.tokens import Tokens
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send
from jaato.server.http.listeners import serving
from jaato.server.http.tls import Certificate
from jaato.server.http.websocket import EXTENSION, FramedSocket
from jaato.server.mcp.app import Mounted
from jaato.server.metrics import Metrics
from jaato.server.protocol.connection import Connection
from jaato.server.registry.keys import Keys, default_rate
from jaato.server.registry.mounted import PATH as TOOLS
from jaato.server.registry.mounted import Mounted as Registry
from jaato.server.registry.mounted import worded
from jaato.server.sessions.hub import IDLE_AFTER_S, Hub
from jaato.server.sessions.maintenance import maintained
from jaato.settings import environment
from jaato.version import __version__

PATH = "/v1/connect"
VERSION = TOOLS.split("/")[1]
"""How paths begin that are the registry's to speak of where they lead nowhere, however they are written."""


def application(hub: Hub, metrics: Metrics, mcp: App, registry: App) -> Starlette:
    """The routes, with the doors for MCP and for the tool registry among them. Nothing here checks who comes: put a `Gate` before it."""

    async def health(_request: Request) -> Response:
        return JSONResponse(
            {
                "status": "going_down" if hub.closing else "ok",
                "version": __version__,
                "protocol": PROTOCOL,
                "uptime_s": round(time.monotonic() - metrics.since, 1),
                "sessions": len(hub.lives.by_id),
                "clients": metrics.clients,
            },
            503 if hub.closing else 200,
        )

    async def measured(_request: Request) -> Response:
        return PlainTextResponse(
            metrics.text(hub), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def connect(websocket: WebSocket) -> None:
        await websocket.accept()
        socket = Attached(websocket)
        metrics.clients += 1
        try:
            await Connection(hub, socket, getattr(websocket.state, KEY)).serve()
        finally:
            metrics.clients -= 1

    made = Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", measured),
            WebSocketRoute(PATH, connect),
            Route("/mcp", mcp),
            Route(TOOLS, registry),
            Route(f"{TOOLS}/{{rest:path}}", registry),
            Route(f"{TOOLS}:{{action}}", registry),
        ]
    )
    made.router.default = nothing_here
    made.router.redirect_slashes = False  # a redirect would repeat what the client calls us
    return made


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """What a path is answered that leads nowhere, with the id of its request."""
    from jaato.server.registry.requests import request_id

    if scope["type"] == "websocket":
        await WebSocketClose()(scope, receive, send)
        return
    refused = Refused(404, "There is nothing here.")
    if scope["path"].lower().split("/", 2)[1] == VERSION:
        await turn_away(scope, send, refused, worded)
        return
    id_ = request_id(dict(scope["headers"]).get(b"x-request-id"))
    refused.headers["x-request-id"] = id_.decode("ascii")
    await turn_away(scope, send, refused, problem)


def gate_refusal(scope: Scope, refused: Refused) -> Any:
    """A refusal of the gate's as the door it is for words it."""
    return (worded if scope["path"].startswith(TOOLS) else problem)(scope, refused)


class Attached:
    """A WebSocket as a connection uses it: commands come through Starlette, frames go out on the wire."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._wire: FramedSocket = websocket.scope["extensions"][EXTENSION]
        self.write = self._wire.write

    @property
    def ready(self) -> bool:
        """Whether the client takes more now."""
        return self._wire.ready

    @property
    def drained(self) -> Any:
        """Called when the client takes more again."""
        return self._wire.drained

    @drained.setter
    def drained(self, heard: Any) -> None:
        self._wire.drained = heard

    async def receive(self) -> str | None:
        """The next text frame, None at the end; a binary one is none of ours and ends the connection."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            return None
        text: str | None = message.get("text")
        if text is None:
            await self.close(1003, "text frames only")
        return text

    async def close(self, code: int, reason: str) -> None:
        """End the connection."""
        await self._websocket.close(code, reason)

    def let_in(self, frame_bytes: int) -> None:
        """The client is known: take frames up to this size from now on."""
        self._wire.let_in(frame_bytes)

    async def room(self) -> None:
        """Wait while the client leaves too much unread."""
        await self._wire.room()


@dataclass(frozen=True)
class Doors:
    """The sockets to serve at, and the names a TCP door may be called by beside its address.

    `tls` are the files of a certificate and its key; `mcp` is the workspace that `/mcp` opens.
    """

    listeners: Sequence[socket.socket]
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    idle_after_s: float = IDLE_AFTER_S
    base: SessionOptions = field(default_factory=SessionOptions)
    tls: tuple[Path, Path] | None = None
    mcp: Path | None = None


class Running:
    """A server that serves: its sessions, and what of it can be renewed."""

    def __init__(self, hub: Hub, doors: Doors) -> None:
        self.hub = hub
        self.secure = None if doors.tls is None else Certificate(*doors.tls)
        self.tokens: Tokens | None = None

    async def renew(self) -> list[JaatoError | OSError]:
        """New sessions see the configuration, new connections the certificate and the tokens, as they are now: a signal can
        come from any program of the user, so open sessions stay as they are. What cannot be used stays as it was, and is
        given back; the rest is renewed all the same."""
        problems: list[JaatoError | OSError] = []
        try:
            await self.hub.reload(at_hand=False)
        except (JaatoError, OSError) as error:
            problems.append(error)
        for part in (self.tokens, self.secure):
            try:
                if part is not None:
                    part.renew()
            except (JaatoError, OSError) as error:
                problems.append(error)
        return problems


@asynccontextmanager
async def running(doors: Doors) -> AsyncIterator[Hub]:
    """Serve while the body runs, and give the sessions. In the end every turn is interrupted and recorded, and nothing
    is left behind. Raises `JaatoError`s when it cannot begin."""
    async with opened(doors) as served:
        yield served.hub


@asynccontextmanager
async def opened(doors: Doors) -> AsyncIterator[Running]:
    """The same, and give the server."""
    base = doors.base
    base = replace(base, environ=environment() if base.environ is None else base.environ)
    workspace = Path.home()
    settings = settings_for(replace(base, workspace=workspace), workspace)
    state_dir = base.state_dir or settings.state_dir
    base = replace(base, state_dir=state_dir)
    store: Store = open_store(settings, state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        hub = Hub(store, base, session_secrets(settings, base), idle_after_s=doors.idle_after_s)
        served = Running(hub, doors)
        await stack.enter_async_context(hub.running())
        await stack.enter_async_context(maintained(hub))
        mounted = Mounted(doors.mcp, base)
        await stack.enter_async_context(mounted.running())
        registry = Registry(doors.mcp or workspace, base)
        await stack.enter_async_context(registry.running())
        app = application(hub, Metrics(), mounted, registry)
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        keys = Keys(state_dir, default_rate(settings))
        web = sum(one.family != socket.AF_UNIX for one in doors.listeners)
        for listener in doors.listeners:
            if listener.family == socket.AF_UNIX:
                await stack.enter_async_context(serving(Gate(app, Local()), listener))
                continue
            served.tokens = served.tokens or Tokens(state_dir)
            host, port = listener.getsockname()[:2]
            names = names_of(host, port, doors.hosts, doors.origins, secure=served.secure is not None)
            gate = Gate(app, Remote(served.tokens, names, frozenset({PATH}), keys), gate_refusal)
            group.start_soon(gate.look)
            await stack.enter_async_context(serving(gate, listener, served.secure, web))
        yield served
