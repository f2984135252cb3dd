"""The server as an ASGI application: its routes with health and metrics, and the server from its store to its sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from jaato.client.address import PATH
from jaato.errors import JaatoError
from jaato.protocol.frames import PROTOCOL
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.auth.gate import Gate, LocalAuthenticator, send_refusal, server_error
from jaato.server.auth.identity import KEY
from jaato.server.auth.pairing import PAIR, PairingEndpoint
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send
from jaato.server.http.listeners import serve_gate
from jaato.server.http.tls import Certificate
from jaato.server.http.websocket import EXTENSION, FramedSocket
from jaato.server.mcp.app import Mounted
from jaato.server.metrics import Metrics
from jaato.server.network import Network
from jaato.server.openai.mounted import PATHS as CHAT
from jaato.server.openai.mounted import Mounted as ChatApi
from jaato.server.openai.mounted import is_here, openai_error
from jaato.server.registry.keys import Keys, default_rate
from jaato.server.registry.mounted import PATH as TOOLS
from jaato.server.registry.mounted import Mounted as Registry
from jaato.server.registry.mounted import make_refusal_body
from jaato.server.sessions.client_connection import ClientConnection
from jaato.server.sessions.hub import IDLE_AFTER_S, Hub
from jaato.server.sessions.maintenance import maintain_sessions
from jaato.server.web.static_files import ASSETS, StaticFiles
from jaato.settings import environment
from jaato.version import __version__

WHERE = (
    f"Clients of sessions connect by WebSocket at {PATH}, with the header Authorization: Bearer TOKEN over the network, and "
    'send {"type": "hello", "protocol": 1} first; the guide "Writing a client" has one in ten lines. Of OpenAI\'s API there are '
    "/v1/chat/completions and /v1/models. /health and /metrics are for monitoring."
)
"""Where the server's interfaces are, for whoever asks at another path."""
VERSION = TOOLS.split("/")[1]
"""The first segment of the registry's paths; unknown paths below it are answered in the registry's format."""


def application(hub: Hub, metrics: Metrics, mcp: App, registry: App, chat: App, pair: App) -> Starlette:
    """The routes of the server. They do not authenticate: put a `Gate` in front."""

    async def health(_request: Request) -> Response:
        return JSONResponse(
            {
                "status": "going_down" if hub.closing else "ok",
                "version": __version__,
                "protocol": PROTOCOL,
                "uptime_s": round(time.monotonic() - metrics.since, 1),
                "sessions": len(hub.pool.loaded),
                "clients": metrics.clients,
            },
            503 if hub.closing else 200,
        )

    async def render_metrics(_request: Request) -> Response:
        return PlainTextResponse(
            metrics.render(hub), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    routes = [
        Route("/health", health),
        Route("/metrics", render_metrics),
        WebSocketRoute(PATH, ClientEndpoint(hub, metrics)),
        Route("/", StaticFiles()),
        Route(ASSETS + "{name}", StaticFiles()),
        Route("/favicon.svg", StaticFiles()),
        Route(PAIR, pair),
        Route("/mcp", mcp),
        *(Route(path, chat) for path in CHAT),
        Route(f"{CHAT[1]}/{{rest:path}}", chat),
        Route(TOOLS, registry),
        Route(f"{TOOLS}/{{rest:path}}", registry),
        Route(f"{TOOLS}:{{action}}", registry),
    ]
    app = Starlette(routes=routes)
    app.router.default = send_not_found
    app.router.redirect_slashes = False  # a redirect would repeat the client's Host
    return app


class ClientEndpoint:
    """The WebSocket of the protocol. It is plain ASGI: a client that disconnects at any moment is no error in the log."""

    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self._hub = hub
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        client_socket: FramedSocket = scope["extensions"][EXTENSION]
        self._metrics.clients += 1
        try:
            await ClientConnection(self._hub, client_socket, scope["state"][KEY]).serve()
        finally:
            self._metrics.clients -= 1


async def send_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for an unknown path, with its request id."""
    from jaato.server.registry.requests import request_id

    refused = Refused(404, f"There is nothing at this path. {WHERE}")
    if scope["path"] == PATH:
        refused = Refused(426, f"This path is a WebSocket. {WHERE}", upgrade="websocket")
    elif scope["type"] == "http" and scope["path"].lower().split("/", 2)[1] == VERSION:
        await send_refusal(scope, send, refused, make_refusal_body)
        return
    id_ = request_id(dict(scope["headers"]).get(b"x-request-id"))
    refused.headers["x-request-id"] = id_.decode("ascii")
    await send_refusal(scope, send, refused, server_error)


def gate_error(scope: Scope, refused: Refused) -> Any:
    """The body of a refusal by the gate, in the format of the application at the path."""
    if is_here(scope["path"]):
        return openai_error(scope, refused)
    return (make_refusal_body if scope["path"].startswith(TOOLS) else server_error)(scope, refused)


@dataclass(frozen=True)
class ServerOptions:
    """The sockets of a server, and the allowed `Host` and `Origin` values of those on the network.

    `tls` are the files of a certificate and its key; `mcp` is the workspace of `/mcp`, `openai` that of agents behind the API
    of OpenAI.
    """

    listeners: Sequence[socket.socket] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    idle_after_s: float = IDLE_AFTER_S
    base: SessionOptions = field(default_factory=SessionOptions)
    tls: tuple[Path, Path] | None = None
    mcp: Path | None = None
    openai: Path | None = None


class Server:
    """A running server: its sessions, certificate and tokens."""

    def __init__(self, hub: Hub, options: ServerOptions) -> None:
        self.hub = hub
        self.certificate = None if options.tls is None else Certificate(*options.tls)
        self.network: Network

    async def reload(self) -> list[JaatoError | OSError]:
        """Reload the configuration for new sessions, and the certificate and the tokens for new connections. Open sessions
        keep theirs, because any program of the user can send the signal. Returns the errors; what failed stays as it was."""
        problems: list[JaatoError | OSError] = []
        try:
            await self.hub.reload(open_sessions=False)
        except (JaatoError, OSError) as error:
            problems.append(error)
        tokens = self.network.tokens if self.network.listeners else None
        for part in (tokens, self.certificate):
            try:
                if part is not None:
                    part.reload()
            except (JaatoError, OSError) as error:
                problems.append(error)
        return problems


@asynccontextmanager
async def run_server(options: ServerOptions) -> AsyncIterator[Server]:
    """Serve while the body runs; then turns are interrupted and recorded, and everything is closed. Raises `JaatoError`s
    if the server cannot start."""
    base = options.base
    base = replace(base, environ=environment() if base.environ is None else base.environ)
    workspace = Path.home()
    settings = settings_for(replace(base, workspace=workspace), workspace)
    state_dir = base.state_dir or settings.state_dir
    base = replace(base, state_dir=state_dir)
    store = open_store(settings, state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        hub = Hub(store, base, session_secrets(settings, base), idle_after_s=options.idle_after_s)
        server = Server(hub, options)
        await stack.enter_async_context(hub.running())
        await stack.enter_async_context(maintain_sessions(hub))
        mcp = Mounted(options.mcp, base)
        await stack.enter_async_context(mcp.running())
        registry = Registry(options.mcp or workspace, base)
        await stack.enter_async_context(registry.running())
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        keys = Keys(state_dir, default_rate(settings))
        names = (list(options.hosts), list(options.origins))
        network = server.network = Network(state_dir, keys, server.certificate, names, stack, group)
        pair = PairingEndpoint(network.pairings, network.add_browser)
        chat = ChatApi(hub, options.openai)
        app = network.app = application(hub, Metrics(), mcp, registry, chat, pair)
        web = [one for one in options.listeners if one.family != socket.AF_UNIX]
        for listener in web:
            await network.listen(listener, gate_error, len(web))
        hub.pair_browser = partial(network.pair, format_error=gate_error)
        for listener in options.listeners:
            if listener.family == socket.AF_UNIX:
                await stack.enter_async_context(serve_gate(Gate(app, LocalAuthenticator()), listener))
        try:
            yield server
        finally:
            chat.stop()  # while the listeners can still send the errors
