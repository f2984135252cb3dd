"""What carries protocol frames between a client and its server, and how a blocking client drives it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jaato.errors import ConfigError, JaatoError


class Transport(Protocol):
    """Carries protocol frames between one client and one server."""

    in_process: bool
    """Whether the server ends with this program."""

    def send(self, message: bytes, /) -> None:
        """Send one whole frame; never waits. Raises `ServerGone`."""
        ...

    async def receive(self) -> bytes:
        """The next whole frame. Raises `ServerGone` at the end of the connection."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...

    def drop(self) -> None:
        """Let go of a connection that is lost."""
        ...


class LoopTransport:
    """Drives an asynchronous transport from blocking code, on an event loop that runs only while the caller waits.

    What else is on that loop, such as a server in the same process, stands still otherwise. Everything happens on one thread,
    which has no other running loop.
    """

    in_process = False

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Transport]]) -> None:
        self._opened = opened
        self._runner = asyncio.Runner()
        self._frames: deque[bytes] = deque()
        self._readable: set[int] = set()
        self._watched: set[int] = set()
        self._failure: BaseException | None = None

    def open(self) -> None:
        """Open the transport. Raises what that raises."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError(
                "A blocking client cannot wait inside a running event loop; use `connect` there."
            )
        self._loop = self._runner.get_loop()
        self._closing = asyncio.Event()
        self._transport: Transport | None = None
        self._host = self._loop.create_task(self._serve())
        self._host.add_done_callback(lambda _: self._loop.stop())
        self._loop.run_forever()
        if self._host.done():
            try:
                self._host.result()
            finally:
                self._runner.close()

    async def _serve(self) -> None:
        """Hold the transport open, in a task of its own: task groups are left where they were entered."""
        async with self._opened() as transport:
            self._transport, self.in_process = transport, transport.in_process
            self._loop.stop()
            reading = self._loop.create_task(self._read(transport))
            await self._closing.wait()
            reading.cancel()
            await transport.close()

    async def _read(self, transport: Transport) -> None:
        try:
            while True:
                self._frames.append(await transport.receive())
                self._loop.stop()
        except JaatoError as error:
            self._failure = error
            self._loop.stop()

    def send(self, message: bytes, /) -> None:
        """Send one whole frame. Raises `ServerGone`."""
        assert self._transport is not None
        self._transport.send(message)

    def wait(
        self, timeout_s: float | None, descriptors: Collection[int] = ()
    ) -> tuple[list[bytes], Collection[int]]:
        """The frames that have come and those of the descriptors that can be read; waits, at most so long, when there are
        none. Raises `ServerGone` at the end of the connection."""
        self._watch(descriptors)
        if not self._frames and self._failure is None:
            timer = None if timeout_s is None else self._loop.call_later(timeout_s, self._loop.stop)
            self._loop.run_forever()
            if timer is not None:
                timer.cancel()
        frames, readable = list(self._frames), self._readable & set(descriptors)
        self._frames.clear()
        self._readable.clear()
        if self._failure is not None and not frames and not readable:
            raise self._failure
        return frames, readable

    def _watch(self, descriptors: Collection[int]) -> None:
        wanted = set(descriptors)
        for descriptor in self._watched - wanted:
            self._loop.remove_reader(descriptor)
        for descriptor in wanted - self._watched:
            self._loop.add_reader(descriptor, self._can_read, descriptor)
        self._watched = wanted

    def _can_read(self, descriptor: int) -> None:
        self._readable.add(descriptor)
        self._loop.stop()

    def close(self) -> None:
        """End the connection, and all that is on the loop."""
        if self._transport is None:
            return
        self._transport = None
        self._watch(())
        self._closing.set()
        try:
            while not self._host.done():
                self._loop.run_forever()
            self._host.result()
        finally:
            self._runner.close()
