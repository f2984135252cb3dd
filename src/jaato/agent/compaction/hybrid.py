"""`gc_hybrid`: the recent turns stay, the middle is summarised, the oldest is dropped."""

from __future__ import annotations

from typing import Any

from jaato.abc.compactor import GCConfig
from jaato.agent.compaction.history import newer_half, parted_history
from jaato.agent.compaction.summarize import SummarizeGCPlugin
from jaato.protocol.messages import Message


class HybridGCPlugin(SummarizeGCPlugin):
    """As `gc_summarize`, but only the newer half of what is left out is told to the model: half the price. Of the
    older half it learns what was asked, and what a summary before said."""

    name = "gc_hybrid"

    def told(
        self, history: list[Message], context_usage: dict[str, Any], config: GCConfig
    ) -> tuple[int, int]:
        """The newer half of what is not recent."""
        pieces = parted_history(history, context_usage, config)
        return newer_half(history, pieces.begins, pieces.recent), pieces.recent


def create_plugin() -> HybridGCPlugin:
    """The documented factory."""
    return HybridGCPlugin()
