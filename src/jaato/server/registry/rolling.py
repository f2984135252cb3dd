"""Sessions of callers that give way to new ones when they have grown, and go when they are too old."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread

from jaato.abc.store import Store
from jaato.errors import JaatoError
from jaato.log import logger
from jaato.runtime.runtime import Plan, Runtime
from jaato.server.mcp.door import Door
from jaato.server.mcp.offer import Offer
from jaato.server.registry.keeping import Kept, remove_old

if TYPE_CHECKING:
    from jaato.server.registry.callers import Caller

LOG = logger("server.registry")
LEFT_S = 0.05
FIRST_S = 60.0
REMOVE_S = 3_600.0
"""How often old calls are looked for; a session that grows full has it done too."""


class Rolling(Door):
    """Lets callers in, each of whose logs stays within bounds, and all of them together."""

    def __init__(self, runtime: Runtime, plan: Plan, offer: Offer, state_dir: Path) -> None:
        super().__init__(runtime, plan, offer, state_dir)
        self.kept = Kept()
        self._rolling: dict[str, asyncio.Task[None]] = {}
        self._sizes: dict[str, int] = {}
        self._look = asyncio.Event()
        self._removing = anyio.Lock()
        self._closing = False

    @property
    def store(self) -> Store:
        """Where the sessions of callers are."""
        return self._runtime.store

    def roll(self, key: str, full: Caller) -> None:
        """Begin another session for a caller whose has grown, once; nobody waits for it."""
        if key not in self._rolling:
            self._rolling[key] = rolling = asyncio.create_task(self._rolled(key, full))
            rolling.add_done_callback(lambda _over: self._rolling.pop(key, None))

    async def _rolled(self, key: str, full: Caller) -> None:
        """Take the new one; what is under way in that one ends there."""
        try:
            fresh = cast("Caller", await self._begun(full.client))
        except JaatoError as error:
            LOG.warning("The log of %s goes on in its session: %s", full.client, error)
            full.weight.empty()
            return
        if self.visiting(key) is not full:
            await self._close(fresh)  # it has left meanwhile
            return
        fresh.before, self._visits[key] = full, fresh
        while full.busy:  # noqa: ASYNC110 what goes on in the background tells nobody of its end
            await asyncio.sleep(LEFT_S)
        fresh.before = None
        await self._close(full)
        self._look.set()

    async def sweep(self) -> None:
        """Close, again and again, the sessions of those who have not called for long, and remove what is too old."""
        async with anyio.create_task_group() as group:
            group.start_soon(super().sweep)
            patience_s = FIRST_S
            while True:
                with anyio.move_on_after(patience_s):
                    await self._look.wait()
                patience_s = REMOVE_S
                self._look.clear()
                await self.remove_old()

    async def remove_old(self) -> None:
        """Remove the logs of calls that are beyond what is kept."""
        async with self._removing:
            try:
                await anyio.to_thread.run_sync(
                    remove_old, self.store, self.kept, self._sizes, lambda: not self._closing
                )
            except JaatoError as error:
                LOG.warning("The log of calls could not be looked after: %s", error)

    async def leave(self, key: str) -> None:
        """The caller has gone: its session is closed, and the one before it."""
        rolling = self._rolling.get(key)
        visit = cast("Caller | None", self.visiting(key))
        before = None if visit is None else visit.before
        await super().leave(key)
        with anyio.CancelScope(shield=True):
            if before is not None and rolling is not None:
                rolling.cancel()
            if rolling is not None:
                await asyncio.wait((rolling,))
            if before is not None:
                await self._close(before)

    async def close(self) -> None:
        """Close every session, then the plugins and the store, which another thread may still be looking after."""
        self._closing = True
        with anyio.CancelScope(shield=True):
            async with self._removing:
                pass
        await super().close()
