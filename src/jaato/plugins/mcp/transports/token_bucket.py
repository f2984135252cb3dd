"""A token bucket: the rate limit on what a server may send."""

from __future__ import annotations

import time


class TokenBucket:
    """A rate limit: `burst` at once, and `a_second` a second from then on."""

    def __init__(self, burst: float, a_second: float) -> None:
        self._burst = burst
        self._a_second = a_second
        self._left = burst
        self._at = time.monotonic()

    def wait_s(self, taken: float) -> float:
        """How long to wait after, or before, taking so many."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._a_second) - taken
        self._at = now
        return max(0.0, -self._left / self._a_second)
