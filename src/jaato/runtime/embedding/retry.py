"""Retries for programs without an event loop: the same policy as a session's, and sleeps that can be ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from jaato.agent.retry import RetryPolicy
from jaato.errors import CancelledException, ConnectionFault, ProviderError
from jaato.tools.cancel import CancelToken

T = TypeVar("T")
USUAL = RetryPolicy()
RetryCallback = Callable[[str, int, int, float], None]
"""Told before each wait: what went wrong, the number of the next attempt, attempts at most, seconds to wait."""


@dataclass
class RetryStats:
    """What it took: attempts made, seconds waited between them, and what each failed one said."""

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
    raised, as is everything else at once. `context` names the work in what `on_retry` is told. A cancelled token
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
