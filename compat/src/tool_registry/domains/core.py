"""The documented domain `core`: `echo`, `calc` and `time_now`."""

from __future__ import annotations

from jaato.runtime.domains.core import load_tools
from jaato.tools.tool import Tool

__all__ = ["Tool", "load_tools"]
