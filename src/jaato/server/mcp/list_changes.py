"""Clients are told that their list of tools has become another: tools came, went or changed, here or where they come from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from jaato.server.tool_sessions import MAX_VISITS, Door, Named

GATHER_S = 0.1
"""What changes together is told once."""
LOOK_S = 60.0
"""How often others are asked what they offer, while somebody has listed it."""
PATIENCE_S = 5.0
"""How long a client may take to be told."""

Tell = Callable[[], Awaitable[None]]
Sees = Callable[[str], bool]
"""Whether there is a tool of this name for a client."""


@dataclass(slots=True)
class Shown:
    """The tools a client was shown last, and how it is told that they are others; None where it listens at the bus."""

    tools: tuple[Named, ...]
    tell: Tell | None
    sees: Sees


class Changes:
    """Remembers what each client was shown. `publish` tells all who listen."""

    def __init__(self, door: Door, publish: Tell) -> None:
        self._door = door
        self._publish = publish
        self._shown: dict[str, Shown] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._end = door.watch(self._note)

    def _note(self) -> None:
        """There are other tools; from any thread."""
        with suppress(RuntimeError):  # the loop has ended, and so have the clients
            self._loop.call_soon_threadsafe(self._changed.set)

    def listed(self, key: str, tell: Tell | None, sees: Sees) -> None:
        """A client was shown the tools there are for it now."""
        self._shown.pop(key, None)
        self._shown[key] = Shown(self._declared(key, sees), tell, sees)
        while len(self._shown) > MAX_VISITS:
            del self._shown[next(iter(self._shown))]

    def _declared(self, key: str, sees: Sees) -> tuple[Named, ...]:
        return tuple(one for one in self._door.declared(key) if sees(one.name))

    def forget(self, key: str) -> None:
        """A client has gone."""
        self._shown.pop(key, None)

    async def tell(self) -> None:
        """Tell them, again and again, and have others asked for what is new."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._ask)
            try:
                while True:
                    await self._changed.wait()
                    await anyio.sleep(GATHER_S)
                    self._changed.clear()
                    await self._tell_all()
            finally:
                self._end()

    async def _ask(self) -> None:
        while True:
            await anyio.sleep(LOOK_S)
            if self._shown:
                await self._door.renew()

    async def _tell_all(self) -> None:
        """Tell those whose tools are others than they were shown; each once, until it has looked."""
        listen = False
        async with anyio.create_task_group() as group:
            for key, shown in list(self._shown.items()):
                now = self._declared(key, shown.sees)
                if now == shown.tools:
                    continue
                shown.tools = now
                if shown.tell is None:
                    listen = True
                else:
                    group.start_soon(self._tell_one, key, shown.tell)
        if listen:
            await self._publish()

    async def _tell_one(self, key: str, tell: Tell) -> None:
        with anyio.move_on_after(PATIENCE_S) as patience:
            try:
                await tell()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.forget(key)
        if patience.cancelled_caught:
            self.forget(key)
