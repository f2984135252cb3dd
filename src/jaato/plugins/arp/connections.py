"""Connections to one registry that are kept for a while: for each loop its own, a few, closed when nobody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import httpcore2

IDLE_S = 15.0
"""How long a connection may lie idle: less than servers let it."""
MAX_OPEN = 64
"""Connections that are open at once; who comes later waits."""
MAX_KEPT = 8
"""Of them, those that are kept."""

Open = Callable[[], "httpcore2.AsyncConnectionPool"]


class Pool:
    """The connections of one loop. A task of that loop closes them: when nobody has used them, or when the loop ends."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool) -> None:
        self.pool = pool
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.used = self.loop.time()
        self.task: asyncio.Task[None] | None = None

    async def idle(self) -> None:
        """Wait until nobody has used them for a while."""
        while (left_s := IDLE_S if self.users else self.used + IDLE_S - self.loop.time()) > 0:  # noqa: ASYNC110 nobody waits
            await asyncio.sleep(left_s)


class Connections:
    """The pools by their loops. `open_pool` makes one; it may raise."""

    def __init__(self, open_pool: Open) -> None:
        self._open = open_pool
        self._pools: dict[int, Pool] = {}

    @asynccontextmanager
    async def used(self) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
        """The pool of the running loop, in use while the context is entered."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(id(loop))
        if pool is None or pool.loop is not loop:
            pool = self._pools[id(loop)] = Pool(self._open())
            pool.task = loop.create_task(self._keep(pool), name="connections", context=Context())
        pool.users += 1
        try:
            yield pool.pool
        finally:
            pool.users -= 1
            pool.used = loop.time()

    async def _keep(self, pool: Pool) -> None:
        try:
            with suppress(asyncio.CancelledError):  # the loop ends, or the registry is no longer used
                await pool.idle()
        finally:
            if self._pools.get(id(pool.loop)) is pool:
                del self._pools[id(pool.loop)]
            with anyio.CancelScope(shield=True):
                await pool.pool.aclose()

    def close(self) -> None:
        """Close what nobody uses, soon; from any thread."""
        for pool in list(self._pools.values()):
            task = pool.task
            if task is not None:
                with suppress(RuntimeError):  # that loop has ended, and closed them
                    pool.loop.call_soon_threadsafe(task.cancel)
