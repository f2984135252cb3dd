"""A domain whose tools show what `core` cannot: one that may not be called, one that raises, one of two numbers."""

from __future__ import annotations

from jaato.tools.tool import Tool, tool, tool_from

SECRET = "the password is hunter2"


@tool(access="write", version="2.1.0", tags=("show",))
def locked() -> str:
    """Say yes."""
    return "yes"


@tool(access="read")
def broken() -> str:
    """Raise an exception."""
    raise RuntimeError(SECRET)


@tool(access="execute", returns={"type": "integer"})
def pair(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def load_tools() -> list[Tool]:
    """The tools of this domain."""
    return [tool_from(one) for one in (locked, broken, pair)]
