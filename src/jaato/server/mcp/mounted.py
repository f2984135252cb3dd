"""The MCP door of a server that has others too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import anyio

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import Form, rpc_problem
from jaato.server.http.asgi import App, Refused
from jaato.server.http.lazy_app import Later


class Mounted(Later):
    """An ASGI application: MCP for the owner, in one workspace. Requests are served while `running` is entered, once."""

    what = "MCP"
    form: ClassVar[Form] = staticmethod(rpc_problem)

    def __init__(self, workspace: Path | None, base: SessionOptions) -> None:
        super().__init__()
        self._workspace = workspace
        self._base = base

    def check(self) -> None:
        """Raises `Refused` where there is no workspace, or no library."""
        if self._workspace is None:
            raise Refused(404, "No workspace is open to MCP; `jaato serve --mcp-workspace DIR` names one.")
        if find_spec("mcp") is None:
            raise Refused(501, "Serving MCP needs its library: pip install 'jaato[mcp]'.")

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[App]:
        """The application, while the context is entered."""
        await anyio.to_thread.run_sync(import_module, "jaato.server.mcp.app")  # takes half a second
        from jaato.server.mcp.app import Application, Whole
        from jaato.server.tool_sessions import Offer, open_door

        door = open_door(replace(self._base, workspace=self._workspace), Offer())
        try:
            made = Application(door)
            async with made.running():
                yield Whole(made)
        finally:
            await door.close()
