"""Limits: how many calls of one tool may run at once, and how often somebody may ask."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaato.errors import ConfigError, Overloaded, ToolTimeout
from jaato.server.registry.requests import Headers

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


WRITTEN = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|min|h|d)")
UNITS_S = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
MOST = 10_000
"""Callers that are remembered; who has not asked for longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Rate:
    """This many requests in this many seconds."""

    count: int
    window_s: int


def rate_of(text: str) -> Rate:
    """`100/min`, `5/s`, `1000/12h`. Raises `ConfigError`."""
    match = WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text[:40]!r} is no rate: write 100/min, 5/s or 1000/12h.")
    return Rate(int(match[1]), int(match[2] or 1) * UNITS_S[match[3]])


class Asked:
    """Who has asked how often: a bucket for each, which fills again evenly. Of each only one time is kept."""

    def __init__(self, policy: str, most: int = MOST) -> None:
        self._policy = policy
        self._most = most
        self._free_at: dict[str, float] = {}

    def take(self, who: str, rate: Rate, count: int = 1) -> tuple[float, Headers]:
        """Ask this often, which is at most all there is; how many seconds are to be waited instead (0: none), and the
        headers that say how it stands: what may be asked, what is left, in how many seconds there is all of it again, as
        draft-ietf-httpapi-ratelimit-headers-10 has them.
        """
        now = time.monotonic()
        each_s = rate.window_s / rate.count
        count = min(count, rate.count)
        free_at = max(self._free_at.pop(who, now), now)
        wait_s = free_at + count * each_s - now - rate.window_s
        if wait_s <= 1e-9:
            wait_s = 0.0
            free_at += count * each_s
        self._free_at[who] = free_at
        if len(self._free_at) > self._most:
            del self._free_at[next(iter(self._free_at))]
        left = max(0, math.floor((rate.window_s - (free_at - now)) / each_s + 1e-9))
        policy = self._policy.encode()
        told = [
            (b"ratelimit-policy", b'"%s";q=%d;w=%d' % (policy, rate.count, rate.window_s)),
            (b"ratelimit", b'"%s";r=%d;t=%d' % (policy, left, math.ceil(free_at - now))),
        ]
        return wait_s, told
