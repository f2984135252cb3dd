"""The documented home of `TruncateGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.truncate import TruncateGCPlugin, create_plugin

__all__ = ["TruncateGCPlugin", "create_plugin"]
