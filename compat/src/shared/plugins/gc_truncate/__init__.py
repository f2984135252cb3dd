"""The documented home of `TruncateGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import TruncateGCPlugin
from jaato.agent.compaction.strategies import TruncateGCPlugin as create_plugin

__all__ = ["TruncateGCPlugin", "create_plugin"]
