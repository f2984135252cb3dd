"""The documented home of retries and of sleeps that can be ended."""

from __future__ import annotations

from jaato.agent.retry import RetryCallback, RetryStats, interruptible_sleep, with_retry

__all__ = ["RetryCallback", "RetryStats", "interruptible_sleep", "with_retry"]
