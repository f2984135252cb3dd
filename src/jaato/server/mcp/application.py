"""The MCP door as an ASGI application: to be served alone, or mounted beside others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from jaato.server.mcp.door import IDLE_S, MAX_VISITS, Door
from jaato.server.mcp.guard import MAX_BODY_BYTES, Receive, Refused, Scope, Send, header, refuse
from jaato.server.mcp.handlers import Handlers

PATH = "/mcp"


class Application:
    """Streamable HTTP of both protocol eras at `/mcp`. It checks neither token nor origin: put a `Guard` before it.

    Requests are served while `running` is entered, once.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._handlers = Handlers(door)
        self._sessions = StreamableHTTPSessionManager(
            self._handlers.server(),
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=IDLE_S,
            max_sessions=MAX_VISITS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs; in the end every client is sent away."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._door.sweep)
            try:
                async with self._sessions.run():
                    yield
            finally:
                self._handlers.listening.close()
                group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"] != PATH:
            await refuse(send, Refused(404, f"There is nothing here; MCP is at {PATH}."))
            return
        await self._sessions.handle_request(scope, receive, send)
        if scope["method"] == "DELETE":
            await self._door.leave(f"session {header(scope, b'mcp-session-id')}")
