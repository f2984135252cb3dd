"""`gc_truncate`: the oldest turns are left out, the recent ones stay."""

from __future__ import annotations

from typing import Any

from jaato.abc.compactor import GCConfig, GCResult
from jaato.agent.compaction.history import parted_history
from jaato.protocol.messages import Message


class TruncateGCPlugin:
    """Leaves out whole turns, the oldest first, when the context is fuller than the threshold; of turns that fill it
    alone the oldest calls too."""

    name = "gc_truncate"

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Nothing is to be set."""

    def shutdown(self) -> None:
        """Nothing is open."""

    def should_collect(self, context_usage: dict[str, Any], config: GCConfig) -> tuple[bool, str]:
        """Whether the context is as full as the threshold says."""
        percent = context_usage.get("percent_used") or 0.0
        full = percent >= config.threshold_percent
        return full, f"the context is {percent:.0f} % full" if full else ""

    def collect(
        self, history: list[Message], context_usage: dict[str, Any], config: GCConfig, reason: str
    ) -> tuple[list[Message], GCResult]:
        """All but the last `preserve_recent_turns` turns is left out."""
        first = parted_history(history, context_usage, config).recent
        return history[first:], GCResult(items_collected=first, plugin_name=self.name, trigger_reason=reason)


def create_plugin() -> TruncateGCPlugin:
    """The documented factory."""
    return TruncateGCPlugin()
