"""A domain with a tool that speaks, waits, and notes its end."""

from __future__ import annotations

import threading

import anyio

from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool, tool_from

BEGUN, OVER, GO = threading.Event(), threading.Event(), threading.Event()


@tool(access="read")
async def wait(call: Call) -> str:
    """Say something and wait to be let go."""
    call.output("begun")
    BEGUN.set()
    try:
        while not GO.is_set():
            await anyio.sleep(0.002)
    finally:
        OVER.set()
    return "done"


def load_tools() -> list[Tool]:
    """The tools of this domain."""
    return [tool_from(wait)]
