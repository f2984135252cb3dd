"""A way to a server that breaks whenever it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path


class Breaking:
    """Passes bytes between clients and a Unix socket; `cut` ends every connection at once, in the middle of anything."""

    def __init__(self, server: Path, own: Path) -> None:
        self._server = server
        self.path = own
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts = 0
        self._is_open = True

    async def __aenter__(self) -> Breaking:
        self._listening = await asyncio.start_unix_server(self._pass, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._listening.wait_closed()

    def cut(self) -> None:
        """End every connection."""
        self.cuts += len(self._writers) > 0
        for writer in self._writers:
            writer.transport.abort()

    def close(self) -> None:
        """End every connection, and each that is made before `open`."""
        self._is_open = False
        self.cut()

    def open(self) -> None:
        """Let connections through again."""
        self._is_open = True

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        there, back = await asyncio.open_unix_connection(self._server)
        self._writers |= {writer, back}
        tasks = [asyncio.create_task(pump(reader, back)), asyncio.create_task(pump(there, writer))]
        self._tasks |= set(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, back):
            one.transport.abort()
        await asyncio.wait(tasks)
        self._writers -= {writer, back}
        self._tasks -= set(tasks)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """From one to the other until either has ended."""
    try:
        while data := await reader.read(4_096):
            writer.write(data)
            await writer.drain()
    except OSError:
        return
