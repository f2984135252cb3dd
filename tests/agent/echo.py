"""A tool for the tests of turns."""

from __future__ import annotations

from jaato.tools.tool import tool


@tool(core=True, access="read")
async def echo(text: str) -> str:
    """Say it again."""
    return text
