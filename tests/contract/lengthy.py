"""A domain with a tool that takes many words to describe, so that there is something to compress."""

from __future__ import annotations

from jaato.tools.tool import Tool, tool, tool_from


def lengthy() -> str:
    return "told"


lengthy.__doc__ = "Say that it was told. " * 100


def load_tools() -> list[Tool]:
    """The tools of this domain."""
    return [tool_from(tool(access="read")(lengthy))]
