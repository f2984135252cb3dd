"""When a model call failed for now: how long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jaato.errors import ProviderError


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
