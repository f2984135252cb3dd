"""How often somebody may ask: so many requests in so long, any of them at once, and no more."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass

from jaato.errors import ConfigError
from jaato.server.registry.request import Headers

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
