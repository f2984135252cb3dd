"""Room for so many subagents at work at once; one that waits for another gives its place away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from jaato.agent.child import Child


class Places:
    """Whoever waits for another agent holds no place, so that those at the bottom of the tree can always go on."""

    def __init__(self, limit: int) -> None:
        self._free = anyio.Semaphore(limit)

    async def enter(self, child: Child) -> None:
        """Wait until the agent may work."""
        await self._free.acquire()
        child.placed = True

    def leave(self, child: Child) -> None:
        """The agent works no longer, or waits."""
        if child.placed:
            child.placed = False
            self._free.release()

    @asynccontextmanager
    async def aside(self, child: Child | None) -> AsyncIterator[None]:
        """While the agent waits for others, somebody else may have its place; None is the root, which needs none."""
        if child is None:
            yield
            return
        child.waits += 1
        self.leave(child)
        try:
            yield
        finally:
            child.waits -= 1
        if not child.waits and child.at_work and not child.placed:
            await self.enter(child)
