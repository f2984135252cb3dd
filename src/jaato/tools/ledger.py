"""The token ledger: token usage of each model call, and the events of tool execution."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

from jaato.protocol.codec import encode
from jaato.protocol.events import now
from jaato.protocol.messages import Usage

KEPT = 100_000
"""Entries kept in memory; totals count all."""


class TokenLedger:
    """A bounded record of model calls and tool decisions, and exact totals. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._total = Usage()
        self._model_calls = 0
        self._cost_usd = 0.0

    def record(self, stage: str, **data: Any) -> None:
        """Note that something happened: `permission-check`, `auto-background`, `tool-result`, …"""
        self._entries.append({"stage": stage, "timestamp": now(), **data})

    def record_usage(self, model: str, usage: Usage, cost_usd: float | None = None, **data: Any) -> None:
        """Count the tokens (and the price, if known) of one model call."""
        with self._lock:
            self._total = self._total.plus(usage)
            self._model_calls += 1
            self._cost_usd += cost_usd or 0.0
        self.record(
            "response",
            model=model,
            prompt_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
            cached_tokens=usage.cached_input_tokens,
            cost_usd=cost_usd,
            **data,
        )

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The newest entries, oldest first."""
        return list(self._entries)

    def totals(self) -> dict[str, Any]:
        """Tokens, price in US dollars and number of model calls since the start."""
        with self._lock:
            total = self._total
            return {
                "model_calls": self._model_calls,
                "prompt_tokens": total.input_tokens,
                "output_tokens": total.output_tokens,
                "cached_tokens": total.cached_input_tokens,
                "total_tokens": total.input_tokens + total.output_tokens,
                "cost_usd": self._cost_usd,
            }

    def write(self, path: Path) -> None:
        """Write the entries as JSON lines."""
        with path.open("wb") as file:
            for entry in self.entries:
                file.write(encode(entry) + b"\n")
