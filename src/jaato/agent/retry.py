"""Retries model calls with exponential backoff and jitter, on the event loop or in a thread without one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from jaato.errors import CancelledException, ConnectionFault, ProviderError
from jaato.tools.cancel import CancelToken

T = TypeVar("T")
OnRetry = Callable[[int, float, ProviderError], object]
"""Called before each wait with the number of the next attempt, the seconds to wait and what went wrong."""


def ignore(_attempt: int, _wait_s: float, _error: ProviderError) -> None:
    """Ignore a retry."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter; a server's `Retry-After` takes precedence, up to `longest_s`."""

    attempts: int = 5
    first_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 60.0

    def wait_s(self, attempt: int, error: ProviderError) -> float | None:
        """Seconds to wait after this attempt (counted from 1) failed; None when there is no further attempt."""
        if not error.retryable or attempt >= self.attempts:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.longest_s else None
        longest = min(self.longest_s, self.first_s * self.factor ** (attempt - 1))
        import random  # few requests are repeated

        return longest * random.uniform(0.5, 1.0)  # noqa: S311 spreading load, not secrets


async def with_retries(
    policy: RetryPolicy, attempt: Callable[[], Awaitable[T]], on_retry: OnRetry = ignore
) -> T:
    """Return the result of the first attempt that succeeds; raises the `ProviderError` of the last one."""
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
        import anyio  # few requests are repeated

        await anyio.sleep(wait_s)


USUAL = RetryPolicy()
RetryCallback = Callable[[str, int, int, float], None]
"""Called before each wait with the error, the number of the next attempt, the maximum, and the seconds to wait."""


@dataclass
class RetryStats:
    """Attempts made, seconds waited between them, and the error of each failed one."""

    attempts: int = 0
    waited_s: float = 0.0
    errors: list[str] = field(default_factory=list)


def with_retry(
    fn: Callable[[], T],
    context: str = "",
    cancel_token: CancelToken | None = None,
    on_retry: RetryCallback | None = None,
    *,
    policy: RetryPolicy = USUAL,
) -> tuple[T, RetryStats]:
    """Call `fn` until it succeeds, and give its result and what it took.

    Repeated are `ProviderError`s that say a retry can help, and lost or timed-out connections; the last one is
    raised, as is everything else at once. `context` names the work in the arguments of `on_retry`. A cancelled token
    raises `CancelledException` before an attempt and out of a wait.
    """
    stats = RetryStats()
    while True:
        if cancel_token is not None:
            cancel_token.raise_if_cancelled()
        stats.attempts += 1
        try:
            return fn(), stats
        except (ProviderError, ConnectionError, TimeoutError) as error:
            known = error if isinstance(error, ProviderError) else ConnectionFault(str(error))
            stats.errors.append(f"{type(error).__name__}: {error}")
            wait_s = policy.wait_s(stats.attempts, known)
            if wait_s is None:
                raise
            problem = f"{context}: {error}" if context else str(error)
        if on_retry is not None:
            on_retry(problem, stats.attempts + 1, policy.attempts, wait_s)
        interruptible_sleep(wait_s, cancel_token)
        stats.waited_s += wait_s


def interruptible_sleep(seconds: float, cancel_token: CancelToken | None = None) -> None:
    """Sleep; a cancelled token ends it at once with `CancelledException`."""
    if cancel_token is None:
        time.sleep(max(0.0, seconds))
    elif cancel_token.wait(max(0.0, seconds)):
        raise CancelledException("Cancelled while waiting.")
