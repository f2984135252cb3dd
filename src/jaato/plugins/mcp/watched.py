"""The messages of a server behind a URL on their way to and from the SDK: whose end is heard of, and put into words."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types

from jaato.plugins.mcp.ends import End, ReadEnd
from jaato.plugins.mcp.guard import Guard
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.oauth_data import plain

NO_SESSION = -32000
"""What servers built on the usual examples answer, with status 400, when they do not know a session."""


class Streams:
    """Both directions of one connection."""

    def __init__(self, read: Any, write: Any, guard: Guard, log: ServerLog) -> None:
        self._guard = guard
        self._log = log
        self.asked: set[Any] = set()
        """The ids of requests that wait for their answers."""
        self.incoming = Incoming(read, self)
        self.outgoing = Outgoing(write, self)

    def ended(self) -> None:
        """The server says no more."""
        self._guard.over.set()

    def heard(self, item: Any) -> Any:
        """A message as it is handed on."""
        message = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            if message.id in self.asked:
                self.asked.discard(message.id)
            else:
                self._log.note("answered a request that was not made, or was given up")
        if isinstance(message, types.JSONRPCError):
            message.error = self._in_words(message.error)
        return item

    def _in_words(self, error: types.ErrorData) -> types.ErrorData:
        """An error, which may be the SDK's own, as one that says what happened and what to do."""
        guard, text = self._guard, error.message
        if error.code == NO_SESSION and guard.refused == 400 and "session" in text.lower():
            guard.forget()
        if guard.forgot:
            return types.ErrorData(code=types.CONNECTION_CLOSED, message=guard.said)
        if error.code == types.CONNECTION_CLOSED and not guard.over.is_set():
            text = (
                f"{plain(text).rstrip('.')}; whether it did what was asked is not known. {guard.said}".strip()
            )
        elif error.code == types.PARSE_ERROR and "validation error" in text:
            text = "what it answered is no JSON-RPC message"
        elif error.code == types.INTERNAL_ERROR and text == "Server returned an error response":
            return types.ErrorData(code=error.code, message=guard.said or text)
        elif error.code == types.INVALID_REQUEST and text.startswith("Unexpected content type: "):
            kind = plain(text.partition(": ")[2])[:80] or "none"
            text = f"its answer is neither JSON nor a stream of events (content type: {kind})"
        else:
            return error
        return types.ErrorData(code=types.PARSE_ERROR, message=text)


class Incoming(ReadEnd):
    """What the server says, as the SDK reads it."""

    def __init__(self, inner: Any, streams: Streams) -> None:
        self._inner = inner
        self._streams = streams

    @property
    def last_context(self) -> Any:
        """Who sent the last message, as the SDK keeps it."""
        return self._inner.last_context

    async def receive(self) -> Any:
        """The next message."""
        try:
            return self._streams.heard(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._streams.ended()
            raise

    async def aclose(self) -> None:
        """Listen no more."""
        await self._inner.aclose()


class Outgoing(End):
    """What is said to the server, as the SDK writes it."""

    def __init__(self, inner: Any, streams: Streams) -> None:
        self._inner = inner
        self._streams = streams

    async def send(self, item: Any) -> None:
        """Say something."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._streams.asked.add(message.id)
        elif getattr(message, "method", "") == "notifications/cancelled":
            self._streams.asked.discard((message.params or {}).get("requestId"))
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Say no more."""
        await self._inner.aclose()
