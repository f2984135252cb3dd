"""A task group that can be opened in one task and closed in another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from jaato.errors import JaatoError
from jaato.log import logger

LOG = logger("group")


class Group:
    """Runs coroutines beside the caller until `close`, which cancels them and waits for their end."""

    def __init__(self) -> None:
        self._keeper: asyncio.Task[None] | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._opened: anyio.Event | None = None
        self._closing: anyio.Event | None = None
        self._closed = False

    async def start(self, body: Callable[[], Awaitable[None]]) -> None:
        """Begin a coroutine; what it raises is logged, and harms no other. Raises `JaatoError` once closed."""
        if self._closed:
            raise JaatoError("The session is closed; nothing new begins in it.")
        if self._opened is None:
            self._opened, self._closing = anyio.Event(), anyio.Event()
            self._keeper = asyncio.create_task(
                self._keep(self._opened, self._closing), name="jaato-background"
            )
        await self._opened.wait()
        assert self._group is not None
        if self._closing is not None and self._closing.is_set():
            raise JaatoError("The session is closed; nothing new begins in it.")
        self._group.start_soon(self._contained, body)

    async def _keep(self, opened: anyio.Event, closing: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            opened.set()
            await closing.wait()
            group.cancel_scope.cancel()

    async def _contained(self, body: Callable[[], Awaitable[None]]) -> None:
        try:
            await body()
        except Exception:
            LOG.exception("A background task failed")

    async def close(self) -> None:
        """Cancel everything and wait until it has ended; a second time does nothing."""
        self._closed = True
        if self._keeper is None or self._closing is None:
            return
        self._closing.set()
        await asyncio.wait([self._keeper])
