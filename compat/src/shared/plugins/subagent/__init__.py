"""The documented home of `SubagentPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import SubagentPlugin

__all__ = ["SubagentPlugin"]
