"""The MCP door of a server that has others too: opened by its first request, so that nothing is imported before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import anyio

from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.runtime.blueprint import Blueprint
from jaato.server.admission import KEY
from jaato.server.asgi import App, Receive, Refused, Scope, Send
from jaato.server.gate import rpc_problem, turn_away

LOG = logger("server.mcp")


class Mounted:
    """An ASGI application: MCP for the owner, in one workspace. Requests are served while `running` is entered, once."""

    def __init__(self, workspace: Path | None, base: Blueprint) -> None:
        self._workspace = workspace
        self._base = base
        self._waiting: list[asyncio.Future[App]] = []
        self._asked = asyncio.Event()
        self._app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            held = scope["state"][KEY].held
            if held is None or held.role != "owner":
                raise Refused(403, "MCP's tools act as the owner; come with the token of an owner.")
            app = self._app or await self._opened()
        except Refused as refused:
            await turn_away(scope, send, refused, rpc_problem)
            return
        await app(scope, receive, send)

    async def _opened(self) -> App:
        if self._workspace is None:
            raise Refused(404, "No workspace is open to MCP; `jaato serve --mcp-workspace DIR` names one.")
        if find_spec("mcp") is None:
            raise Refused(501, "Serving MCP needs its library: pip install 'jaato[mcp]'.")
        app: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        self._waiting.append(app)
        self._asked.set()
        try:
            return await app
        except JaatoError as error:
            raise Refused(503, str(error)) from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs; in the end every client is sent away."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _serve(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._open()
            except (JaatoError, OSError) as error:
                LOG.warning("The door for MCP cannot be opened: %s", error)
                self._tell(ConfigError(f"The door for MCP cannot be opened: {error}"))

    async def _open(self) -> None:
        await anyio.to_thread.run_sync(import_module, "jaato.server.mcp.application")  # takes half a second
        from jaato.server.mcp.application import Application, Whole
        from jaato.server.mcp.door import open_door
        from jaato.server.mcp.offer import Offer

        door = open_door(replace(self._base, workspace=self._workspace), Offer())
        try:
            made = Application(door)
            async with made.running():
                self._app = Whole(made)
                self._tell(None)
                await anyio.sleep_forever()
        finally:
            self._app = None
            await door.close()

    def _tell(self, error: JaatoError | None) -> None:
        for one in self._waiting:
            if one.done():
                continue
            if error is not None:
                one.set_exception(error)
            elif self._app is not None:
                one.set_result(self._app)
        self._waiting.clear()
