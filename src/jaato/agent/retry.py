"""When a model call failed for now: how long to wait before the next try."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from jaato.errors import ProviderError

T = TypeVar("T")
OnRetry = Callable[[int, float, ProviderError], object]
"""Called before each wait with the number of the next attempt, the seconds to wait and what went wrong."""


def ignore(_attempt: int, _wait_s: float, _error: ProviderError) -> None:
    """Say nothing of a retry."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential waits with jitter; a server's own wish counts more, up to `longest_s`."""

    attempts: int = 5
    first_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 60.0

    def wait_s(self, attempt: int, error: ProviderError) -> float | None:
        """Seconds to wait after this attempt (counted from 1) failed; None when it is not worth another."""
        if not error.retryable or attempt >= self.attempts:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.longest_s else None
        longest = min(self.longest_s, self.first_s * self.factor ** (attempt - 1))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 spreading load, not secrets


async def with_retries(
    policy: RetryPolicy, attempt: Callable[[], Awaitable[T]], on_retry: OnRetry = ignore
) -> T:
    """What the first attempt that succeeds gives. Raises the last `ProviderError` once another try is not worth it."""
    import anyio

    number = 1
    while True:
        try:
            return await attempt()
        except ProviderError as error:
            wait_s = policy.wait_s(number, error)
            if wait_s is None:
                raise
            number += 1
            on_retry(number, wait_s, error)
        await anyio.sleep(wait_s)
