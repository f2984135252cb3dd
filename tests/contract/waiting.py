"""A domain with a tool that waits: it says in files when it begins and how it ends."""

from __future__ import annotations

from pathlib import Path

import anyio

from jaato.tools.tool import Tool, tool, tool_from


@tool(access="write")
async def wait(place: str, seconds: float) -> str:
    """Wait, and say in files `begun` and `ended` of a folder how far it has come."""
    Path(place, "begun").write_text("yes")
    ended = "cancelled"
    try:
        await anyio.sleep(seconds)
        ended = "finished"
    finally:
        Path(place, "ended").write_text(ended)
    return ended


def load_tools() -> list[Tool]:
    """The tools of this domain."""
    return [tool_from(wait)]
