"""The documented home of `SubagentPlugin`."""

from __future__ import annotations

from jaato.plugins.subagent.plugin import SubagentPlugin

__all__ = ["SubagentPlugin"]
