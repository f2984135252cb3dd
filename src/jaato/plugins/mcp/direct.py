"""Tool calls over a pipe without the SDK's dispatcher between: the answer goes straight to who waits for it.

Its streams, tasks and models cost more than all the rest of a call. Everything else it does for us: the handshake,
lists, what the server asks of its own accord.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeGuard

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from jaato.plugins.mcp.outgoing import Outgoing

FIRST_ID = 1_000_000_000
"""Ids of ours, which the SDK's own never reach; servers that keep ids in 32 bits can hold them."""
Show = Callable[[float, float | None, str | None], None]


class Asked:
    """A request under way."""

    __slots__ = ("answer", "show")

    def __init__(self, show: Show) -> None:
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.show = show

    def told(self, message: Any) -> None:
        """The server's answer."""
        if self.answer.done():
            return
        error = getattr(message, "error", None)
        if error is None:
            self.answer.set_result(message.result)
        else:
            self.answer.set_exception(MCPError(error.code, error.message, error.data))

    def progress(self, params: dict[str, Any]) -> None:
        """How far the server is."""
        done, total, said = params.get("progress"), params.get("total"), params.get("message")
        if is_number(done):
            self.show(done, total if is_number(total) else None, said if isinstance(said, str) else None)

    def lost(self) -> None:
        """There will be no answer."""
        if not self.answer.done():
            self.answer.set_exception(MCPError(CONNECTION_CLOSED, "Connection closed"))


class Direct:
    """Requests to one server over its pipe."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._ids = itertools.count(FIRST_ID)

    async def ask(self, method: str, params: dict[str, Any], show: Show) -> dict[str, Any]:
        """The raw result. Raises `MCPError`; a caller that goes away cancels the request at the server."""
        id_ = next(self._ids)
        meta = {**params.get("_meta", {}), "progressToken": id_}
        trace_into(meta)
        request = {"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}
        line = msgspec.json.encode(request) + b"\n"
        await self._outgoing.room()
        asked = Asked(show)
        if not self._outgoing.request(id_, line, asked):
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        try:
            return await asked.answer
        except asyncio.CancelledError:
            gone = {"requestId": id_, "reason": "caller cancelled"}
            told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
            self._outgoing.give_up(id_, msgspec.json.encode(told) + b"\n")
            raise


def trace_into(meta: dict[str, Any]) -> None:
    """The caller's trace, for the server to go on with (W3C traceparent); nothing unless there is one."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None or not tracing.get_current_span().get_span_context().is_valid:
        return
    from opentelemetry.propagate import inject

    inject(meta)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a number, which a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
