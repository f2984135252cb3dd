"""How many calls of one tool may run at once: the places it has, and the short queue before them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

from jaato.errors import ConfigError, Overloaded, ToolTimeout

MAX_WAITING = 64
"""Calls of one tool that wait for a place; who comes then is told to come later."""
EVERY = "*"


class Places:
    """The places of the tools that have so many; those of the others are not counted."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self._every = self._most.pop(EVERY, 0)
        self._taken: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def counted(self, name: str) -> bool:
        """Whether a tool has so many places and no more."""
        return bool(self._most.get(name, self._every))

    async def take(self, name: str, within_s: float | None) -> None:
        """Have a place, at once or after those who wait; it is to be given back.

        Raises `Overloaded` where too many wait, `ToolTimeout` when none is free in time.
        """
        taken = self._taken.get(name, 0)
        if taken < self._most.get(name, self._every):
            self._taken[name] = taken + 1
            return
        queue = self._queues.setdefault(name, deque())
        if len(queue) >= MAX_WAITING:
            raise Overloaded(f"{taken} calls of {name} run and {len(queue)} wait; try again later.")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            async with asyncio.timeout(within_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.give_back(name)  # it was ours, and nobody takes it
            elif place in queue:
                queue.remove(place)
            if isinstance(error, TimeoutError):
                raise ToolTimeout(
                    f"{name} was not begun within {within_s:g} s: as many run as may."
                ) from None
            raise

    def give_back(self, name: str) -> None:
        """A call is over: the next one has its place."""
        queue = self._queues.get(name)
        while queue:
            place = queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._queues.pop(name, None)
        left = self._taken[name] - 1
        if left:
            self._taken[name] = left
        else:
            del self._taken[name]


def places_of(said: Iterable[str]) -> dict[str, int]:
    """How many places tools have, from `name=number`. Raises `ConfigError`."""
    found: dict[str, int] = {}
    for one in said:
        name, _, number = (part.strip() for part in one.partition("="))
        if not name or not number.isascii() or not number.isdigit() or not 0 < int(number[:9]) <= 10_000:
            raise ConfigError(
                f"tool_registry_at_once has {one!r}: a tool, or * for each, and how many calls of it run at once, as in run=4."
            )
        found[name] = int(number)
    return found
