"""Limits: the concurrency limit of each tool, and the rate limit of each caller."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaato.errors import ConfigError, Overloaded, ToolTimeout
from jaato.server.registry.requests import Headers

MAX_WAITING = 64
"""Calls of one tool that may be queued; further ones are refused."""
EVERY = "*"


class ConcurrencyLimits:
    """The maximum number of concurrent calls by tool, `*` for each that has none of its own; others are not limited."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._default = self._limits.pop(EVERY, 0)
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    def applies_to(self, name: str) -> bool:
        """Whether the calls of a tool are limited."""
        return bool(self._limits.get(name, self._default))

    async def acquire(self, name: str, within_s: float | None) -> None:
        """Take a slot, queued behind earlier calls; `release` gives it back.

        Raises `Overloaded` if the queue is full, `ToolTimeout` if no slot is free in time.
        """
        slots = self._slots.get(name)
        if slots is None:
            slots = self._slots[name] = asyncio.Semaphore(self._limits.get(name, self._default))
        running, waiting = self._running[name], self._waiting[name]
        if slots.locked() and waiting >= MAX_WAITING:
            raise Overloaded(f"{running} calls of {name} run and {waiting} wait; try again later.")
        self._waiting[name] += 1
        try:
            async with asyncio.timeout(within_s):
                await slots.acquire()
        except TimeoutError:
            raise ToolTimeout(f"{name} was not begun within {within_s:g} s: as many run as may.") from None
        finally:
            self._waiting[name] -= 1
        self._running[name] += 1

    def release(self, name: str) -> None:
        """Give a slot back to the next call in the queue."""
        self._running[name] -= 1
        self._slots[name].release()


def parse_concurrency_limits(values: Iterable[str]) -> dict[str, int]:
    """The limits by tool, from `name=number`. Raises `ConfigError`."""
    found: dict[str, int] = {}
    for one in values:
        name, _, number = (part.strip() for part in one.partition("="))
        if not name or not number.isascii() or not number.isdigit() or not 0 < int(number[:9]) <= 10_000:
            raise ConfigError(
                f"tool_registry_at_once has {one!r}: a tool, or * for each, and how many calls of it run at once, as in run=4."
            )
        found[name] = int(number)
    return found


RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|min|h|d)")
UNITS_S = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
MAX_CALLERS = 10_000
"""Callers whose rate is remembered; the one whose last request is oldest is evicted."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of requests in a time window."""

    count: int
    window_s: int


def parse_rate(text: str) -> Rate:
    """A rate such as `100/min`, `5/s` or `1000/12h`. Raises `ConfigError`."""
    match = RATE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text[:40]!r} is no rate: write 100/min, 5/s or 1000/12h.")
    return Rate(int(match[1]), int(match[2] or 1) * UNITS_S[match[3]])


class RateLimiter:
    """A token bucket for each caller, refilled evenly. Only the time at which it is full again is stored."""

    def __init__(self, policy: str, max_callers: int = MAX_CALLERS) -> None:
        self._policy = policy
        self._max_callers = max_callers
        self._full_at: dict[str, float] = {}

    def take(self, who: str, rate: Rate, count: int = 1) -> tuple[float, Headers]:
        """Take tokens, at most all there are; the seconds to wait if there are too few (0: they were taken), and the headers
        `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.
        """
        now = time.monotonic()
        each_s = rate.window_s / rate.count
        count = min(count, rate.count)
        full_at = max(self._full_at.pop(who, now), now)
        wait_s = full_at + count * each_s - now - rate.window_s
        if wait_s <= 1e-9:
            wait_s = 0.0
            full_at += count * each_s
        self._full_at[who] = full_at
        if len(self._full_at) > self._max_callers:
            del self._full_at[next(iter(self._full_at))]
        left = max(0, math.floor((rate.window_s - (full_at - now)) / each_s + 1e-9))
        policy = self._policy.encode()
        headers = [
            (b"ratelimit-policy", b'"%s";q=%d;w=%d' % (policy, rate.count, rate.window_s)),
            (b"ratelimit", b'"%s";r=%d;t=%d' % (policy, left, math.ceil(full_at - now))),
        ]
        return wait_s, headers
