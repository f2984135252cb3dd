"""The MCP server as an ASGI application: lazily mounted in a jaato server, or on an address of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
from msgspec.structs import replace

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import (
    ErrorFormat,
    Gate,
    KeyVerifier,
    TokenAuthenticator,
    allow_hosts,
    rpc_error,
    send_refusal,
)
from jaato.server.auth.identity import KEY
from jaato.server.auth.tokens import SingleToken, load_or_create_token
from jaato.server.http.asgi import (
    MAX_BODY_BYTES,
    App,
    Receive,
    Refused,
    Scope,
    Send,
    body_of,
    header,
    replay_body,
)
from jaato.server.http.lazy_app import LazyApp
from jaato.server.http.listeners import HttpServer, bind_tcp, create_config, parse_host_port

if TYPE_CHECKING:
    from jaato.server.tool_sessions import ToolSessions

PATH = "/mcp"


class Mounted(LazyApp):
    """MCP for the owner, in one workspace; its modules are imported by the first request.

    Requests are served while `running` is entered, once.
    """

    what = "MCP"
    form: ClassVar[ErrorFormat] = staticmethod(rpc_error)

    def __init__(self, workspace: Path | None, base: SessionOptions) -> None:
        super().__init__()
        self._workspace = workspace
        self._base = base

    def check(self) -> None:
        """Raise `Refused` without a workspace, or without the library."""
        if self._workspace is None:
            raise Refused(404, "No workspace is open to MCP; `jaato serve --mcp-workspace DIR` names one.")
        if find_spec("mcp") is None:
            raise Refused(501, "Serving MCP needs its library: pip install 'jaato[mcp]'.")

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[App]:
        """The application, while the context is entered."""
        await anyio.to_thread.run_sync(import_module, "jaato.server.mcp.handlers")  # takes half a second
        from jaato.server.tool_sessions import Offer, ToolSessions

        sessions = ToolSessions.open(replace(self._base, workspace=self._workspace), Offer())
        try:
            application = Application(sessions)
            async with application.running():
                yield BufferedBody(application)
        finally:
            await sessions.close()


class Application:
    """Streamable HTTP of both protocol eras at `/mcp`. It checks neither token nor origin: put a `Gate` before it.

    Requests are served while `running` is entered, once.
    """

    def __init__(self, sessions: ToolSessions) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from jaato.server.mcp.handlers import Handlers
        from jaato.server.tool_sessions import IDLE_S, MAX_SESSIONS

        self._sessions = sessions
        self._handlers = Handlers(sessions)
        self._manager = StreamableHTTPSessionManager(
            self._handlers.server(),
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=IDLE_S,
            max_sessions=MAX_SESSIONS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs; then disconnect every client."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._sessions.sweep)
            group.start_soon(self._handlers.changes.watch)
            try:
                async with self._manager.run():
                    yield
            finally:
                self._handlers.listening.close()
                group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"] != PATH:
            refused = Refused(404, f"There is nothing here; MCP is at {PATH}.")
            await send_refusal(scope, send, refused, rpc_error)
            return
        held = scope["state"][KEY].key if KEY in scope.get("state", {}) else None
        if held is not None:  # a session is then that key's alone
            from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
            from mcp.server.auth.provider import AccessToken

            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=held.principal.key, scopes=[]))
        await self._manager.handle_request(scope, receive, send)
        if scope["method"] == "DELETE":
            whose = "" if held is None else f" with {held.principal.key}"
            key = f"session {header(scope, b'mcp-session-id')}{whose}"
            self._handlers.changes.forget(key)
            await self._sessions.leave(key)


class BufferedBody:
    """Passes a request on once its whole body, of bounded size, has arrived."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the body, or refuse it."""
        try:
            body = await body_of(scope, receive)
        except Refused as refused:
            await send_refusal(scope, send, refused, rpc_error)
            return
        if body is not None:  # else the client has gone
            await self._app(scope, replay_body(body, receive), send)


async def listen(
    sessions: ToolSessions,
    address: str,
    hosts: Iterable[str],
    origins: Iterable[str],
    announce: Callable[[str], None],
    keyring: KeyVerifier | None = None,
) -> None:
    """Serve at `[HOST]:PORT` until cancelled; keys let in beside the token. Raises `ConfigError` for an address that cannot be had."""
    host, port = parse_host_port(address)
    token, path = load_or_create_token(sessions.state_dir)
    listener = bind_tcp(host, port)
    try:
        port = listener.getsockname()[1]
        application = Application(sessions)
        names = allow_hosts(host, port, hosts, origins)
        gate = Gate(
            BufferedBody(application), TokenAuthenticator(SingleToken(token), names, keys=keyring), rpc_error
        )
        server = HttpServer(create_config(gate))
        shown = f"[{host}]" if ":" in host else host
        async with application.running():
            announce(f"serving MCP at http://{shown}:{port}{PATH}; the token is in {path}")
            looking = asyncio.create_task(gate.recheck())
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.shield(serving)
            finally:
                looking.cancel()
                server.should_exit = True
                await asyncio.wait([serving])
    finally:
        listener.close()
