"""What is said to a server, as the SDK's stream: whole lines, in order, however slowly it reads."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import anyio

from jaato.plugins.mcp.ends import End
from jaato.plugins.mcp.lines import Incoming, Waiter
from jaato.plugins.mcp.wire import encode

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


class Outgoing(End):
    """The input of a server. Runs on the loop it is made on."""

    def __init__(self, fd: int, incoming: Incoming) -> None:
        self._fd = fd
        self._incoming = incoming
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()
        self._drained: asyncio.Event | None = None

    async def send(self, item: SessionMessage, /) -> None:
        """Say something; waits while the server has not read what was said before. Raises `anyio.BrokenResourceError`."""
        message = item.message
        data = encode(message)
        await self.room()
        if self._fd < 0:
            raise anyio.BrokenResourceError
        if hasattr(message, "method") and hasattr(message, "id"):
            self._incoming.asked[message.id] = None
        elif getattr(message, "method", "") == "notifications/cancelled":
            self._incoming.asked.pop((getattr(message, "params", None) or {}).get("requestId"), None)
        self._held += data
        self._flush()

    async def room(self) -> None:
        """Wait until the server has read what was said before."""
        while self._held:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def request(self, id_: int, line: bytes, waiter: Waiter) -> bool:
        """Say a request whose answer is the waiter's; False when nobody listens any more."""
        if self._fd < 0 or self._incoming.ended:
            return False
        self._incoming.asked[id_] = waiter
        self._held += line
        self._flush()
        return True

    def give_up(self, id_: int, line: bytes) -> None:
        """Say that nobody waits for an answer any more, unless it is there."""
        if self._incoming.asked.pop(id_, None) is not None and self._fd >= 0:
            self._held += line
            self._flush()

    def _flush(self) -> None:
        try:
            del self._held[: os.write(self._fd, self._held)]
        except BlockingIOError:
            pass
        except OSError:
            self.stop()
            return
        if self._held:
            self._loop.add_writer(self._fd, self._flush)
        elif self._drained is not None:
            self._loop.remove_writer(self._fd)
            self._drained.set()
            self._drained = None

    def stop(self) -> None:
        """Say no more; whoever waits to, hears that the server is gone."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            self._fd = -1
        self._held.clear()
        if self._drained is not None:
            self._drained.set()
            self._drained = None
