"""The documented home of `TruncateGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import TruncateGCPlugin

create_plugin = TruncateGCPlugin

__all__ = ["TruncateGCPlugin", "create_plugin"]
