"""The documented home of the strategies' protocol."""

from __future__ import annotations

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult

__all__ = ["GCConfig", "GCPlugin", "GCResult"]
