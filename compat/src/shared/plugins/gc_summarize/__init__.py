"""The documented home of `SummarizeGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import SummarizeGCPlugin
from jaato.agent.compaction.strategies import SummarizeGCPlugin as create_plugin

__all__ = ["SummarizeGCPlugin", "create_plugin"]
