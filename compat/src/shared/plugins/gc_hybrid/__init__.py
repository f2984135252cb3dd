"""The documented home of `HybridGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.strategies import HybridGCPlugin

create_plugin = HybridGCPlugin

__all__ = ["HybridGCPlugin", "create_plugin"]
