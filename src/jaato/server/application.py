"""The one application behind every door: the protocol's WebSocket, health and metrics; others are mounted beside it."""

from __future__ import annotations

import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketClose

from jaato.protocol.frames import PROTOCOL
from jaato.server.admission import KEY
from jaato.server.asgi import App, Receive, Refused, Scope, Send
from jaato.server.connection import Connection
from jaato.server.gate import problem, turn_away
from jaato.server.hub import Hub
from jaato.server.metrics import Metrics
from jaato.server.registry.mounted import PATH as TOOLS
from jaato.server.registry.mounted import worded
from jaato.server.wire import EXTENSION, FramedSocket
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
    from jaato.server.registry.request import request_id

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


def turned_away(scope: Scope, refused: Refused) -> Any:
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
