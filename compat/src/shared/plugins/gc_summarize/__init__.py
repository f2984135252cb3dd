"""The documented home of `SummarizeGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import SummarizeGCPlugin

create_plugin = SummarizeGCPlugin

__all__ = ["SummarizeGCPlugin", "create_plugin"]
