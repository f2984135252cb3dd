"""The documented home of `CLIToolPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import CLIToolPlugin

__all__ = ["CLIToolPlugin"]
