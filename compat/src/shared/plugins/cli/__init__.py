"""The documented home of `CLIToolPlugin`."""

from __future__ import annotations

from jaato.plugins.shell import ShellPlugin as CLIToolPlugin

__all__ = ["CLIToolPlugin"]
