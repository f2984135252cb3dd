"""The documented home of `HybridGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import HybridGCPlugin
from jaato.agent.compaction.strategies import HybridGCPlugin as create_plugin

__all__ = ["HybridGCPlugin", "create_plugin"]
