"""The documented home of `SummarizeGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.summarize import SummarizeGCPlugin, create_plugin

__all__ = ["SummarizeGCPlugin", "create_plugin"]
