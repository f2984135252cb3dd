"""The documented home of `HybridGCPlugin`."""

from __future__ import annotations

from jaato.agent.compaction.hybrid import HybridGCPlugin, create_plugin

__all__ = ["HybridGCPlugin", "create_plugin"]
