"""MCP over the standard streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as mcp
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from jaato.server.standard_streams import MAX_MESSAGE_BYTES, LineStreams

if TYPE_CHECKING:
    from jaato.server.mcp.handlers import Handlers


async def serve_stdio(handlers: Handlers, wire_in: int, wire_out: int) -> None:
    """Serve the client at these descriptors until it says no more, or reads no more."""
    server = handlers.server()
    streams: Any = ClientStreams(wire_in, wire_out)
    async with stdio_server(streams, streams) as (inbox, outbox), anyio.create_task_group() as group:
        group.start_soon(handlers.changes.watch)
        await server.run(inbox, outbox, server.create_initialization_options())
        group.cancel_scope.cancel()


class ClientStreams(LineStreams):
    """Both streams as the SDK uses them, as its stdin and its stdout. Lines are bounded, what is no message is refused
    here, and nothing is read while the client does not read: one that only asks fills no memory."""

    async def __aiter__(self) -> AsyncIterator[str]:
        """The messages that come in, each as its line."""
        async for line in self.lines():
            if line is None:
                await self._refuse(f"The message has more than {MAX_MESSAGE_BYTES:,} bytes.")
            elif line.strip():
                try:
                    message = mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError:
                    await self._refuse("This is no JSON-RPC message.")
                    continue
                if (
                    isinstance(message, mcp.JSONRPCNotification)
                    and b'"id"' in line
                    and "id" in json.loads(line)
                ):
                    await self._refuse("The id of a request is a text or a number.")
                    continue
                async with self.writing:  # a chunk may hold a thousand requests: answers go first
                    pass
                yield line.decode()

    async def _refuse(self, text: str) -> None:
        error = {"code": mcp.PARSE_ERROR, "message": text}
        await self.write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) + "\n")

    async def write(self, text: str) -> None:
        """Write a line. Raises `anyio.ClosedResourceError` when the client reads no more."""
        if not await self.write_line(text):
            raise anyio.ClosedResourceError

    async def flush(self) -> None:
        """Nothing is held back."""
